/** What the service reads about shards, volumes and Kubernetes nodes, and how it plans. */
import { randomBytes } from 'node:crypto'
import { Value } from '@sinclair/typebox/value'
import { pino } from 'pino'
import t from 'tap'
import type { Test } from 'tap'
import { encodePlan } from '../../../crds/contract/job.ts'
import { API_VERSION, LABELS } from '../../../crds/contract/names.ts'
import { ShardsPlan } from '../../../crds/contract/shards-job.ts'
import type {
  ShardFacts,
  NodeFacts,
  ShardsQuery,
  ShardsTarget,
} from '../../../hooks/cluster/shards/summary.ts'
import type { CollectionFacts } from '../../../jobs/clients/engine/shards.ts'
import { EngineConnections } from '../../../jobs/clients/engine/transport.ts'
import { Kubernetes } from '../../../jobs/clients/kubernetes/client.ts'
import type { ClusterView, ReshardingView } from '../../../jobs/cluster/shards/view.ts'
import { cachedSecretReader } from '../../../metacontroller/ports/cluster.ts'
import { reshardingOwner } from '../../../jobs/cluster/shards/resharding-steps.ts'
import {
  completedBackups,
  dueNumbers,
  shardPorts,
  unsettledSince,
  withGoneSeconds,
  type Period,
} from '../../../metacontroller/ports/shards.ts'
import { Defects } from '../../../jobs/cluster/shards/defects.ts'
import {
  newObservationMemory,
  type ObservationMemory,
} from '../../../jobs/cluster/shards/observe.ts'
import { summaryOf } from '../../../metacontroller/ports/shards-summary.ts'
import { withData } from '../../../metacontroller/ports/nodes.ts'
import { NOW } from '../../builders.ts'
import { embeddedApi, installCrds } from '../embedded.ts'

const TARGET: ShardsTarget = {
  ...{ nodes: 3, repair: true, balance: false, lost: [], maxTransfers: 1 },
  allowsFewerReplicas: false,
}

/** Three nodes, of which the last does not answer; docs/1 has its only replica there. */
const VIEW: ClusterView = {
  nodes: 3,
  peers: [
    { id: 1, ordinal: 0, isMember: true },
    { id: 2, ordinal: 1, isMember: true },
    { id: 3, ordinal: 2, isMember: false },
  ],
  collections: [
    {
      name: 'docs',
      factor: 2,
      shards: [
        { id: 0, bytes: 10, replicas: [1, 2].map((peer) => ({ peer, state: 'Active' as const })) },
        { id: 1, bytes: 10, replicas: [{ peer: 3, state: 'Active' }] },
        {
          id: 2,
          bytes: 10,
          replicas: [
            { peer: 1, state: 'Active' },
            { peer: 2, state: 'Dead' },
          ],
        },
      ],
    },
  ],
  transfers: [],
}

t.test('a summary has a plan for each target, and counts what should be Active', async (t) => {
  const nodes = [0, 1, 2].map((ordinal) => ({ ordinal, volume: `v-${ordinal}` }))
  const seen: ShardFacts[] = []
  const targets = {
    repair: { ...TARGET, repair: false },
    drain: { ...TARGET, nodes: 1 },
    balance: { ...TARGET, balance: true },
  }
  const query = {
    moves: [],
    uid: 'uid-1',
    targets: (facts: ShardFacts) => {
      seen.push(facts)
      return targets
    },
  }
  t.strictSame(summaryOf(query, { nodes, defects: observedDefects(3600) }, VIEW, NOW), {
    at: NOW.toISOString(),
    nodes,
    peers: VIEW.peers,
    targets,
    collections: 1,
    ...{ replicas: 6, activeReplicas: 3 },
    defects: { 'docs/2/2': 3600, 'node 2': 3600 },
    plans: {
      repair: { is: 'done' },
      drain: { is: 'step', purpose: 'repair' },
      balance: { is: 'step', purpose: 'repair' },
    },
    onlyOn: [{ peer: 3, shards: ['docs/1'] }],
    backups: [],
  })
  t.strictSame(seen, [{ nodes, peers: VIEW.peers }], 'targets depend on nodes and peers alone')
})

