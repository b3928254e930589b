/**
 * Backs up one collection with method Shard: streams each shard once, from whichever node holds it
 * during the backup. Streams run concurrently, within the memory of the Job; a stream that breaks
 * off is retried, also from another node.
 */
import { isDeepStrictEqual } from 'node:util'
import { EngineError } from '../../../crds/contract/errors.ts'
import { ShardCollection, type ShardSnapshot } from '../../../crds/contract/manifest.ts'
import { formatBytes } from '../../../crds/units.ts'
import { isTransient, retryTransient } from '../../retry.ts'
import { readCompletedCollection, writeCompletedCollection } from '../completed-collection.ts'
import {
  engineForPod,
  HEARTBEAT_MS,
  MAX_ROUNDS,
  RETRY_DELAYS_MS,
  snapshotsForPod,
  type RunContext,
} from '../context.ts'
import { excludeShards, manifestCounts, readCountsAfter, readCountsBefore } from '../point-count.ts'
import {
  confirmedChangesCheck,
  rejectIfDeleted,
  requireCollection,
  requireSameVersion,
} from '../source-cluster.ts'
import {
  collectionIdentity,
  requireSameUuid,
  shardFingerprint,
  waitForTopology,
  type Topology,
} from '../topology.ts'
import { deleteStaleObjects, readUploaded } from './checkpoint.ts'
import {
  ShardScheduler,
  type Assignment,
  activeReplicas,
  listShards,
  readNodeReports,
  shardExists,
} from './scheduler.ts'
import { streamShard } from './stream-shard.ts'

export async function backUpByShard(name: string, context: RunContext): Promise<ShardCollection> {
  const completed = await readCompletedCollection(ShardCollection, name, context)
  if (completed !== undefined) return completed
  await requireCollection(name, context)
  for (let round = 1; round <= MAX_ROUNDS; round += 1) {
    const topology = await waitForTopology(name, context)
    // An alias may have replaced it since, and the engine returns another collection by that.
    if (round > 1) await requireCollection(name, context)
    context.progress.startShards(topology.shards.length)
    const before = await readCountsBefore(name, topology.manifestFields, context)
    const { snapshots, reused } = await streamShards(name, topology, context)
    if (
      snapshots.length === topology.shards.length &&
      (await isUnchanged(topology, name, context))
    ) {
      await deleteStaleObjects(name, snapshots, context)
      const after = await readCountsAfter(name, topology.manifestFields, context)
      const comparable = excludeShards(before, reused)
      const counts = manifestCounts(topology.manifestFields, comparable, after, snapshots)
      return writeCompletedCollection(
        { name, ...manifestFieldsOf(topology), ...counts, snapshots },
        context,
      )
    }
    context.tools.log.warn(
      { collection: name, round },
      'collection changed during the backup, starting over',
    )
  }
  throw new EngineError(
    `collection ${name}: it was recreated, or its shards, its configuration or the engine version changed ${MAX_ROUNDS} times while it was backed up`,
  )
}

/**
 * The location of a shard does not matter, only which shards exist, that the collection is the same
 * one, and the format of its segments.
 */
async function isUnchanged(
  topology: Topology,
  name: string,
  context: RunContext,
): Promise<boolean> {
  const requireConfirmed = confirmedChangesCheck(context)
  // A node may disappear between the calls: ask the other nodes again.
  const { view, identity } = await retryTransient(context, async () => {
    const view = await readNodeReports(name, context)
    await requireConfirmed([...view.keys()])
    return { view, identity: await currentIdentity(name, [...view.keys()], context) }
  })
  const expected = topology.shards.map((shard) => shardFingerprint(shard, topology))
  const shards = listShards(view)
  const actual = shards.map((shard) => shardFingerprint(shard, { identity, shards }))
  return isDeepStrictEqual(expected.sort(), actual.sort())
}

/** As seen by every node that answers; nodes may run different versions for a while. */
async function currentIdentity(
  name: string,
  nodes: number[],
  context: RunContext,
): Promise<string> {
  const { signal } = context.tools
  const views = await Promise.all(
    nodes.map(async (node) => {
      const { uuid } = await snapshotsForPod(context, node).identity(name, signal)
      return { node, uuid, version: await engineForPod(context, node).version(signal) }
    }),
  )
  const collection = await snapshotsForPod(context, nodes[0] ?? 0).collection(name, signal)
  return collectionIdentity(collection, {
    uuid: requireSameUuid(views),
    version: requireSameVersion(views),
  })
}

