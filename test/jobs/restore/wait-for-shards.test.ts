/** Waiting until all nodes see the same shards, and what a recovery without an answer has done. */
import { pino } from 'pino'
import t from 'tap'
import { EngineError } from '../../../crds/contract/errors.ts'
import type { RestoreItem } from '../../../jobs/manifest-check.ts'
import type { RunContext } from '../../../jobs/restore/context.ts'
import { isNodeRecovered, isShardRecovered } from '../../../jobs/restore/recover.ts'
import type { ReplicaStates } from '../../../jobs/restore/placement.ts'
import { rebalance } from '../../../jobs/restore/shard-transfers.ts'
import { waitForShards } from '../../../jobs/restore/wait-for-shards.ts'
import { Superseded } from '../../../jobs/reporter.ts'
import { RetryBudget } from '../../../jobs/retry.ts'

/** By node: each shard that it sees, by node of the replica and its state. */
type Views = Record<number, Record<number, string>>[]

const AGREED: Views = [
  { 0: { 0: 'Active' }, 1: { 1: 'Active' } },
  { 0: { 0: 'Active' }, 1: { 1: 'Active' } },
]
/** Node 1 sees a replica of shard 0 on itself that node 0 does not know. */
const DISPUTED: Views = [{ 0: { 0: 'Active' } }, { 0: { 0: 'Active', 1: 'Active' } }]
const LOADING: Views = [{ 0: { 0: 'Active', 1: 'Partial' } }, { 0: { 0: 'Active', 1: 'Partial' } }]

const GIB = 1024 ** 3
const DOCS = collectionOf(0)

/** A collection that is restored from snapshots of this size. */
function collectionOf(sizeBytes: number) {
  return { name: 'docs', source: { snapshots: [{ sizeBytes }] } } as unknown as Pick<
    RestoreItem,
    'name' | 'source'
  >
}

/** Of a shard, between nodes. */
interface Transfer {
  shard: number
  from: number
  to: number
  /** By node: only the source and the target have one. */
  comments?: Record<number, string>
}

interface Nodes {
  /** Default: 2. */
  count?: number
  /** What the nodes report, by the seconds that have passed; a text is an error of all nodes. */
  views: (seconds: number) => Views | string
  /** What every node lists. */
  transfers?: (seconds: number) => Transfer[]
  /** The status of the answers of each node instead; 0 is none. */
  statuses?: (seconds: number) => number[] | undefined
  /** Points of each shard, or of all, on the node that holds it. */
  points?: number | readonly number[]
  /** The error with which the consensus of node 1 has stopped. */
  consensusError?: (seconds: number) => string | undefined
  /** When the replica is dropped. */
  onDrop?: () => void
  /** Another pod works for the restore. */
  isSuperseded?: boolean
}

/** A run on nodes, peers 10, 11 and so on, with a clock that only its pauses advance. */
function runOn({ count = 2, views, points = 0, onDrop, isSuperseded, ...nodes }: Nodes) {
  const { statuses = () => undefined, transfers = () => [], consensusError } = nodes
  let now = 0
  const dropped: object[] = []
  const notes: string[] = []
  const placementOf = (node: number) => {
    const status = statuses(now / 1000)?.[node]
    if (status === 0) throw new EngineError('no connection')
    if (status !== undefined && status !== 200) {
      throw new EngineError(`answered ${status}`, { status })
    }
    const current = views(now / 1000)
    if (typeof current === 'string') throw new EngineError(current)
    const shards = Object.entries(current[node] ?? {}).flatMap(([shard, states]) =>
      Object.entries(states).map(([holder, state]) => ({
        ...{ shard_id: Number(shard), peer_id: 10 + Number(holder), state },
        points_count: typeof points === 'number' ? points : (points[Number(shard)] ?? 0),
      })),
    )
    return {
      peer_id: 10 + node,
      shard_transfers: transfers(now / 1000).map(({ shard, from, to, comments = {} }) => ({
        ...{ shard_id: shard, from: 10 + from, to: 10 + to },
        ...(comments[node] !== undefined && { comment: comments[node] }),
      })),
      local_shards: shards.filter(({ peer_id }) => peer_id === 10 + node),
      remote_shards: shards.filter(({ peer_id }) => peer_id !== 10 + node),
    }
  }
  const clusterOf = (node: number) => {
    if (consensusError === undefined) return { status: 'disabled' }
    const err = node === 1 ? consensusError(now / 1000) : undefined
    const thread =
      err === undefined
        ? { consensus_thread_status: 'working' }
        : { consensus_thread_status: 'stopped_with_err', err }
    return {
      status: 'enabled',
      raft_info: { commit: 7, pending_operations: 0 },
      consensus_thread_status: thread,
    }
  }
  const engineForPod = (_: unknown, node: number) => ({
    call: async (method: string, path: string, _schema: unknown, options: { body?: object }) => {
      if (method === 'GET') return path === '/cluster' ? clusterOf(node) : placementOf(node)
      dropped.push({ node, ...options.body })
      onDrop?.()
      return true
    },
  })
  const context = {
    plan: { cluster: { replicas: count } },
    retryBudget: new RetryBudget(),
    progress: {
      note: (text: string) => void notes.push(text),
      report: () => undefined,
      reported: async () => undefined,
    },
    tools: {
      engineForPod,
      log: pino({ level: 'silent' }),
      signal: new AbortController().signal,
      reporter: {
        verifyOwnership: async () => {
          if (isSuperseded === true) throw new Superseded('another pod')
        },
      },
      time: {
        now: () => new Date(now),
        monotonicMs: () => now,
        sleep: async (ms: number) => void (now += ms),
      },
    },
  } as unknown as RunContext
  return { context, dropped, notes, seconds: () => now / 1000 }
}