t.test('a replica that just became Dead causes no step, whatever the condition is', (t) => {
  const query = { ...QUERY, targets: () => ({ repair: TARGET }) }
  const repairOf = (seconds: number) => {
    const view = { ...VIEW, peers: VIEW.peers.slice(0, 2), nodes: 2 }
    const facts = { nodes: [], defects: observedDefects(seconds) }
    return summaryOf(query, facts, view, NOW).plans.repair
  }
  t.strictSame(repairOf(599), {
    is: 'waiting',
    purpose: 'repair',
    message: 'docs/2 on node 1 is Dead; the engine usually repairs it',
  })
  t.strictSame(repairOf(600), { is: 'step', purpose: 'repair' })
  t.end()
})

t.test(
  'a summary has the resharding that the nodes report, with the record of its Job',
  async (t) => {
    const [docs] = VIEW.collections
    const uuid = `${reshardingOwner('uid-1')}-1`
    const operation = { uuid, direction: 'up' as const, shard: 2, peer: 1 }
    const record = { ...operation, collection: 'docs', stage: 'commit' as const, done: ['read'] }
    const summarized = (resharding?: ReshardingView, query: Partial<ShardsQuery> = {}) => {
      const collections = docs === undefined ? [] : [{ ...docs, ...(resharding && { resharding }) }]
      return summaryOf(
        { ...QUERY, ...query },
        { nodes: [], defects: new Defects() },
        { ...VIEW, collections },
        NOW,
      )
    }
    t.strictSame(summarized(operation, { resharding: record }).resharding, record)
    t.match(summarized(operation).resharding, { stage: 'unknown', collection: 'docs' })
    t.equal(summarized({ ...operation, uuid: 'of-another' }).resharding, undefined)
    const aborted = { ...record, stage: 'migrate' as const }
    const ended = summarized(undefined, { resharding: { ...aborted, shard: 3 } })
    t.equal(ended.resharding, undefined)
    t.strictSame(ended.endedResharding, { uuid, stage: 'aborted' }, 'there is no shard 3')
    const gone = { ...aborted, collection: 'other' }
    t.match(summarized(undefined, { resharding: gone }).endedResharding, { stage: 'gone' })
    const down = { ...aborted, direction: 'down' as const }
    t.match(summarized(undefined, { resharding: down }).endedResharding, { stage: 'aborted' })
    const checked = {
      ...record,
      stage: 'check' as const,
      done: ['0/1', '0/2', '1/3', '2/1', '2/2'],
    }
    t.match(summarized(undefined, { resharding: checked }).endedResharding, { stage: 'completed' })
    t.equal(summarized(operation, { resharding: record }).endedResharding, undefined)
    t.equal(summarized().endedResharding, undefined)
  },
)

t.test(
  'replicas that a shard has beyond its factor, or that fit on no node, are not counted',
  async (t) => {
    const [docs] = VIEW.collections
    const count = (factor: number) => {
      const shards = docs?.shards.slice(0, 1) ?? []
      const view = { ...VIEW, collections: [{ name: 'docs', factor, shards }] }
      const { replicas, activeReplicas } = summaryOf(
        QUERY,
        { nodes: [], defects: new Defects() },
        view,
        NOW,
      )
      return [replicas, activeReplicas]
    }
    t.strictSame(count(1), [1, 1])
    t.strictSame(count(2), [2, 2])
    t.strictSame(count(5), [3, 2])
  },
)

