/** What the parts of one run of `backup run` share. */
import type { BackupPlan } from '../../crds/command.ts'
import { EngineError } from '../../crds/errors.ts'
import { EngineSnapshots } from '../clients/engine-snapshots.ts'
import type { Engine } from '../clients/engine.ts'
import type { Bucket } from '../clients/s3.ts'
import type { Tools } from '../tools.ts'
import type { Tally } from './tally.ts'

export interface Work {
  plan: BackupPlan
  tools: Tools
  bucket: Bucket
  /** `<prefix>/<name>/` */
  folder: string
  tally: Tally
  patience: Patience
  /** Snapshot files the engine still has, for nobody could delete them. */
  leftBehind: string[]
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

/** Whether the engine may answer otherwise a little later. */
export function isPassing(error: unknown): error is EngineError {
  if (!(error instanceof EngineError)) return false
  const { status, message } = error
  if (status === undefined) return true
  return (status >= 500 && !isFull(message)) || [404, 408, 429].includes(status)
}

/** What a person can do about it, where the engine's words do not say. */
export function explained(message: string): string {
  if (!isFull(message)) return message
  return `${message} (the snapshot does not fit: enable snapshotPersistence or grow the data volume)`
}

function isFull(message: string): boolean {
  return /no space left|out of disk|507/i.test(message)
}

const COLLECTION_MS = 600_000
const RUN_MS = 1_800_000
/** Also where all patience is gone, a moment is left for what ends at once. */
const LEAST_MS = 10_000

/**
 * How long may still be waited. A node that stays away must not cost its time for each of hundreds of
 * collections.
 */
export class Patience {
  #leftMs = RUN_MS

  /** For one thing that is waited for. */
  share(): number {
    return Math.max(LEAST_MS, Math.min(COLLECTION_MS, this.#leftMs))
  }

  spend(ms: number): void {
    this.#leftMs -= ms
  }
}