const DROP = { node: 1, drop_replica: { shard_id: 0, peer_id: 11 } }

t.test('the view is returned once all nodes agree and every replica is Active', async (t) => {
  const { context, dropped, seconds } = runOn({
    views: (at) => (at < 20 ? DISPUTED : at < 60 ? LOADING : AGREED),
  })
  const { replicas, peers } = await waitForShards(DOCS, context)
  t.strictSame(peers, [10, 11])
  t.strictSame(
    replicas[1],
    new Map([
      [0, new Map([[0, 'Active']])],
      [1, new Map([[1, 'Active']])],
    ]),
  )
  t.ok(seconds() >= 60 && seconds() <= 61, `${seconds()} s`)
  t.strictSame(dropped, [], 'a disagreement of 20 s and a transfer of 40 s repair nothing')
})

t.test('nodes that do not answer are asked again', async (t) => {
  const { context, seconds } = runOn({ views: (at) => (at < 20 ? 'connection lost' : AGREED) })
  await waitForShards(DOCS, context)
  t.ok(seconds() >= 20 && seconds() <= 21, `${seconds()} s`)
})

t.test('nodes that are about to agree are asked again within milliseconds', async (t) => {
  const asked: number[] = []
  const { context } = runOn({
    views: (at) => {
      asked.push(Math.round(at * 1000))
      return at < 8 ? LOADING : AGREED
    },
  })
  await waitForShards(DOCS, context)
  const times = [...new Set(asked)]
  const pauses = times.slice(1).map((at, index) => at - (times[index] ?? 0))
  const expected = [
    ...Array.from({ length: 10 }, () => 10),
    ...Array.from({ length: 10 }, () => 40),
    ...Array.from({ length: 20 }, () => 200),
    ...Array.from({ length: 4 }, () => 1_000),
  ]
  t.strictSame(pauses, expected)
})

t.test('a replica that is missing for 30 s while all nodes agree is an error', async (t) => {
  const { context, seconds } = runOn({ views: () => AGREED })
  await t.rejects(
    waitForShards(DOCS, context, () => 'shard 7 is on no node'),
    { code: 'EngineError', message: 'docs: shard 7 is on no node, and there is no progress' },
  )
  t.ok(seconds() >= 30 && seconds() <= 31, `${seconds()} s`)
})

t.test('a state that is the same for 15 minutes is an error', async (t) => {
  const { context, seconds, dropped } = runOn({ views: () => LOADING })
  await t.rejects(waitForShards(DOCS, context), {
    message: 'docs: shard 0 on node 1 is Partial, and there is no progress',
  })
  t.ok(seconds() >= 900 && seconds() <= 901, `${seconds()} s`)
  t.strictSame(dropped, [])
})

/** The error of engine 1.19 at an attempt to start its consensus thread again, the n-th after 2^n seconds. */
function restarting(attempt: number): string {
  const pause = Math.min(2 ** (attempt - 1), 300)
  return `Failed to apply entry: disk full; restarting consensus thread (attempt ${attempt}, next attempt in ${pause} sec)`
}

