/** The numbers of points of replicas, counted in ways that cannot harm the engine, and whether they differ. */
import { EngineError } from '../../../crds/contract/errors.ts'
import { MAX_EXACT_POINTS } from '../../../crds/contract/limits.ts'
import type { EngineShards, ShardPlacement } from '../../clients/engine/shards.ts'
import { ignoreEngineError } from '../../clients/engine/statistics.ts'
import type { CountedReplica, ReplicaView } from './view.ts'

export type Counting = Pick<EngineShards, 'estimatePoints' | 'countPoints'>

/** What a member reports about one collection. */
export interface CollectionReport {
  ordinal: number
  engine: Counting
  peer: number
  placement: ShardPlacement
}

interface ComparedShard {
  id: number
  replicas: ReplicaView[]
  reports: CollectionReport[]
  signal: AbortSignal
}

/**
 * The numbers of points of the Active replicas, if they differ or one of them is unknown. Under writes they differ for
 * moments, so it is enough that they were equal once.
 */
export async function findDifference(
  name: string,
  { id, replicas, reports, signal }: ComparedShard,
  equal: Set<string>,
): Promise<CountedReplica[] | undefined> {
  const key = `${name}/${id}`
  const active = replicas.filter(({ state }) => state === 'Active').map(({ peer }) => peer)
  const owners = reports.filter(({ peer }) => active.includes(peer))
  // A replica that was not Active has missed changes.
  if (owners.length < replicas.length) equal.delete(key)
  if (equal.has(key) || owners.length < 2) return undefined
  const isLarge = owners.some((owner) => isLargeShard(reportedPoints(owner, id)))
  const counts = await Promise.all(
    owners.map(async ({ ordinal, engine }): Promise<CountedReplica> => {
      // No answer: nothing is known about the replica.
      const points = await countPoints(engine, { name, id, isLarge, signal }).catch(
        ignoreEngineError,
      )
      return { ordinal, ...(points !== undefined && { points }) }
    }),
  )
  if (new Set(counts.map(({ points }) => points)).size === 1 && counts[0]?.points !== undefined) {
    equal.add(key)
    return undefined
  }
  return counts
}

interface Count {
  name: string
  id: number
  isLarge: boolean
  signal: AbortSignal
  timeoutMs?: number
}

export function isLargeShard(points: number): boolean {
  return points > MAX_EXACT_POINTS
}

/**
 * An exact count of a large shard would take gigabytes of memory on each of its nodes (statistics.ts), and strict mode may
 * forbid it: then by the estimate that the node makes of the whole shard, without a filter.
 */
export async function countPoints(
  engine: Counting,
  { name, id, isLarge, signal, timeoutMs }: Count,
): Promise<number | undefined> {
  const estimate = async () => {
    const points = await engine.estimatePoints(name, id, signal)
    return points === 'unreadable' ? undefined : points
  }
  if (isLarge) return estimate()
  try {
    return await engine.countPoints(name, id, {
      signal,
      ...(timeoutMs !== undefined && { timeoutMs }),
    })
  } catch (error) {
    if (error instanceof EngineError && isForbidden(error)) return estimate()
    throw error
  }
}

function isForbidden({ status }: EngineError): boolean {
  return status === 400 || status === 403
}

function reportedPoints({ placement }: CollectionReport, id: number): number {
  return placement.local_shards.find(({ shard_id }) => shard_id === id)?.points_count ?? 0
}
