/** The whole status of a VecRestore, from what its Jobs reported (specification: states and transitions). */
import type { Progress } from '../../crds/command.ts'
import type { RestoreResult } from '../../crds/restore-command.ts'
import type { RestoreStatus, VecRestore } from '../../crds/restore.ts'
import { humanSize } from '../../crds/size.ts'
import { conditionsOf, timestamp, type Finding } from '../conditions.ts'
import type { Ending } from '../ending.ts'
import type { Context } from '../protocol.ts'
import { sourceName } from '../../crds/rules/restore-places.ts'

/** A status shows no more of an error than this; the log of the Job has it all. */
const MAX_ERROR = 4096
/** All is done only once that was said. */
const NEARLY = 99

export interface Reported {
  restore: VecRestore
  progress?: Progress
}

/** Why a restore has not ended yet. */
export interface Remark {
  reason: string
  message: string
}

/** Pending until its first report, Downloading until the manifest was read, then Restoring. */
export function openStatus(
  reported: Reported,
  remark: Remark | undefined,
  { now }: Context,
): RestoreStatus {
  const { restore, progress } = reported
  const said = remark ?? {
    reason: 'RestoreRunning',
    message: progress?.message ?? 'the restore has started',
  }
  const finding: Finding = { type: 'Complete', status: 'False', ...said }
  return {
    phase: openPhase(reported),
    ...soFar(reported),
    conditions: conditionsOf(restore, [finding], now),
  }
}

export function endedStatus(
  reported: Reported,
  { phase, at, error }: Ending,
  { now }: Context,
): RestoreStatus {
  const { restore, progress: report } = reported
  const isComplete = phase === 'Completed'
  const { completed = 0, total = 0 } = report?.restore ?? {}
  const finding: Finding = {
    type: 'Complete',
    status: isComplete ? 'True' : 'False',
    reason: isComplete ? 'RestoreCompleted' : 'RestoreFailed',
    message: `Restored ${completed}/${total}`,
  }
  return {
    phase,
    ...soFar(reported),
    ...(isComplete && {
      progress: { collectionsTotal: total, collectionsCompleted: completed, percentage: 100 },
    }),
    completionTime: timestamp(new Date(at)),
    ...(error !== undefined && { error: error.slice(0, MAX_ERROR) }),
    conditions: conditionsOf(restore, [finding], now),
  }
}

function openPhase({ restore, progress }: Reported): NonNullable<RestoreStatus['phase']> {
  const { phase = 'Pending', startTime } = restore.status ?? {}
  if (progress === undefined && startTime === undefined) return 'Pending'
  // A pod that comes after a killed one may not have read it again.
  if (phase === 'Restoring') return phase
  return progress?.restore?.phase ?? 'Downloading'
}

/** What the reports tell, over what is known from earlier ones: somebody may have removed them. */
function soFar({ restore, progress: report }: Reported): RestoreStatus {
  const sourceBackup = sourceName(restore)
  const { startTime = startOf(report), restoredCollections, progress } = restore.status ?? {}
  if (startTime === undefined) return { sourceBackup }
  return {
    sourceBackup,
    startTime,
    ...(restoredCollections !== undefined && { restoredCollections }),
    ...(progress !== undefined && { progress }),
    ...(report?.restore !== undefined && resultOf(report.restore)),
  }
}

/** The first attempt's: a later one goes on with its work. */
function startOf(report: Progress | undefined): string | undefined {
  const start = report?.restore?.startedAt ?? report?.startedAt
  return start === undefined ? undefined : timestamp(new Date(start))
}

function resultOf(result: RestoreResult): RestoreStatus {
  const { total, completed, current, collections } = result
  return {
    restoredCollections: collections.map(
      ({ name, originalName, status, bytes, points, error }) => ({
        name,
        ...(originalName !== undefined && { originalName }),
        status,
        ...(bytes !== undefined && { size: humanSize(bytes) }),
        ...(points !== undefined && { pointsCount: points }),
        ...(error !== undefined && { error }),
      }),
    ),
    progress: {
      collectionsTotal: total,
      collectionsCompleted: completed,
      ...(current !== undefined && { currentCollection: current.collection }),
      percentage: percentageOf(result),
    },
  }
}

function percentageOf({ bytes, bytesTotal }: RestoreResult): number {
  if (bytesTotal === 0) return 0
  return Math.min(NEARLY, Math.floor((100 * bytes) / bytesTotal))
}
