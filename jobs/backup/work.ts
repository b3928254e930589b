/** What the parts of one run of `backup run` share. */
import type { BackupPlan } from '../../crds/command.ts'
import { EngineSnapshots } from '../clients/engine-snapshots.ts'
import type { Engine } from '../clients/engine.ts'
import type { Bucket } from '../clients/s3.ts'
import type { Patience } from '../patience.ts'
import type { Tools } from '../tools.ts'
import type { ShardSizes } from './shards/sizes.ts'
import type { Tally } from './tally.ts'

/** Shards that move or change under way are followed so often. */
export const ROUNDS = 3

/** A node that is restarted needs about so long to serve again. */
export const RETRIES_MS: readonly number[] = [5_000, 20_000, 60_000]

/** While a store takes nothing, it is told so often where the backup stands. */
export const STALL_EVERY_MS = 5_000

export interface Work {
  plan: BackupPlan
  tools: Tools
  bucket: Bucket
  /** `<prefix>/<name>/` */
  folder: string
  tally: Tally
  patience: Patience
  /** By shard: how large each may be. */
  sizes: ShardSizes
  /** Snapshot files that may be of this backup and remain on nodes: the status names them at the end. */
  leftBehind: LeftBehind[]
}

export interface LeftBehind {
  collection: string
  ordinal: number
  /** Which file, and on which node. */
  description: string
}

/** Also what an earlier pod recorded; each once. */
export function recordLeftBehind({ leftBehind }: Pick<Work, 'leftBehind'>, file: LeftBehind): void {
  if (!leftBehind.some(({ description }) => description === file.description)) leftBehind.push(file)
}

export function ordinals({ plan }: Pick<Work, 'plan'>): number[] {
  return Array.from({ length: plan.cluster.replicas }, (_, ordinal) => ordinal)
}

export function engineOn({ plan, tools }: Pick<Work, 'plan' | 'tools'>, ordinal: number): Engine {
  return tools.engineOn(plan.cluster, ordinal)
}

export function snapshotsOn(work: Work, ordinal: number): EngineSnapshots {
  return new EngineSnapshots(engineOn(work, ordinal))
}