t.test('a consensus thread that the engine starts again is waited for', async (t) => {
  const { context, seconds } = runOn({
    views: () => AGREED,
    consensusError: (at) => (at < 60 ? restarting(1 + Math.floor(Math.log2(at + 1))) : undefined),
  })
  await waitForShards(DOCS, context)
  t.ok(seconds() >= 60 && seconds() <= 61, `${seconds()} s`)
})

t.test('a consensus thread that fails at each start for 15 minutes is an error', async (t) => {
  const { context, seconds, dropped } = runOn({
    views: () => DISPUTED,
    consensusError: (at) => restarting(1 + Math.floor(Math.log2(at + 1))),
  })
  await t.rejects(waitForShards(DOCS, context), {
    code: 'EngineError',
    message:
      'docs: consensus is stopped_with_err on node 1: Failed to apply entry: disk full; restarting consensus thread, and there is no progress',
  })
  t.ok(seconds() >= 900 && seconds() <= 901, `${seconds()} s`)
  t.strictSame(dropped, [])
})

t.test('a consensus thread that stays stopped is an error at once', async (t) => {
  const { context, seconds } = runOn({ views: () => AGREED, consensusError: () => 'disk full' })
  await t.rejects(waitForShards(DOCS, context), {
    code: 'Rejected',
    message: 'consensus is stopped_with_err on node 1: disk full',
  })
  t.equal(seconds(), 0)
})

/** Shard 1 is copied from node 1 to node 2 for `seconds`; node 0 lists the transfer without a comment. */
function copying(seconds: number, comments: (at: number) => Record<number, string>): Nodes {
  const view = (state: string) => ({ 0: { 0: 'Active' }, 1: { 1: 'Active', 2: state } })
  return {
    count: 3,
    views: (at) => Array.from({ length: 3 }, () => view(at < seconds ? 'Recovery' : 'Active')),
    transfers: (at) => (at < seconds ? [{ shard: 1, from: 1, to: 2, comments: comments(at) }] : []),
  }
}

const DOWNLOADING = (at: number) => ({
  1: `recovering (${at.toFixed(2)}s)`,
  2: `downloading (${at.toFixed(2)}s)`,
})

t.test('a copy between other nodes is waited for as long as its bytes allow', async (t) => {
  const docs = collectionOf(100 * GIB)
  const missing = () => undefined
  for (const comments of [DOWNLOADING, () => ({})]) {
    const { context, seconds } = runOn(copying(7_200, comments))
    await waitForShards(docs, context)
    t.ok(seconds() >= 7_200 && seconds() <= 7_201, `${seconds()} s`)
    const rounds = runOn(copying(7_200, comments))
    await rebalance(docs, { findMissing: missing, start: async () => undefined }, rounds.context)
    t.ok(rounds.seconds() >= 7_200 && rounds.seconds() <= 7_201, `${rounds.seconds()} s`)
  }
})

t.test('a copy of few bytes of which only the clock changes is an error', async (t) => {
  const { context, seconds } = runOn(copying(7_200, DOWNLOADING))
  await t.rejects(waitForShards(collectionOf(GIB), context), {
    message:
      /^docs: shard 1 is being transferred from node 1 to node 2 \(downloading \(\d+\.\d\ds\)\), and there is no progress$/,
  })
  // 15 minutes, and a GiB at 1,024 bytes per millisecond.
  t.ok(seconds() >= 1_948 && seconds() <= 1_950, `${seconds()} s`)
})

t.test('records that are streamed between other nodes are progress', async (t) => {
  const { context, seconds } = runOn(
    copying(7_200, (at) => {
      const sent = Math.floor(at / 600)
      return { 1: `Transferring records (${sent}/12), started ${Math.round(at)}s ago, ETA: 3.00s` }
    }),
  )
  await waitForShards(DOCS, context)
  t.ok(seconds() >= 7_200 && seconds() <= 7_201, `${seconds()} s`)
})

t.test('a round of replication whose first wait fails is followed by the next one', async (t) => {
  const COPIED: Views = [{ 0: { 0: 'Active', 1: 'Active' } }, { 0: { 0: 'Active', 1: 'Active' } }]
  const ALONE: Views = [{ 0: { 0: 'Active' } }, { 0: { 0: 'Active' } }]
  let started = 0
  const { context } = runOn({
    views: (at) => {
      if (started === 0) return ALONE
      if (started === 2) return COPIED
      return at < 1_850 ? 'node 1 does not answer' : ALONE
    },
  })
  const findMissing = (replicas: ReplicaStates) =>
    replicas.get(0)?.has(1) === true ? undefined : 'shard 0 has no copy on node 1'
  await rebalance(DOCS, { findMissing, start: async () => void (started += 1) }, context)
  t.equal(started, 2)
})

