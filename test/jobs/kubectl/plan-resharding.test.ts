/** `plan` of another number of shards, in an embedded world whose operator has been stopped. */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { API_VERSION } from '../../../crds/contract/names.ts'
import { reshardingOwner } from '../../../jobs/cluster/shards/resharding-steps.ts'
import { EXIT_CODES } from '../../../jobs/kubectl/command.ts'
import { running } from '../../scenarios/scenario.ts'
import { startEmbeddedWorld } from '../../world/embedded.ts'
import { cliFor } from './cli-user.ts'

const world = await startEmbeddedWorld()
t.teardown(() => world.close())
const namespace = await world.namespace('plan')
const type = cliFor(t, world.api, namespace)
const cluster = await running(world, namespace, 'docs', {
  ...{ replicas: 3, resharding: true },
  cluster: { enabled: true },
})
const vectors = [{ size: 4, distance: 'Dot' }]

/** Of this spec, once it is Ready. */
async function collection(name: string, spec: object) {
  const metadata = { name, namespace }
  await world.apply({
    ...{ apiVersion: API_VERSION, kind: 'VecCollection', metadata },
    spec: { clusterRef: { name: 'docs' }, vectors, ...spec },
  })
  const reference = { apiVersion: API_VERSION, kind: 'VecCollection', namespace, name }
  await world.waitFor(reference, 'Ready', (object) => {
    return (object as { status?: { phase?: string } } | undefined)?.status?.phase === 'Ready'
  })
  return reference
}

const books = await collection('books', { shardNumber: 2, replicationFactor: 2 })
await collection('keyed', { shardNumber: 1, shardingMethod: 'custom' })
await world.faults.stopService()

/** Names the collection of an older one: nothing is done for it. */
await world.apply({
  ...{ apiVersion: API_VERSION, kind: 'VecCollection' },
  metadata: { name: 'a-younger', namespace },
  spec: { clusterRef: { name: 'docs' }, vectors, collectionName: 'books', shardNumber: 5 },
})

interface Report {
  steps: { step: { do: string; collection?: string }; purpose: string; bytes: number }[]
  bytes: number
  end: { is: string; reason?: string }
}

async function report(...args: string[]): Promise<Report> {
  return JSON.parse((await type('plan', ...args, '--json')).out) as Report
}

const stepsOf = ({ steps }: Report) => steps.map(({ step }) => step.do)
/** The steps from two shards to three, with two replicas each. */
const ONE_MORE = [
  ...['startResharding', 'streamPoints', 'streamPoints', 'finishMigration', 'replicate'],
  'commitRead',
  ...Array.from({ length: 4 }, () => 'cleanReplica'),
  ...['commitWrite', 'finishResharding'],
  ...Array.from({ length: 6 }, () => 'checkReplica'),
]

t.test('--shards shows the steps before spec.shardNumber is changed', async (t) => {
  const planned = await report('qcol/books', '--shards', '3')
  t.strictSame(planned.end, { is: 'done' })
  t.strictSame(stepsOf(planned), ONE_MORE)
  t.ok(planned.bytes > 0, 'what is copied has a size')
  t.strictSame(stepsOf(await report('qcol/books')), [], 'nothing without the flag')
})

t.test('the plan of a cluster includes spec.shardNumber of its VecCollections', async (t) => {
  await world.patch(books, { spec: { shardNumber: 3 } })
  t.strictSame(stepsOf(await report('qc/docs')), ONE_MORE)
  t.strictSame(stepsOf(await report('qcol/books')), ONE_MORE)
  await world.patch(books, { spec: { shardNumber: 2 } })
  t.strictSame(stepsOf(await report('qc/docs')), [])
})

t.test(
  'a resharding of the operator is planned, and one of another client is refused',
  async (t) => {
    const live = await world.get(cluster)
    const uid = live?.metadata.uid ?? ''
    const pod = { namespace, name: 'vec-docs-0' }
    const call = (body: object) => world.engine(pod, 'POST', '/collections/books/cluster', body)
    const foreign = randomUUID()
    await call({ start_resharding: { uuid: foreign, direction: 'up', shard_key: null } })
    t.match((await report('qc/docs')).end, { is: 'refused', reason: 'ForeignResharding' })
    t.equal((await type('plan', 'qc/docs')).code, EXIT_CODES.failure)
    await call({ abort_resharding: {} })

    const hex = `${reshardingOwner(uid)}${foreign.replaceAll('-', '')}`.slice(0, 32)
    const ours = hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
    await call({ start_resharding: { uuid: ours, direction: 'up', shard_key: null } })
    const { steps, end } = await report('qc/docs')
    t.strictSame(end, { is: 'done' })
    t.equal(steps[0]?.step.do, 'abortResharding', 'two shards are asked for')
    await call({ abort_resharding: {} })
  },
)

t.test('the number of a younger VecCollection of the same collection is not planned', async (t) => {
  t.strictSame(stepsOf(await report('qc/docs')), [])
  t.match(await type('plan', 'qcol/a-younger'), {
    code: EXIT_CODES.failure,
    err: /a-younger does not manage collection books: VecCollection [^ ]+\/books does/,
  })
  await world.patch(books, { spec: { shardNumber: 3 } })
  const planned = await report('qc/docs')
  t.equal(stepsOf(planned).filter((step) => step === 'startResharding').length, 1, 'not to five')
  await world.patch(books, { spec: { shardNumber: 2 } })
})

t.test('a number of shards that cannot be changed is an error with the reason', async (t) => {
  t.match(await type('plan', 'qcol/keyed', '--shards', '2'), {
    code: EXIT_CODES.failure,
    err: /keyed has shard keys: their numbers of shards are not changed/,
  })
  t.match(await type('plan', 'qcol/none'), { code: EXIT_CODES.failure, err: /none not found/ })
  t.match(await type('plan', 'qc/docs', '--shards', '2'), {
    code: EXIT_CODES.usage,
    err: /--shards needs a VecCollection/,
  })
  t.match(await type('plan', 'qcol/books', '--shards', '0'), { code: EXIT_CODES.usage })
  await world.patch(cluster, { spec: { resharding: false } })
  t.match(await type('plan', 'qcol/books', '--shards', '3'), {
    code: EXIT_CODES.failure,
    err: /docs has spec.resharding false/,
  })
  t.strictSame(stepsOf(await report('qc/docs')), [])
})