t.test('a transfer without progress is named, unless an ended Job has started it', async (t) => {
  const transfer = { collection: 'docs', shard: 0, from: 1, to: 2 }
  const targets = {
    repair: TARGET,
    drain: { ...TARGET, nodes: 2 },
    balance: { ...TARGET, balance: true },
  }
  const [first, second] = [1, 2].map((peer) => ({ id: peer, ordinal: peer - 1, isMember: true }))
  const active = [1, 2].map((peer) => ({ peer, state: 'Active' as const }))
  const view = (comment: string): ClusterView => ({
    nodes: 2,
    peers: [first, second].flatMap((peer) => peer ?? []),
    collections: [
      {
        ...{ name: 'docs', factor: 2 },
        shards: [{ id: 0, bytes: 10, replicas: [{ peer: 1, state: 'Active' }] }],
      },
      { name: 'other', factor: 2, shards: [{ id: 0, bytes: 10, replicas: active }] },
    ],
    transfers: [{ ...transfer, comment }],
  })
  /** Observed each minute, up to now. */
  const summarized = (
    minutes: number,
    query: Partial<ShardsQuery> = {},
    comment = (minute: number) => `downloading (${minute * 60}.12s)`,
    last: Partial<ClusterView> = {},
  ) => {
    const defects = new Defects()
    for (let minute = 0; minute <= minutes; minute += 1) {
      defects.observe(view(comment(minute)), NOW.getTime() - (minutes - minute) * 60_000)
    }
    const asked = { ...QUERY, targets: () => targets, ...query }
    const known = { nodes: [], defects }
    return summaryOf(asked, known, { ...view(comment(minutes)), ...last }, NOW)
  }
  const since = new Date(NOW.getTime() - 31 * 60_000).toISOString().replace('.000', '')
  const stalled = {
    ...{ is: 'refused', reason: 'TransferStalled' },
    message: `docs/0 is copied from node 0 to node 1 without progress since ${since}, and no Job of the operator has started that. To abort it: POST /collections/docs/cluster with {"abort_transfer":{"shard_id":0,"from_peer_id":1,"to_peer_id":2}}`,
  }
  const foreign = summarized(31)
  t.strictSame(foreign.plans.repair, stalled)
  t.strictSame(foreign.plans.balance, stalled)
  t.notOk('isTransferLeft' in foreign)
  t.match(summarized(29).plans.repair, { is: 'waiting', purpose: 'transfer' })
  const moving = summarized(31, {}, (minute) => `records (${Math.floor(minute / 10)}/9)`)
  t.match(moving.plans.repair, { is: 'waiting', purpose: 'transfer' }, 'it makes progress')

  const own = summarized(31, { transfers: [{ ...transfer, isCreation: true }] })
  t.equal(own.isTransferLeft, true)
  t.match(own.plans.repair, { is: 'waiting', purpose: 'transfer' }, 'a Job aborts it')
  t.equal(summarized(0, { transfers: [transfer] }).isTransferLeft, true, 'from the beginning')
  for (const other of [{ shard: 1 }, { from: 3 }, { to: 3 }, { toShard: 1 }]) {
    const { isTransferLeft, plans } = summarized(31, { transfers: [{ ...transfer, ...other }] })
    t.equal(isTransferLeft, undefined, JSON.stringify(other))
    t.strictSame(plans.repair, stalled)
  }
  const unclear = { unsettled: 'nodes 0 and 1 have not applied the same changes' }
  const unsettled = summarized(31, { transfers: [transfer] }, undefined, unclear)
  t.notOk('isTransferLeft' in unsettled, 'it may have ended')
})

const QUERY: ShardsQuery = {
  connection: { namespace: 'ns', name: 'a', replicas: 3, tls: false },
  claimTemplate: 'qdrant-storage',
  recorded: [],
  moves: [],
  uid: 'uid-1',
  targets: () => ({ repair: TARGET }),
}

