/** Types and engine clients that the modules of one `restore run` share. */
import type { RestorePlan } from '../../crds/contract/restore-job.ts'
import { EngineCollections } from '../clients/engine/collections.ts'
import { EngineRecovery, type SnapshotPriority } from '../clients/engine/recovery.ts'
import { EngineSnapshots } from '../clients/engine/snapshots.ts'
import type { Engine } from '../clients/engine/client.ts'
import type { Bucket } from '../clients/s3/bucket.ts'
import { isReportable, withHint, type RetryBudget } from '../retry.ts'
import type { Dependencies } from '../dependencies.ts'
import type { LoweredFactor } from './checkpoint.ts'
import type { Placement, TargetTopology } from './placement.ts'
import type { Progress } from './progress.ts'

export interface RunContext {
  plan: RestorePlan
  tools: Dependencies
  bucket: Bucket
  /** Folder of manifest.json with a trailing slash; empty at the root of the bucket. */
  folder: string
  priority: SnapshotPriority
  waitForIndexing: boolean
  /** Replicas of each shard, if the spec overrides the number in the backup. */
  replicationFactor: number | undefined
  progress: Progress
  retryBudget: RetryBudget
  /** How each node receives its snapshots, by ordinal; filled as soon as it is detected. */
  deliveryModes: Map<number, 'fetch' | 'upload'>
  /**
   * Original replication factors of the collections whose factor is currently lowered, by name at
   * the target. Each one is restored.
   */
  factors: Map<string, LoweredFactor>
  /** Nodes of the shards of each collection, by its name at the target. */
  placements: Map<string, Placement>
}

/** What the checks need to read the bucket and the target. They change nothing. */
export interface PreflightContext extends Pick<
  RunContext,
  'plan' | 'bucket' | 'priority' | 'replicationFactor' | 'retryBudget'
> {
  tools: Pick<Dependencies, 'engineForPod' | 'signal' | 'log' | 'time'>
}

export type EngineAccess = Pick<PreflightContext, 'plan' | 'tools'>

export function ordinals({ plan }: Pick<RunContext, 'plan'>): number[] {
  return Array.from({ length: plan.cluster.replicas }, (_, ordinal) => ordinal)
}

export function targetTopology({
  plan,
  replicationFactor,
}: Pick<RunContext, 'plan' | 'replicationFactor'>): TargetTopology {
  return { nodes: plan.cluster.replicas, replicationFactor }
}

export function engineForPod({ plan, tools }: EngineAccess, ordinal: number): Engine {
  return tools.engineForPod(plan.cluster, ordinal)
}

export function recoveryForPod(access: EngineAccess, ordinal: number): EngineRecovery {
  return new EngineRecovery(engineForPod(access, ordinal))
}

export function collectionsForPod(access: EngineAccess, ordinal: number): EngineCollections {
  return new EngineCollections(engineForPod(access, ordinal))
}

export function snapshotsForPod(access: EngineAccess, ordinal: number): EngineSnapshots {
  return new EngineSnapshots(engineForPod(access, ordinal))
}

/**
 * Runs the restore of one collection, so that its failure does not stop the others. Returns whether `act`
 * succeeded. An error that a user can fix fails this collection only.
 */
export async function attemptCollection(
  name: string,
  act: () => Promise<void>,
  context: RunContext,
): Promise<boolean> {
  const { tools, progress } = context
  try {
    await act()
    return true
  } catch (error) {
    tools.signal.throwIfAborted()
    if (!isReportable(error)) throw error
    const message = withHint(error.message)
    tools.log.error({ collection: name, reason: message }, `collection ${name} failed`)
    progress.failed(name, message)
    return false
  }
}