t.test('a replica that only one node knows is dropped through it after 30 s', async (t) => {
  let isDropped = false
  const { context, dropped, notes, seconds } = runOn({
    views: () => (isDropped ? AGREED : DISPUTED),
    onDrop: () => (isDropped = true),
  })
  await waitForShards(DOCS, context)
  t.ok(seconds() >= 30 && seconds() <= 32, `${seconds()} s`)
  t.strictSame(dropped, [DROP])
  t.strictSame(notes, ['nodes disagreed about a copy of shard 0 of docs on node 1: dropped'])
})

t.test('a pod that was replaced drops no replica', async (t) => {
  const { context, dropped } = runOn({ views: () => DISPUTED, isSuperseded: true })
  await t.rejects(waitForShards(DOCS, context), { code: 'Superseded' })
  t.strictSame(dropped, [])
})

t.test('a disagreement that occurs again after three repairs is permanent', async (t) => {
  const { context, dropped, seconds } = runOn({ views: () => DISPUTED })
  await t.rejects(waitForShards(DOCS, context), {
    status: 409,
    message:
      'docs: the nodes disagree about shard 0 on node 1: node 0 reports absent, node 1 reports Active, and there is no progress: delete the collection, or restore it under another name with collectionMapping, and create the VecRestore again',
  })
  t.strictSame(dropped, [DROP, DROP, DROP])
  t.ok(seconds() >= 120 && seconds() <= 125, `${seconds()} s`)
})

type Item = Parameters<typeof isNodeRecovered>[0]

/** Whether the snapshot of node 0, with shard 0 of two, is recovered; ten points were recorded. */
function isRecovered(
  nodes: Nodes,
  before: Record<number, number> | undefined,
  source: object = { pointsCount: 10 },
) {
  const item = {
    name: 'docs',
    source: { shards: [{ shardId: 0 }, { shardId: 1 }], ...source },
  } as unknown as Item
  const snapshot = { nodeIndex: 0, localShards: [{ shardId: 0 }] } as never
  const points =
    before === undefined
      ? undefined
      : new Map(Object.entries(before).map(([shard, count]) => [Number(shard), count]))
  const { context } = runOn(nodes)
  return isNodeRecovered(item, { snapshot, before: { ...(points && { points }) } }, context)
}

const THERE = () => AGREED
const ELSEWHERE = (): Views => [{ 0: { 1: 'Active' } }, { 0: { 1: 'Active' } }]

t.test('a shard that has moved to the node proves its recovery', async (t) => {
  t.equal(await isRecovered({ views: THERE }, {}), true)
  t.equal(await isRecovered({ views: ELSEWHERE }, {}), false)
})

t.test('a shard that the node had before proves nothing unless it was empty', async (t) => {
  t.equal(await isRecovered({ views: THERE, points: 10 }, { 0: 1 }), false)
  t.equal(await isRecovered({ views: THERE, points: 10 }, undefined), false, 'it was not counted')
  t.equal(await isRecovered({ views: THERE, points: 10 }, { 0: 0 }), true, 'it was empty')
})

t.test('a shard that was empty must have half of its share of the points', async (t) => {
  const withPoints = (points: number, source?: object) =>
    isRecovered({ views: THERE, points }, { 0: 0 }, source)
  t.equal(await withPoints(3), true, 'of 5')
  t.equal(await withPoints(2), false, 'of 5')
  t.equal(await withPoints(2, { pointsCount: 10, exactPointsCount: 6 }), true, 'of 3')
  t.equal(await withPoints(100, {}), false, 'of an unknown number')
  t.equal(await withPoints(0, { exactPointsCount: 0 }), false, 'nothing proves nothing')
})

