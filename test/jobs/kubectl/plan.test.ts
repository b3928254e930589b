/** `plan` in an embedded world: the steps for the shards of a cluster, and what would be refused. */
import t from 'tap'
import { API_VERSION } from '../../../crds/contract/names.ts'
import { EXIT_CODES } from '../../../jobs/kubectl/command.ts'
import { running } from '../../scenarios/scenario.ts'
import { startEmbeddedWorld } from '../../world/embedded.ts'
import { cliFor } from './cli-user.ts'

const world = await startEmbeddedWorld()
t.teardown(() => world.close())
const namespace = await world.namespace('plan')
const type = cliFor(t, world.api, namespace)
await running(world, namespace, 'docs', { replicas: 3, cluster: { enabled: true } })
const books = { apiVersion: API_VERSION, kind: 'VecCollection', namespace, name: 'books' }
await world.apply({
  apiVersion: API_VERSION,
  kind: 'VecCollection',
  metadata: { name: 'books', namespace },
  spec: {
    clusterRef: { name: 'docs' },
    vectors: [{ size: 4, distance: 'Dot' }],
    shardNumber: 3,
    replicationFactor: 2,
  },
})
await world.waitFor(books, 'Ready', (object) => {
  return (object as { status?: { phase?: string } } | undefined)?.status?.phase === 'Ready'
})

interface Report {
  nodes: number
  plannedNodes: number
  steps: { step: { do: string }; purpose: string; description: string; bytes: number }[]
  bytes: number
  end: { is: string; reason?: string }
}

async function report(...flags: string[]): Promise<Report> {
  return JSON.parse((await type('plan', 'qc/docs', '--json', ...flags)).out) as Report
}

t.test('a cluster that is as desired needs nothing', async (t) => {
  const { code, out, err } = await type('plan', 'qc/docs')
  t.equal(code, EXIT_CODES.success, err)
  t.equal(
    out,
    `cluster ${namespace}/docs, nodes: 3, 6 Active replicas of 6\n\n` +
      'nothing is due\n0 steps, 0 copies of 0 B in total; nothing was changed\n',
  )
})

t.test('more nodes get replicas: each is copied before it is dropped elsewhere', async (t) => {
  const { code, out, err } = await type('plan', 'veccluster', 'docs', '--replicas', '5')
  t.equal(code, EXIT_CODES.success, err)
  t.match(out, new RegExp(`^cluster ${namespace}/docs, nodes: 3 -> 5, 6 Active replicas of 6\\n`))
  t.match(
    out,
    /\nSTEP +PURPOSE +SIZE +ACTION\n1 +balance +\S+ \S+ +copy books\/\d from node \d to node [34]\n/,
  )
  const { steps, bytes, end, plannedNodes } = await report('--replicas', '5')
  t.strictSame({ end, plannedNodes }, { end: { is: 'done' }, plannedNodes: 5 })
  t.equal(
    bytes,
    steps.reduce((sum, step) => sum + step.bytes, 0),
  )
  const kinds = steps.map(({ step }) => step.do)
  t.strictSame(kinds.toSorted(), ['drop', 'drop', 'replicate', 'replicate'])
  t.equal(kinds[0], 'replicate')
})

t.test('a node is drained, then removed, then its pod', async (t) => {
  const { steps, end } = await report('--replicas', '2')
  t.strictSame(end, { is: 'done' })
  const kinds = steps.map(({ step }) => step.do)
  t.strictSame(kinds.slice(-2), ['removePeer', 'scaleDown'])
  t.strictSame(
    new Set(kinds.slice(0, -2)),
    new Set(['replicate', 'drop']),
    'replicas are copied and dropped before',
  )
  t.ok(steps.every(({ purpose }) => purpose === 'scale-in'))
  t.equal(steps.at(-1)?.description, 'lower the StatefulSet to 2 pods')
})

t.test('fewer nodes than replicas are refused, with the reason and exit code 1', async (t) => {
  const { code, out } = await type('plan', 'qc/docs', '--replicas', '1')
  t.equal(code, EXIT_CODES.failure)
  t.match(out, /\nrefused: NotEnoughNodes: .*"books" has replication factor 2/)
  t.match((await report('--replicas', '1')).end, { is: 'refused', reason: 'NotEnoughNodes' })
})

t.test('a message with the name of a collection has no control characters', async (t) => {
  const pod = { namespace, name: 'vec-docs-0' }
  const path = `/collections/${encodeURIComponent('b\u001b[2J\u202e')}`
  await world.engine(pod, 'PUT', path, {
    vectors: { size: 4, distance: 'Dot' },
    replication_factor: 3,
  })
  const { out } = await type('plan', 'qc/docs', '--replicas', '1')
  await world.engine(pod, 'DELETE', path)
  t.match(out, '"b\\u{1b}[2J\\u{202e}" has replication factor 3')
  t.notMatch(out, /[\u001b\u202e]/)
})

t.test('nothing was changed by any of them', async (t) => {
  const set = { apiVersion: 'apps/v1', kind: 'StatefulSet', namespace, name: 'vec-docs' }
  t.match(await world.get(set), { spec: { replicas: 3 } })
  t.strictSame((await report()).steps, [])
})

t.test('another kind, or a number of nodes that is not a number, is a usage error', async (t) => {
  for (const args of [['qak/books'], ['qc'], ['qc/docs', '--replicas', '0']]) {
    t.match(await type('plan', ...args), {
      code: EXIT_CODES.usage,
      err: /^vec-operator: plan(:| qc:) /,
    })
  }
  t.match(await type('plan', 'qc/docs', '--replicas', 'many'), { code: EXIT_CODES.usage })
  t.match(await type('plan', 'qc/docs', '--replace', 'x'), { code: EXIT_CODES.usage })
  t.match(await type('plan', 'qc/none'), { code: EXIT_CODES.failure, err: /none not found/ })
})

interface SetObject {
  status: {
    updatedReplicas?: number
    readyReplicas?: number
    currentRevision?: string
    updateRevision?: string
  }
}

t.test('a pod that remains of a reverted update is shown', async (t) => {
  // The operator would replace it.
  await world.faults.stopService()
  const set = { apiVersion: 'apps/v1', kind: 'StatefulSet', namespace, name: 'vec-docs' }
  const change = async (mark: string | null, partition: number, updated: number) => {
    const annotations = { mark }
    const updateStrategy = { type: 'RollingUpdate', rollingUpdate: { partition } }
    await world.patch(set, { spec: { template: { metadata: { annotations } }, updateStrategy } })
    await world.waitFor(set, `${updated} pods of the newest template`, (object) => {
      const { status } = object as unknown as SetObject
      return (status.updatedReplicas ?? 0) === updated && status.readyReplicas === 3
    })
  }
  await change('b', 2, 1)
  await change(null, 3, 2)
  const { status } = (await world.get(set)) as unknown as SetObject
  t.equal(status.currentRevision, status.updateRevision)
  const { steps } = await report()
  t.strictSame(
    steps.map(({ description }) => description),
    ['update node 2'],
  )
})
