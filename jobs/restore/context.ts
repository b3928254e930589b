/** What the parts of one run of `restore run` share. */
import type { RestorePlan } from '../../crds/contract/restore-job.ts'
import { EngineCollections } from '../clients/engine/collections.ts'
import { EngineRecovery, type SnapshotPriority } from '../clients/engine/recovery.ts'
import { EngineSnapshots } from '../clients/engine/snapshots.ts'
import type { Engine } from '../clients/engine/client.ts'
import type { Bucket } from '../clients/s3/bucket.ts'
import type { RetryBudget } from '../retry.ts'
import type { Dependencies } from '../dependencies.ts'
import type { Placement, TargetTopology } from './placement.ts'
import type { Progress } from './progress.ts'

export interface RunContext {
  plan: RestorePlan
  tools: Dependencies
  bucket: Bucket
  /** Of manifest.json, with a slash at its end. */
  folder: string
  priority: SnapshotPriority
  waitForIndexing: boolean
  /** Copies of each shard, where the spec asks for another number than the backup has. */
  replicationFactor: number | undefined
  progress: Progress
  patience: RetryBudget
  /** How each node gets its snapshots, once that was found out. */
  deliveryModes: Map<number, 'fetch' | 'upload'>
  /** Replication factors that are lowered at this moment, by name at the target: each is put back. */
  factors: Map<string, number>
  /** Where the shards of each collection are to be, by its name at the target. */
  placements: Map<string, Placement>
}

/** All it takes to look at bucket and target, and to touch nothing. */
export interface PreflightContext extends Pick<
  RunContext,
  'plan' | 'bucket' | 'priority' | 'replicationFactor' | 'patience'
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

export function engineOn({ plan, tools }: EngineAccess, ordinal: number): Engine {
  return tools.engineForPod(plan.cluster, ordinal)
}

export function recoveryOn(access: EngineAccess, ordinal: number): EngineRecovery {
  return new EngineRecovery(engineOn(access, ordinal))
}

export function collectionsOn(access: EngineAccess, ordinal: number): EngineCollections {
  return new EngineCollections(engineOn(access, ordinal))
}

export function snapshotsOn(access: EngineAccess, ordinal: number): EngineSnapshots {
  return new EngineSnapshots(engineOn(access, ordinal))
}