t.test('a node that was killed before it restored its last shard has not recovered', async (t) => {
  const shardIds = [0, 1, 2]
  const views = () =>
    [{}, {}].map(() => Object.fromEntries(shardIds.map((id) => [id, { 0: 'Active' }])))
  const recovered = (points: number[], lastShard: object = {}) => {
    const shards = shardIds.map((shardId) => ({ shardId, ...(shardId === 2 && lastShard) }))
    const item = { name: 'docs', source: { shards, pointsCount: 12 } } as unknown as Item
    const snapshot = { nodeIndex: 0, localShards: shardIds.map((shardId) => ({ shardId })) }
    const before = { points: new Map(shardIds.map((shardId) => [shardId, 0])) }
    const { context } = runOn({ views, points })
    return isNodeRecovered(item, { snapshot: snapshot as never, before }, context)
  }
  t.equal(await recovered([4, 4, 4]), true)
  t.equal(await recovered([4, 4, 0]), false, 'two thirds of the points')
  t.equal(await recovered([6, 6, 0], { exactPointsCount: 0 }), true, 'it was empty in the backup')
  t.equal(await recovered([4, 0, 0], { exactPointsCount: 0 }), false)
})

t.test('the share of a node grows with the number of its shards', async (t) => {
  const views = () => [
    { 0: { 0: 'Active' }, 1: { 0: 'Active' } },
    { 0: { 0: 'Active' }, 1: { 0: 'Active' } },
  ]
  const item = {
    name: 'docs',
    source: { shards: [0, 1, 2, 3].map((shardId) => ({ shardId })), pointsCount: 10 },
  } as unknown as Item
  const snapshot = { nodeIndex: 0, localShards: [{ shardId: 0 }, { shardId: 1 }] } as never
  const before = { points: new Map([0, 1].map((shardId) => [shardId, 0])) }
  const withPoints = (points: number) =>
    isNodeRecovered(item, { snapshot, before }, runOn({ views, points }).context)
  t.equal(await withPoints(1), false, '2 of 5')
  t.equal(await withPoints(2), true, '4 of 5')
})

t.test(
  'a shard that is Active with the points of its snapshot, and had others, is recovered',
  async (t) => {
    const recovered = ({
      state = 'Active',
      points = 10,
      before = 3,
      recorded = 10,
      shardId = 0,
    }: {
      state?: string
      points?: number
      before?: number | null
      recorded?: number | null
      shardId?: number
    } = {}) => {
      const { context } = runOn({ views: () => [{ 0: { 0: state } }, { 0: { 0: state } }], points })
      const snapshot = { shardId, ...(recorded !== null && { pointsCount: recorded }) } as never
      const known = { points: before ?? undefined }
      return isShardRecovered('docs', { snapshot, node: 0, before: known }, context)
    }
    t.equal(await recovered(), true)
    t.equal(await recovered({ state: 'Partial' }), false, 'its recovery has not ended')
    t.equal(await recovered({ state: 'Dead' }), false)
    t.equal(await recovered({ points: 9 }), false, 'it has another number of points')
    t.equal(await recovered({ before: 10 }), false, 'it had as many before')
    t.equal(await recovered({ before: null }), false, 'it was not counted before')
    t.equal(await recovered({ recorded: null }), false, 'the backup has no number')
    t.equal(await recovered({ shardId: 7 }), false, 'the node does not hold it')
  },
)

t.test('nodes that disagree for good end the restore', async (t) => {
  await t.rejects(isRecovered({ views: () => DISPUTED }, {}), { message: /delete the collection/ })
})

t.test('a collection that another client has deleted is not waited for', async (t) => {
  const { context, seconds } = runOn({
    views: () => AGREED,
    statuses: (at) => (at < 20 ? [200, 404] : [404, 404]),
  })
  await t.rejects(waitForShards(DOCS, context), {
    ...{ code: 'Rejected', message: 'collection docs was deleted during the restore' },
  })
  t.ok(seconds() >= 50 && seconds() < 60, 'half a minute after no node has it')
})

t.test(
  'a collection that some nodes do not have yet, or do not answer for, is not called deleted',
  async (t) => {
    const late = runOn({
      views: () => AGREED,
      statuses: (at) => (at < 100 ? [200, 404] : undefined),
    })
    t.ok(await waitForShards(DOCS, late.context))
    const returning = runOn({
      views: () => AGREED,
      statuses: (at) =>
        at < 25 || (at > 30 && at < 55) ? [404, 404] : at < 60 ? [200, 404] : undefined,
    })
    t.ok(await waitForShards(DOCS, returning.context))
    const silent = runOn({
      views: () => AGREED,
      statuses: (at) => (at < 100 ? [404, 0] : undefined),
    })
    t.ok(await waitForShards(DOCS, silent.context))
  },
)