t.test('how long a Kubernetes node has been missing is counted while its pod waits', async (t) => {
  const periods = new Map<number, Period>()
  const seconds = (at: number, node: Partial<NodeFacts>) => {
    const nodes = [{ ordinal: 0 }, { ordinal: 2, ...node }]
    const [, found] = withGoneSeconds(nodes, periods, new Date(at * 1000))
    return found?.goneSeconds
  }
  const gone = { isNodeGone: true, isUnschedulable: true } as const
  t.strictSame(
    [
      seconds(100, gone),
      seconds(700, gone),
      seconds(760, { isUnschedulable: true }),
      seconds(820, gone),
      seconds(880, gone),
      seconds(940, { isNodeGone: true }),
      seconds(1000, gone),
      // A Job has worked on the shards meanwhile.
      seconds(2199, gone),
      seconds(3399, gone),
    ],
    [0, 600, undefined, 0, 60, undefined, 0, 1199, 0],
  )
})

t.test(
  'how long the nodes have not agreed is counted from observation to observation',
  async (t) => {
    const periods = new WeakMap<ObservationMemory, Period>()
    const [memory, other] = [newObservationMemory(), newObservationMemory()]
    const seconds = (from: ObservationMemory, at: number, unsettled?: string) => {
      const view = { ...(unsettled !== undefined && { unsettled }) }
      const since = unsettledSince(view, periods, { memory: from, at: new Date(at * 1000) })
      return since && at - since.getTime() / 1000
    }
    t.strictSame(
      [
        seconds(memory, 100, 'commits differ'),
        seconds(memory, 400, 'another replica'),
        seconds(other, 450, 'commits differ'),
        seconds(memory, 700, 'another replica'),
        seconds(memory, 760),
        seconds(memory, 820, 'another replica'),
        // A Job has worked on the shards meanwhile.
        seconds(memory, 2020, 'another replica'),
        seconds(memory, 3219, 'another replica'),
      ],
      [0, 300, 0, 600, undefined, 0, 0, 1199],
    )
  },
)

/** Those of VIEW, first observed this long ago. */
function observedDefects(seconds: number): Defects {
  const defects = new Defects()
  for (let age = seconds; age >= 0; age -= Math.min(600, age || 1)) {
    defects.observe(VIEW, NOW.getTime() - age * 1000)
  }
  return defects
}

/** With the rights of the whole cluster, or with those of an installation for one namespace. */
async function portsOn(t: Test, isNamespaced = false) {
  const embedded = await embeddedApi(t)
  const { clock, api, server, url } = embedded
  await installCrds(api)
  const authorization = `Bearer ${isNamespaced ? server.admit('ns') : server.token}`
  const authorize = async () => ({ headers: { authorization }, dispatcher: undefined })
  const kubernetes = new Kubernetes({ server: url, authorize }, pino({ level: 'silent' }))
  const connections = new EngineConnections()
  t.teardown(() => connections.close())
  const now = () => clock.now()
  const secret = cachedSecretReader(kubernetes, now)
  const log = pino({ level: 'silent' })
  const engines = { kubernetes, connections, route: 'proxy' as const, secret, log }
  const ports = shardPorts({ ...engines, freshSecret: secret, now })
  await api.create({
    ...{ apiVersion: 'v1', kind: 'ServiceAccount' },
    metadata: { name: 'default', namespace: 'ns' },
  })
  return { ...embedded, ports }
}

const claim = (name: string, labels: Record<string, string> = {}) => ({
  ...{ apiVersion: 'v1', kind: 'PersistentVolumeClaim' },
  metadata: { name, namespace: 'ns', labels },
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
})

const pod = (ordinal: number, nodeName?: string) => ({
  ...{ apiVersion: 'v1', kind: 'Pod' },
  metadata: {
    ...{ name: `vec-a-${ordinal}`, namespace: 'ns' },
    labels: { 'app.kubernetes.io/instance': 'vec-a' },
  },
  spec: { containers: [{ name: 'a', image: 'b' }], ...(nodeName !== undefined && { nodeName }) },
})

const unschedulable = {
  conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable' }],
}

