/**
 * Backs up one collection with method Node: the snapshots of all nodes, which must have the same
 * topology.
 */
import { EngineError } from '../../../crds/contract/errors.ts'
import { NodeCollection, type NodeSnapshot } from '../../../crds/contract/manifest.ts'
import { readCompletedCollection, writeCompletedCollection } from '../completed-collection.ts'
import { MAX_ROUNDS, ordinals, type RunContext } from '../context.ts'
import { excludeShards, manifestCounts, readCountsAfter, readCountsBefore } from '../point-count.ts'
import { requireCollection, waitForConfirmedChanges } from '../source-cluster.ts'
import { readTopology, waitForTopology } from '../topology.ts'
import {
  readCheckpoint,
  readCheckpoints,
  writeCheckpoint,
  type Checkpoint,
  type SnapshotRef,
} from './checkpoint.ts'
import { backUpNode, cleanUpPreviousAttempt, type Round } from './node-snapshot.ts'

export async function backUpByNode(name: string, context: RunContext): Promise<NodeCollection> {
  const completed = await readCompletedCollection(NodeCollection, name, context)
  if (completed !== undefined) return completed
  await requireCollection(name, context)
  let previous = await readCheckpoints(name, context)
  // Resume at the round of the earlier pod: all of its snapshots in that round have the same
  // topology.
  const firstRound = Math.max(1, ...previous.map((checkpoint) => checkpoint?.round ?? 1))
  for (let number = firstRound; number < firstRound + MAX_ROUNDS; number += 1) {
    const round = { number, topology: await waitForTopology(name, context) }
    // An alias may have replaced it since, and the engine returns another collection by that.
    if (number > firstRound) await requireCollection(name, context)
    const before = await readCountsBefore(name, round.topology.manifestFields, context)
    const snapshots = await takeSnapshots(name, round, previous, context)
    if (snapshots !== undefined && (await isUnchanged(round, name, context))) {
      const after = await readCountsAfter(name, round.topology.manifestFields, context)
      const comparable = excludeShards(before, reusedShardIds(previous, snapshots))
      const counts = manifestCounts(round.topology.manifestFields, comparable, after)
      return writeCompletedCollection(
        { name, snapshots, ...round.topology.manifestFields, ...counts },
        context,
      )
    }
    context.tools.log.warn(
      { collection: name, round: number },
      'collection changed during the backup, starting over',
    )
    await discardRound(name, number, context)
    previous = []
  }
  throw new EngineError(
    `collection ${name}: it was recreated, its shards moved, or its configuration or the engine version changed ${MAX_ROUNDS} times while it was backed up`,
  )
}

/** Removes the snapshots of a collection from the bucket and from the nodes. */
export async function discardNodeSnapshots(name: string, context: RunContext): Promise<void> {
  for (const ordinal of ordinals(context)) await discardNode({ collection: name, ordinal }, context)
}

/** Undefined once the topology has changed, also if an earlier pod started the round. */
async function takeSnapshots(
  name: string,
  round: Round,
  previous: (Checkpoint | undefined)[],
  context: RunContext,
): Promise<NodeSnapshot[] | undefined> {
  if (previous.some((checkpoint) => hasOtherTopology(checkpoint, round))) return undefined
  const snapshots: NodeSnapshot[] = []
  for (const ordinal of ordinals(context)) {
    const ref = { collection: name, ordinal }
    const snapshot = await backUpNode(ref, { ...round, previous: previous[ordinal] }, context)
    if (snapshot === undefined) return undefined
    snapshots.push(snapshot)
  }
  return snapshots
}

/** Shards in the snapshots that an earlier pod created. */
function reusedShardIds(previous: (Checkpoint | undefined)[], snapshots: NodeSnapshot[]): number[] {
  const reused = previous.flatMap((checkpoint) =>
    checkpoint?.state === 'Whole' ? [checkpoint.snapshot] : [],
  )
  return snapshots
    .filter((snapshot) => reused.includes(snapshot))
    .flatMap(({ localShards }) => localShards.map(({ shardId }) => shardId))
}

function hasOtherTopology(
  checkpoint: Checkpoint | undefined,
  { number, topology }: Round,
): boolean {
  if (checkpoint?.state !== 'Whole' || checkpoint.round !== number) return false
  return checkpoint.fingerprint !== topology.fingerprint
}

/** A shard that moved between two snapshots may be in neither of them. */
async function isUnchanged(
  { topology }: Round,
  name: string,
  context: RunContext,
): Promise<boolean> {
  await waitForConfirmedChanges(context)
  const current = await readTopology(name, context)
  return typeof current !== 'string' && current.fingerprint === topology.fingerprint
}

/** Discards a round: neither this pod nor a later one may reuse any of its snapshots. */
async function discardRound(name: string, number: number, context: RunContext): Promise<void> {
  for (const ordinal of ordinals(context)) {
    const ref = { collection: name, ordinal }
    await discardNode(ref, context)
    await writeCheckpoint(
      ref,
      { state: 'Begun', uid: context.plan.uid, round: number + 1 },
      context,
    )
  }
}

async function discardNode(ref: SnapshotRef, context: RunContext): Promise<void> {
  const checkpoint = await readCheckpoint(ref, context)
  if (checkpoint !== undefined) await cleanUpPreviousAttempt(ref, checkpoint, context)
}
