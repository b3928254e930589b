/** `advise` in an embedded world: what it reads, and what it prints. */
import t from 'tap'
import { parse } from 'yaml'
import { API_VERSION } from '../../../../crds/contract/names.ts'
import { EXIT_CODES } from '../../../../jobs/kubectl/command.ts'
import { matchWhole } from '../../../match-whole.ts'
import { backupResource } from '../../../scenarios/backup-parts.ts'
import { startEmbeddedWorld } from '../../../world/embedded.ts'
import { cliFor, runningWithKey } from '../cli-user.ts'

const KEY = 'the-key-that-must-stay-secret-1234567890'
const world = await startEmbeddedWorld()
t.teardown(() => world.close())
const namespace = await world.namespace('advise')
const type = cliFor(t, world.api, namespace)
await runningWithKey(world, { namespace, name: 'docs', replicas: 3 }, KEY)
for (const [name, replicationFactor] of [
  ['books', 1],
  ['films', 2],
] as const) {
  await world.apply({
    apiVersion: API_VERSION,
    kind: 'VecCollection',
    metadata: { name, namespace },
    spec: {
      ...{ clusterRef: { name: 'docs' }, vectors: [{ size: 4, distance: 'Dot' }] },
      ...{ shardNumber: 3, replicationFactor },
    },
  })
  const reference = { apiVersion: API_VERSION, kind: 'VecCollection', namespace, name }
  await world.waitFor(reference, 'Ready', (object) => {
    return (object as { status?: { phase?: string } } | undefined)?.status?.phase === 'Ready'
  })
}

interface Report {
  collection?: string
  nodes: number
  items: { rule: string; collection?: string; seen: string }[]
  unread: string[]
}

async function report(...args: string[]): Promise<Report> {
  return JSON.parse((await type('advise', ...args, '--json')).out) as Report
}

function engine() {
  const found = world.controllers.engines.cluster(namespace, 'vec-docs')
  if (found === undefined) throw new Error('there is no engine')
  return found
}

t.test('a cluster: what was seen, why, and what to set; exit code 0', async (t) => {
  const { code, out, err } = await type('advise', 'qc/docs')
  t.equal(code, EXIT_CODES.success, err)
  t.match(out, `cluster ${namespace}/docs, nodes that answered: 3\n\n`)
  t.match(
    out,
    /^! {2}NoBackupSchedule\n {3}seen: no VecBackupSchedule names this cluster\n {3}why: {2}\S/m,
  )
  t.match(
    out,
    /^! {2}SingleCopy, collection books\n {3}seen: replication factor 1: \S+ \S+ in 3 shards/m,
  )
  t.match(out, /^ {3}set: {2}spec\.replicationFactor: 2 of its VecCollection/m)
  t.match(out, /^- {2}NoMemoryLimit\n/m)
  t.match(out, /\n\d warnings, \d notes; nothing was changed\n$/)
  t.notMatch(out, /collection films/)
  t.notMatch(out, KEY)
})

t.test('a collection: only what is about it', async (t) => {
  const { code, out } = await type('advise', 'qcol', 'books')
  t.equal(code, EXIT_CODES.success)
  t.match(out, `cluster ${namespace}/docs, collection books, nodes that answered: 3\n`)
  matchWhole(t, (await report('qcol/books')).items, [{ rule: 'SingleCopy', collection: 'books' }])
  matchWhole(t, await report('qcol/films'), {
    collection: 'films',
    nodes: 3,
    items: [],
    unread: [],
  })
})

t.test(
  'what the engine reports about slow queries and memory is read from each node',
  async (t) => {
    const films = engine().find('films')
    if (films === undefined) throw new Error('there is no collection')
    films.slowFields = ['year', 'title/first']
    const { items } = await report('qcol/films')
    matchWhole(t, items, [
      {
        rule: 'MissingIndex',
        seen: 'slow queries filtered by title/first, year, without an index',
      },
    ])
    films.payloadSchema = { year: {}, 'title/first': {} }
    t.strictSame((await report('qcol/films')).items, [])
    const reference = { apiVersion: API_VERSION, kind: 'VecCluster', namespace, name: 'docs' }
    const resources = { limits: { memory: '1Gi' } }
    await world.patch(reference, { spec: { resources } })
    engine().residentBytes = 900 * 2 ** 20
    const memory = (await report('qc/docs')).items.find(({ rule }) => rule === 'Memory')
    t.match(memory?.seen, 'node 0 87 %, node 1 87 %, node 2 87 % of 1 GiB in use')
    await world.waitFor(reference, 'rolled out', (object) => {
      return (object as { status?: { phase?: string } } | undefined)?.status?.phase === 'Running'
    })
  },
)

t.test('a schedule of the cluster counts, one of another cluster does not', async (t) => {
  const bucket = await world.bucket(namespace)
  const create = async (name: string, cluster: string) => {
    const { of } = backupResource('VecBackupSchedule', { namespace, name }, bucket)
    await world.apply(of({ clusterRef: { name: cluster }, schedule: '0 3 * * *' }))
  }
  const rules = async () => (await report('qc/docs')).items.map(({ rule }) => rule)
  await create('other', 'elsewhere')
  t.ok((await rules()).includes('NoBackupSchedule'))
  await create('nightly', 'docs')
  t.notOk((await rules()).includes('NoBackupSchedule'))
})

t.test('as YAML, the same', async (t) => {
  const { out } = await type('advise', 'qc/docs', '--output', 'yaml')
  t.strictSame(parse(out), await report('qc/docs'))
})

t.test('facts that could not be read are listed, and the exit code is 1', async (t) => {
  world.controllers.engines.misbehave(({ path }) =>
    path.join('/') === 'issues' ? { status: 503, body: '{}' } : undefined,
  )
  const { code, out } = await type('advise', 'qc/docs')
  world.controllers.engines.misbehave()
  t.equal(code, EXIT_CODES.failure)
  for (const ordinal of [0, 1, 2]) {
    t.match(out, new RegExp(`^x {2}not read: node ${ordinal}: .*503`, 'm'))
  }
  t.notMatch(out, /collection /, 'shards of nodes that do not answer are not missing ones')
})

t.test('another kind and a missing resource are rejected', async (t) => {
  t.match(await type('advise', 'qb/docs'), {
    code: EXIT_CODES.usage,
    err: 'vec-operator: advise: name a VecCluster or a VecCollection\n',
  })
  t.match(await type('advise', 'qc'), { code: EXIT_CODES.usage })
  for (const name of ['qc/none', 'qcol/none']) {
    t.match(await type('advise', name), { code: EXIT_CODES.failure, err: /none not found/ })
  }
})