function manifestFieldsOf({ manifestFields: described }: Topology) {
  const { replication_factor: factor } = described.config.params
  return { ...described, replicationFactor: typeof factor === 'number' ? factor : 1 }
}

const POLL_MS = 5_000

interface StreamRound {
  collection: string
  topology: Topology
  context: RunContext
  scheduler: ShardScheduler
  /** By shard id. */
  completed: Map<number, ShardSnapshot>
  failures: Map<number, number>
  /** Streams that share the memory of the Job. */
  streams: number
}

export interface StreamedShards {
  /** Sorted by id. */
  snapshots: ShardSnapshot[]
  /** Shards whose snapshot was already in the bucket. */
  reused: ReadonlySet<number>
}

/**
 * Shards that are already in the bucket are not streamed again. A shard that is no longer in the
 * collection is left out.
 */
export async function streamShards(
  collection: string,
  topology: Topology,
  context: RunContext,
): Promise<StreamedShards> {
  const completed = await readCompletedShards(collection, topology, context)
  const reused = new Set(completed.keys())
  const isTooLarge = ({ shardId }: { shardId: number }) =>
    context.shardSizes.isUnderestimated(collection, shardId)
  const missing = topology.shards.filter(({ shardId }) => !completed.has(shardId))
  const concurrent = missing.filter((shard) => !isTooLarge(shard))
  const stopController = new AbortController()
  const signal = AbortSignal.any([context.tools.signal, stopController.signal])
  const streams = await chooseConcurrency(collection, concurrent, context)
  const shared = {
    ...{ collection, topology, completed, failures: new Map<number, number>() },
    context: { ...context, tools: { ...context.tools, signal } },
  }
  const runWorkers = async (shards: readonly { shardId: number }[], count: number) => {
    const scheduler = new ShardScheduler(shards.map(({ shardId }) => shardId))
    const workers = Array.from({ length: count }, () =>
      runWorker({ ...shared, scheduler, streams: count }).catch((error: unknown) => {
        // The collection is useless without one of its shards: stop the other streams.
        stopController.abort(error)
        throw error
      }),
    )
    try {
      await Promise.all(workers)
    } finally {
      await Promise.allSettled(workers)
    }
  }
  const heartbeat = setInterval(() => context.progress.heartbeat(), HEARTBEAT_MS)
  try {
    await runWorkers(concurrent, streams)
    // Their parts were too small: one after the other, each has all of the memory.
    const alone = missing.filter((shard) => !completed.has(shard.shardId) && isTooLarge(shard))
    if (alone.length > 0) await runWorkers(alone, 1)
  } finally {
    clearInterval(heartbeat)
  }
  const snapshots = [...completed.values()].sort((a, b) => a.shardId - b.shardId)
  return { snapshots, reused }
}

/**
 * At most as many as the plan allows, or fewer if the memory of the Job requires it: large shards
 * need large parts.
 */
async function chooseConcurrency(
  collection: string,
  missing: readonly { shardId: number }[],
  context: RunContext,
): Promise<number> {
  const maxStreams = Math.min(context.plan.parallelism, missing.length)
  if (maxStreams === 0) return 0
  const expected: (number | undefined)[] = []
  for (const { shardId } of missing)
    expected.push(await context.shardSizes.estimate(collection, shardId, context))
  const streams = context.bucket.memory.concurrentUploads(expected, maxStreams)
  if (streams < maxStreams) {
    const memory = formatBytes(context.bucket.memory.bytes)
    const fields = { collection, parallelism: maxStreams, streams, memory }
    context.tools.log.info(
      fields,
      'reducing concurrent streams: large shards need large parts in memory',
    )
  }
  return streams
}

async function readCompletedShards(
  collection: string,
  topology: Topology,
  context: RunContext,
): Promise<Map<number, ShardSnapshot>> {
  const completed = new Map<number, ShardSnapshot>()
  for (const shard of topology.shards) {
    const ref = { collection, shardId: shard.shardId }
    const found = await readUploaded(ref, shardFingerprint(shard, topology), context)
    if (found === undefined) continue
    completed.set(shard.shardId, found)
    context.progress.shardCompleted(found)
    context.tools.log.info({ ...ref, key: found.key }, 'already in the bucket')
  }
  return completed
}