t.test('volumes and zones of the pods are read, and the node that a pod ran on last', async (t) => {
  const { api, ports } = await portsOn(t)
  const zone = { 'topology.kubernetes.io/zone': 'z1' }
  await api.create({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'w-0', labels: zone } })
  const volume = await api.create(claim('qdrant-storage-vec-a-0'))
  const second = await api.create(claim('qdrant-storage-vec-a-1'))
  await api.replaceStatus({ ...second, status: { phase: 'Bound', capacity: { storage: '2Gi' } } })
  await api.create(pod(0, 'w-0'))
  const pending = await api.create(pod(1))
  await api.replaceStatus({ ...pending, status: unschedulable })
  const recorded = [{ ordinal: 1, peer: 7, node: 'w-1' }]
  const summary = await ports.shards({ ...QUERY, recorded }, new AbortController().signal)
  t.strictSame(summary.nodes, [
    { ordinal: 0, volume: volume.metadata.uid, node: 'w-0', zone: 'z1' },
    {
      ...{ ordinal: 1, volume: second.metadata.uid, volumeBytes: 2 ** 31, node: 'w-1' },
      ...{ isNodeGone: true, isUnschedulable: true, goneSeconds: 0 },
    },
    { ordinal: 2, isVolumeMissing: true },
  ])
  t.match(summary.obstruction, { reason: 'EngineNotReady' }, 'no engine answers')
})

t.test('without the right to read nodes there are no zones, and everything else', async (t) => {
  const { api, ports } = await portsOn(t, true)
  const volume = await api.create(claim('qdrant-storage-vec-a-0'))
  await api.create(pod(0, 'w-0'))
  const connection = { ...QUERY.connection, replicas: 1 }
  const { nodes } = await ports.shards({ ...QUERY, connection }, new AbortController().signal)
  t.strictSame(nodes, [{ ordinal: 0, volume: volume.metadata.uid, node: 'w-0' }])
})

t.test(
  'the newest Completed backups of the cluster are named if nothing can be planned',
  async (t) => {
    const { api, ports, kubernetes } = await portsOn(t)
    for (const [name, cluster, phase, hour] of [
      ['b1', 'a', 'Completed', 1],
      ['b2', 'a', 'Completed', 4],
      ['b3', 'a', 'Completed', 3],
      ['b4', 'a', 'Completed', 2],
      ['failed', 'a', 'Failed', 5],
      ['other', 'b', 'Completed', 5],
    ] as const) {
      const storage = {
        ...{ bucket: 'store', endpoint: 'http://s3.example', region: 'r' },
        credentialsSecretRef: { name: 's3' },
      }
      const spec = { clusterRef: { name: cluster }, storage: { s3: storage } }
      const metadata = { name, namespace: 'ns' }
      const created = await api.create({
        apiVersion: API_VERSION,
        kind: 'VecBackup',
        metadata,
        spec,
      })
      const completionTime = `2026-03-01T0${hour}:00:00Z`
      await api.replaceStatus({ ...created, status: { phase, completionTime } })
    }
    const { backups } = await ports.shards(QUERY, new AbortController().signal)
    t.strictSame(backups, ['ns/b2', 'ns/b3', 'ns/b4'])

    const lists: unknown[][] = []
    const collect: typeof kubernetes.collect = async (...call) => {
      const found = await kubernetes.collect(...call)
      lists.push(found)
      return found
    }
    t.strictSame(await completedBackups({ collect }, QUERY.connection), backups)
    const listed = [1, 4, 3, 2].map((hour, index) => ({
      ...{ backup: `ns/b${index + 1}`, completionTime: `2026-03-01T0${hour}:00:00Z` },
    }))
    t.strictSame(lists, [listed], 'nothing else of them is in memory')
  },
)

