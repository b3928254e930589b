/** What the parts of one run of `restore run` share. */
import type { RestorePlan } from '../../crds/restore-command.ts'
import { EngineCollections } from '../clients/engine-collections.ts'
import { EngineRecovery, type SnapshotPriority } from '../clients/engine-recovery.ts'
import { EngineSnapshots } from '../clients/engine-snapshots.ts'
import type { Engine } from '../clients/engine.ts'
import type { Bucket } from '../clients/s3.ts'
import type { Patience } from '../patience.ts'
import type { Tools } from '../tools.ts'
import type { Places, Target } from './places.ts'
import type { Tally } from './tally.ts'

export interface Work {
  plan: RestorePlan
  tools: Tools
  bucket: Bucket
  /** Of manifest.json, with a slash at its end. */
  folder: string
  priority: SnapshotPriority
  waitForIndexing: boolean
  /** Copies of each shard, where the spec asks for another number than the backup has. */
  replicationFactor: number | undefined
  tally: Tally
  patience: Patience
  /** How each node gets its snapshots, once that was found out. */
  ways: Map<number, 'fetch' | 'upload'>
  /** Replication factors that are lowered at this moment, by name at the target: each is put back. */
  factors: Map<string, number>
  /** Where the shards of each collection are to be, by its name at the target. */
  places: Map<string, Places>
}

/** All it takes to look at bucket and target, and to touch nothing. */
export interface Inspection extends Pick<
  Work,
  'plan' | 'bucket' | 'priority' | 'replicationFactor' | 'patience'
> {
  tools: Pick<Tools, 'engineOn' | 'signal' | 'log' | 'time'>
}

export type Reach = Pick<Inspection, 'plan' | 'tools'>

export function ordinals({ plan }: Pick<Work, 'plan'>): number[] {
  return Array.from({ length: plan.cluster.replicas }, (_, ordinal) => ordinal)
}

export function targetOf({
  plan,
  replicationFactor,
}: Pick<Work, 'plan' | 'replicationFactor'>): Target {
  return { nodes: plan.cluster.replicas, replicationFactor }
}

export function engineOn({ plan, tools }: Reach, ordinal: number): Engine {
  return tools.engineOn(plan.cluster, ordinal)
}

export function recoveryOn(reach: Reach, ordinal: number): EngineRecovery {
  return new EngineRecovery(engineOn(reach, ordinal))
}

export function collectionsOn(reach: Reach, ordinal: number): EngineCollections {
  return new EngineCollections(engineOn(reach, ordinal))
}

export function snapshotsOn(reach: Reach, ordinal: number): EngineSnapshots {
  return new EngineSnapshots(engineOn(reach, ordinal))
}
