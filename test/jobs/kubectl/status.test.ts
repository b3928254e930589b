/** `status` in an embedded world. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { RESOURCES } from '../../../crds/crd.ts'
import { VecBackup } from '../../../crds/backup.ts'
import { API_VERSION } from '../../../crds/contract/names.ts'
import { EXIT_CODES } from '../../../jobs/kubectl/command.ts'
import { formatStatus, type StatusReport } from '../../../jobs/kubectl/status.ts'
import { matchWhole } from '../../match-whole.ts'
import { backupResource, deleted } from '../../scenarios/backup-parts.ts'
import { clusterManifest, clusterReference, untilReason } from '../../scenarios/scenario.ts'
import { startEmbeddedWorld } from '../../world/embedded.ts'
import { openApi, openNamespace } from '../job-fixture.ts'
import { cliFor, runCommand, runningWithKey } from './cli-user.ts'

const world = await startEmbeddedWorld()
t.teardown(() => world.close())
const namespace = await world.namespace('status')
const bucket = await world.bucket(namespace)
const type = cliFor(t, world.api, namespace)
const KEY = 'the-key-that-must-stay-secret-1234567890'

await runningWithKey(world, { namespace, name: 'docs', replicas: 2 }, KEY)
const books = { apiVersion: API_VERSION, kind: 'VecCollection', namespace, name: 'books' }
await world.apply({
  apiVersion: API_VERSION,
  kind: 'VecCollection',
  metadata: { name: 'books', namespace },
  spec: { clusterRef: { name: 'docs' }, vectors: [{ size: 4, distance: 'Dot' }], shardNumber: 2 },
})
await world.waitFor(books, 'Ready', (object) => phaseOf(object) === 'Ready')

t.test('status shows every resource of a namespace with its phase and its words', async (t) => {
  const { code, out } = await type('status')
  t.equal(code, EXIT_CODES.success)
  t.match(out, /^RESOURCE +PHASE +AGE +MESSAGE\n/)
  t.match(out, /\nVecCluster\/docs +Running +\S+ +2\/2 replicas ready\n/)
  t.match(out, /\nVecCollection\/books +Ready +\S+ +collection, indexes and aliases match spec\n/)
})

t.test('a Failed resource shows its error, in the list shortened and alone in full', async (t) => {
  const { reference, of } = backupResource('VecBackup', { namespace, name: 'bad' }, bucket)
  const { spec } = of({ clusterRef: { name: 'docs' } }) as { spec: { storage: { s3: object } } }
  const s3 = { ...spec.storage.s3, bucket: 'nowhere' }
  await world.apply({ ...of(), spec: { ...spec, storage: { s3 } } })
  await world.waitFor(reference, 'Failed', (object) => phaseOf(object) === 'Failed', 300)
  const listed = await type('status')
  t.match(
    listed.out,
    /\nVecBackup\/bad +Failed +\S+ +Backed up 0\/0 collections: GET s3:\/\/nowhere\//,
  )
  const { out } = await type('status', 'qb/bad')
  t.match(out, / \(there is no bucket nowhere at this endpoint\)\n/)
  t.match(out, /\nBackupFailed: Fix the cause in status\.error and create another VecBackup/)
  t.match(out, /\nFailed: create the bucket, /)
  await deleted(world, reference)
})

t.test('a resource that waits for the user says what to do', async (t) => {
  const secretRef = { name: 'none', key: 'key' }
  await world.apply(
    clusterManifest(namespace, 'stuck', { version: world.versions.newer, apiKey: { secretRef } }),
  )
  const stuck = clusterReference(namespace, 'stuck')
  await untilReason(world, stuck, 'InvalidSecret')
  const { out } = await type('status', 'qc/stuck')
  t.match(out, new RegExp(`^VecCluster ${namespace}/stuck {2}Pending {2}\\(\\S+ old\\)\\n`))
  t.match(out, /\nInvalidSecret: /)
  t.notMatch((await type('status', 'qc/docs')).out, /\nUpToDate: /, 'nothing is to be done')
  await world.delete(stuck)
})

t.test('status -A has a column for the namespace, -n another one', async (t) => {
  t.match((await type('status', '-A')).out, new RegExp(`\\n${namespace} +VecCluster/docs `))
  t.equal((await type('status', '-n', 'default')).out, 'No resources in namespace default.\n')
})

for (const name of ['VecCluster/docs', 'vecclusters/docs', 'qc/docs', 'qc docs']) {
  t.test(`status ${name} draws the cluster with its nodes, shards and Jobs`, async (t) => {
    const { code, out, err } = await type('status', ...name.split(' '))
    t.equal(code, EXIT_CODES.success, err)
    t.match(out, new RegExp(`^VecCluster ${namespace}/docs {2}Running `))
    t.match(out, /\n {2}Applied=True +UpToDate +generation 1 is applied\n/)
    t.match(out, /\nNODE +READY +VERSION +ZONE +REPLICAS +PEER +CONSENSUS\n/)
    t.match(out, /\nvec-docs-0 +yes +1\.18\.3 +- +[12] +\d+ leader +working\n/)
    t.match(out, /\nvec-docs-1 +yes +1\.18\.3 +- +[012] +\d+ +working\n/)
    t.match(out, /\nCOLLECTION +SHARD +VEC-DOCS-0 +VEC-DOCS-1\nbooks +0 .*Active/)
    t.match(out, /\ndocs-upgrade-[0-9a-f]{5}-\d+ +upgrade +Complete +\S+ +Done/)
  })
}

t.test('status of a collection shows its cluster, and its own shards only', async (t) => {
  const { code, out } = await type('status', 'qcol/books')
  t.equal(code, EXIT_CODES.success)
  t.match(out, new RegExp(`\\nVecCluster ${namespace}/docs {2}Running `))
  t.match(out, /\nCOLLECTION +SHARD/)
  t.match(out, /\n  pointsCount +0\n/)
  t.notMatch(out, /\nJOB/)
})

t.test(
  'work on shards is shown with its step, rate and time left, and zones of nodes',
  async (t) => {
    const { out } = await type('status', 'qc/docs', '--json')
    const report = JSON.parse(out) as StatusReport
    const [first, second] = report.engine?.nodes ?? []
    if (report.engine === undefined || first === undefined || second === undefined) {
      throw new Error('the cluster has no nodes')
    }
    const engine = {
      ...report.engine,
      nodes: [
        { ...first, zone: 'a' },
        { ...second, zone: 'b' },
      ],
    }
    const shards = {
      ...{ replicas: 12, activeReplicas: 11, stepsDone: 4, stepsLeft: 6 },
      step: 'docs/3: replicating from node 1 to node 4 (62 %)',
      ...{ bytesMoved: 1024 ** 3, bytesLeft: 2 * 1024 ** 3 },
      ...{ bytesPerSecond: 40 * 1024 ** 2, secondsLeft: 130 },
    }
    const resource = { ...report.resource, fixes: [] }
    const text = formatStatus({ ...report, resource, shards, engine }, new Date())
    t.match(
      text,
      '\nShards: 11 of 12 replicas are Active\n' +
        '  docs/3: replicating from node 1 to node 4 (62 %)\n' +
        '  4 of 10 steps done, 1 GiB of 3 GiB copied, 40 MiB/s, about 2m left\n',
    )
    t.match(text, /\nvec-docs-0 +yes +1\.18\.3 +a +\d /)
    t.match(text, /\nvec-docs-1 +yes +1\.18\.3 +b +\d /)
    const { step: _, ...counts } = shards
    const idle = formatStatus({ ...report, resource, shards: counts }, new Date())
    t.match(idle, '\nShards: 11 of 12 replicas are Active\n\nNODE ')
  },
)

t.test('status --json has the data of the drawing', async (t) => {
  const { out } = await type('status', 'qc/docs', '--json')
  matchWhole(t, JSON.parse(out), {
    resource: {
      ...{ kind: 'VecCluster', namespace, name: 'docs', phase: 'Running' },
      cures: [],
      facts: { version: '1.18.3', endpoint: `http://vec-docs.${namespace}.svc.cluster.local:6333` },
    },
    engine: {
      nodes: [{ pod: 'vec-docs-0', ready: true }, { pod: 'vec-docs-1' }],
      shards: [
        { collection: 'books', shard: 0 },
        { collection: 'books', shard: 1 },
      ],
    },
    jobs: [{ verb: 'upgrade', state: 'Complete' }],
  })
})

t.test('the list is printed by name, wide, as JSON and as YAML', async (t) => {
  const { out: names } = await type('status', '--output', 'name')
  t.match(names, /^veccluster\.vec-operator\.dev\/docs$/m)
  t.match(names, /^veccollection\.vec-operator\.dev\/books$/m)
  const { out: wide } = await type('status', '-o', 'wide')
  t.match(wide, /^RESOURCE +PHASE +AGE +CLUSTER +MESSAGE\n/)
  t.match(wide, new RegExp(`\\nVecCollection/books +Ready +\\S+ +${namespace}/docs +`))
  const json = JSON.parse((await type('status', '-o', 'json')).out) as unknown
  t.strictSame(parse((await type('status', '-o', 'yaml')).out), json)
  const cluster = `${namespace}/docs`
  matchWhole(t, json, [
    { kind: 'VecCluster', name: 'docs', cluster },
    { kind: 'VecCollection', name: 'books', cluster },
  ])
})

t.test('one resource is printed by name and as YAML', async (t) => {
  t.equal(
    (await type('status', 'qcol/books', '-o', 'name')).out,
    'veccollection.vec-operator.dev/books\n',
  )
  const { out } = await type('status', 'qcol/books', '-o', 'yaml')
  matchWhole(t, parse(out), { resource: { kind: 'VecCollection', name: 'books' }, jobs: [] })
})

t.test('no command prints a key', async (t) => {
  const own = { apiVersion: 'v1', kind: 'Secret', namespace, name: 'vec-docs-apikey' }
  const { data } = (await world.client.get(own)) as unknown as { data: Record<string, string> }
  t.equal(Buffer.from(data['api-key'] ?? '', 'base64').toString(), KEY, 'the one it works with')
  for (const args of [['status'], ['status', 'qc/docs'], ['status', 'qc/docs', '--json']]) {
    const { out, err } = await type(...args)
    t.match(out, /docs/)
    t.notMatch(out + err, KEY)
    t.notMatch(out + err, Buffer.from(KEY).toString('base64'))
  }
})

t.test('status names the first kind that may not be listed, whichever answers first', async (t) => {
  const [first, ...others] = RESOURCES.map(({ plural }) => plural)
  let answered = 0
  const server = createServer((request, response) => {
    const [, plural = ''] = /\/(vec\w+)(\?|$)/.exec(request.url ?? '') ?? []
    const answer = () => {
      answered += 1
      response.writeHead(403, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ kind: 'Status', message: `no list of ${plural}` }))
    }
    const afterOthers = () => {
      if (plural !== first || answered === others.length) answer()
      else setImmediate(afterOthers)
    }
    afterOthers()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const port = (server.address() as AddressInfo).port
  const { code, err } = await runCommand(['status', '-n', 'ns'], {
    VEC_API_SERVER: `http://127.0.0.1:${port}`,
  })
  t.equal(code, EXIT_CODES.failure)
  t.equal(answered, RESOURCES.length)
  t.match(err, new RegExp(`answered 403: no list of ${first}$`, 'm'))
})

t.test(
  'status fails without any CRD, and lists nothing with one CRD and no resources',
  async (t) => {
    const { server, api } = await openApi(t)
    const type = cliFor(t, server, 'ns')
    const none = await type('status')
    t.equal(none.code, EXIT_CODES.failure)
    t.match(none.err, /no kind of vec-operator\.dev: the CRDs are not installed$/m)
    await openNamespace(api, VecBackup)
    const one = await type('status')
    t.equal(one.code, EXIT_CODES.success)
    t.equal(one.out, 'No resources in namespace ns.\n')
  },
)

/** The API for a user who may not list pods and Jobs. */
async function restrictedApi(t: Test): Promise<string> {
  const { url: origin, token } = world.api
  const server = createServer((request, response) => {
    const { url = '' } = request
    if (/\/(pods|jobs)\?/.test(url)) {
      response.writeHead(403, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ kind: 'Status', message: 'forbidden for this user' }))
      return
    }
    fetch(origin + url, { headers: { authorization: `Bearer ${token}` } })
      .then(async (answer) => response.writeHead(answer.status).end(await answer.text()))
      .catch(() => response.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

t.test('what the user may not read is named, and the rest is shown', async (t) => {
  const env = { VEC_API_SERVER: await restrictedApi(t) }
  const args = ['status', 'qcol/books', '-n', namespace]
  const { code, out } = await runCommand(args, env)
  t.equal(code, EXIT_CODES.success)
  t.match(out, new RegExp(`^VecCollection ${namespace}/books  Ready`))
  t.match(out, new RegExp(`^VecCluster ${namespace}/docs  Running`, 'm'))
  t.match(out, /^nodes: GET \S+\/pods\?\S+ answered 403: forbidden for this user$/m)
  t.match(out, /^Jobs: GET \S+\/jobs\?\S+ answered 403: forbidden for this user$/m)
  t.notMatch(out, 'Nodes: none')
  const { jobs, unread, engine } = JSON.parse(
    (await runCommand([...args, '--json'], env)).out,
  ) as StatusReport
  matchWhole(
    t,
    { jobs, unread, engine },
    { jobs: [], unread: [/^Jobs: /], engine: { nodes: [], shards: [], notes: [/^nodes: /] } },
  )
})

t.test('status of a missing resource, or of another kind, is an error', async (t) => {
  t.match(await type('status', 'qc/none'), {
    code: EXIT_CODES.failure,
    err: `vec-operator: VecCluster ${namespace}/none not found\n`,
  })
  t.match(await type('status', 'pod/x'), {
    code: EXIT_CODES.usage,
    err: /unknown kind pod; use one of veccluster \(qc\)/,
  })
  t.match(await type('status', 'qc'), { code: EXIT_CODES.usage, err: /name is missing: use qc/ })
})

t.test(
  'where the key of the cluster is gone, its nodes are shown with what they say',
  async (t) => {
    const secret = { apiVersion: 'v1', kind: 'Secret', namespace, name: 'vec-docs-apikey' }
    await world.client.delete(secret)
    const { code, out } = await type('status', 'qc/docs')
    t.equal(code, EXIT_CODES.success)
    t.match(out, /\nvec-docs-1 +yes +- +- +- +- +GET \/cluster on vec-docs-1\.\S+ answered 401: /)
    t.notMatch(out, /COLLECTION/)
  },
)

function phaseOf(object: unknown): string | undefined {
  return (object as { status?: { phase?: string } } | undefined)?.status?.phase
}