t.test('numbers of collections that no node reports are not asked for', async (t) => {
  const { api, ports } = await portsOn(t)
  await api.create({
    ...{ apiVersion: API_VERSION, kind: 'VecCollection' },
    metadata: { name: 'docs', namespace: 'ns' },
    spec: { clusterRef: { name: 'a' }, vectors: [{ size: 4, distance: 'Dot' }], shardNumber: 3 },
  })
  const numbersOf = async (query: Partial<ShardsQuery>) =>
    (await ports.shards({ ...QUERY, ...query }, new AbortController().signal)).shardNumbers
  t.strictSame(await numbersOf({ mayReshard: () => true }), [])
  t.equal(await numbersOf({}), undefined)
})

t.test('a plan has the numbers that differ, however many VecCollections there are', async (t) => {
  const name = (index: number) => `${index}-`.padEnd(255, randomBytes(128).toString('hex'))
  const desired = Array.from({ length: 1500 }, (_, index) => ({
    ...{ collection: name(index), shards: 2 },
    source: { namespace: 'n'.repeat(63), name: name(index).slice(0, 253) },
  }))
  const viewWith = (shards: number, resharded?: number): ClusterView => ({
    ...VIEW,
    collections: desired.map(({ collection }, index) => ({
      ...{ name: collection, factor: 1 },
      shards: Array.from({ length: shards }, (_, id) => ({ id, bytes: 1, replicas: [] })),
      ...(index === resharded && { resharding: { direction: 'up' as const, shard: 1, peer: 1 } }),
    })),
  })
  t.strictSame(dueNumbers(desired, viewWith(2)), [])
  t.strictSame(dueNumbers(desired, { ...VIEW, collections: [] }), [], 'there is no such collection')
  t.strictSame(dueNumbers(desired, viewWith(2, 1400)), [desired[1400]], 'it may be set back')
  const due = dueNumbers(desired, viewWith(3, 1400)) as typeof desired
  t.strictSame(due.slice(0, 2), [desired[1400], desired[0]], 'that in progress is never left out')
  const planWith = (numbers: typeof desired) => ({ resharding: { numbers, mayStart: true } })
  t.ok(Value.Check(ShardsPlan.properties.resharding, planWith([...due]).resharding))
  t.type(encodePlan(planWith([...due]), 'spec.replicas'), 'string')
  t.notOk(Value.Check(ShardsPlan.properties.resharding, planWith(desired).resharding))
  t.throws(() => encodePlan(planWith(desired), 'spec.replicas'), /is too large/)
})

t.test('the data of a node are its replicas with their write-ahead logs', async (t) => {
  const nodes = [0, 1, 2].map((ordinal) => ({ ordinal }))
  const of = (sizes: number[], more: { isIncomplete?: true } = {}): CollectionFacts => ({
    ...{ factor: 2, params: undefined },
    bytes: new Map(sizes.map((bytes, shard) => [shard, bytes])),
    ...more,
  })
  const facts = new Map([
    [
      0,
      new Map([
        ['docs', of([1000, 2 ** 30])],
        ['books', of([10])],
      ]),
    ],
    [
      1,
      new Map([
        ['docs', of([1000])],
        ['books', of([], { isIncomplete: true })],
      ]),
    ],
    [2, new Map([['docs', of([1000])]])],
  ])
  t.strictSame(withData(nodes, VIEW, { facts }), [
    { ordinal: 0, dataBytes: 2 * 1000 + 2 ** 30 + 2 ** 26 + 2 * 10 },
    { ordinal: 1 },
    // It does not answer now: what it reported before may be wrong.
    { ordinal: 2 },
  ])
  t.strictSame(withData([{ ordinal: 0 }], VIEW, { facts: new Map() }), [{ ordinal: 0 }])
})

t.test('claims that a removed node left behind are found by their label', async (t) => {
  const { api, ports } = await portsOn(t)
  const names = [3, 4, 5].map((ordinal) => `qdrant-storage-vec-a-${ordinal}`)
  await api.create(claim(names[0] ?? ''))
  await api.create(claim(names[1] ?? '', { [LABELS.removedPeer]: '4' }))
  t.strictSame(await ports.retainedVolumes('ns', names), [names[1]])
})