async function runWorker(round: StreamRound): Promise<void> {
  for (;;) {
    const next = await nextAssignment(round)
    if (next === undefined) return
    const failure = await streamAssigned(next, round)
    if (failure === undefined) continue
    // Streamed alone at the end: in a share of the memory its parts would be as small again.
    if (round.streams > 1 && isUnderestimated(next, round)) continue
    await waitBeforeRetry(failure, next, round)
    round.scheduler.requeue(next)
  }
}

function isUnderestimated({ shardId }: Assignment, { collection, context }: StreamRound): boolean {
  return context.shardSizes.isUnderestimated(collection, shardId)
}

/**
 * Waits for an idle pod and, within bounds, for a replica that is Active. Undefined if nothing is
 * left to do.
 */
async function nextAssignment({
  collection,
  scheduler,
  context,
}: StreamRound): Promise<Assignment | undefined> {
  const { retryBudget, tools } = context
  const { time } = tools
  const limit = retryBudget.nextLimitMs()
  let idleSinceMs: number | undefined
  for (;;) {
    const view = await readNodeReports(collection, context)
    // Its shard key may have been deleted: the collection is checked again at the end.
    for (const shardId of scheduler.pending())
      if (!shardExists(view, shardId)) scheduler.remove(shardId)
    const [first] = scheduler.pending()
    if (first === undefined) return undefined
    const assignment = scheduler.next(activeReplicas(view))
    if (assignment !== undefined) return assignment
    if (!scheduler.isIdle()) {
      await scheduler.waitForRelease()
      tools.signal.throwIfAborted()
      idleSinceMs = undefined
      continue
    }
    idleSinceMs ??= time.monotonicMs()
    const waitedMs = time.monotonicMs() - idleSinceMs
    retryBudget.consume(waitedMs, time.monotonicMs())
    if (waitedMs >= limit) {
      throw new EngineError(`no replica of shard ${first} is Active (waited ${limit / 1000} s)`)
    }
    tools.log.info({ collection, shard: first }, 'waiting until a replica is Active')
    await time.sleep(POLL_MS, tools.signal)
    retryBudget.consume(POLL_MS, time.monotonicMs())
  }
}

/** Returns the error if the stream broke off and may succeed at the next attempt. */
async function streamAssigned(
  assignment: Assignment,
  round: StreamRound,
): Promise<EngineError | undefined> {
  const { collection, topology, scheduler, completed, context } = round
  const { shardId, node } = assignment
  try {
    const found = topology.shards.find((shard) => shard.shardId === shardId)
    const shard = { shardId, ...(found?.shardKey !== undefined && { shardKey: found.shardKey }) }
    const fingerprint = shardFingerprint(shard, topology)
    const source = { collection, shard, node, fingerprint, streams: round.streams }
    const snapshot = await streamShard(source, context)
    completed.set(shardId, snapshot)
    context.progress.shardCompleted(snapshot)
    return undefined
  } catch (error) {
    context.tools.signal.throwIfAborted()
    context.progress.shardFailed(shardId)
    if (error instanceof EngineError && error.status === 404)
      await rejectIfDeleted(collection, context)
    if (isTransient(error) || hasMovedAway(error)) return error
    throw error
  } finally {
    scheduler.release(assignment)
  }
}

/** 400: the shard has left this node since the last check, or is leaving it now. */
function hasMovedAway(error: unknown): error is EngineError {
  return error instanceof EngineError && error.status === 400
}

async function waitBeforeRetry(
  failure: EngineError,
  { shardId, node }: Assignment,
  { collection, failures, context }: StreamRound,
): Promise<void> {
  const { log, signal, time, reporter } = context.tools
  const retries = failures.get(shardId) ?? 0
  const delay = RETRY_DELAYS_MS[retries]
  if (delay === undefined) throw failure
  failures.set(shardId, retries + 1)
  const fields = { collection, shard: shardId, node, seconds: delay / 1000 }
  log.warn({ ...fields, reason: failure.message }, 'retrying shard')
  await time.sleep(delay, signal)
  await reporter.verifyOwnership()
}
