/**
 * What the statuses of a VecBackup, a VecRestore and a VecMigration share (specification: states and
 * transitions).
 */
import { timestamp, type Finding } from './conditions.ts'
import type { Ending } from './ending.ts'

/** A status shows no more of an error than this; the log of the Job has it all. */
const MAX_ERROR = 4096
/** In percent: all is done only once that was said. */
const NEARLY = 99

/** Why it has not ended yet, or how it has. */
export interface Remark {
  reason: string
  message: string
}

/** Condition Complete of what has not ended. */
export function incomplete(remark: Remark): Finding {
  return { type: 'Complete', status: 'False', ...remark }
}

/** Condition Complete of what has. */
export function complete({ phase, message }: Ending, told: Remark): Finding {
  const status = phase === 'Completed' ? 'True' : 'False'
  return { type: 'Complete', status, ...told, message: message ?? told.message }
}

/** When it ended, and why it failed. */
export function endFields({ at, error }: Ending): { completionTime: string; error?: string } {
  return {
    completionTime: timestamp(new Date(at)),
    ...(error !== undefined && { error: error.slice(0, MAX_ERROR) }),
  }
}

/** How many collections the lists of a report left out, by state: zeros are left out themselves. */
export function unlistedFields(unlisted: Record<'completed' | 'failed' | 'pending', number>): {
  unlistedCollections?: Partial<typeof unlisted>
} {
  const counts = Object.entries(unlisted).filter(([, count]) => count > 0)
  return counts.length === 0 ? {} : { unlistedCollections: Object.fromEntries(counts) }
}

/** When the first attempt started: a later one goes on with its work. */
export function startTimeOf(startedAt: string | undefined): string | undefined {
  return startedAt === undefined ? undefined : timestamp(new Date(startedAt))
}

/** How much of something is done, in percent, while it has not ended. */
export function percentageOf(done: number, total: number): number {
  return total === 0 ? 0 : Math.min(NEARLY, Math.floor((100 * done) / total))
}
