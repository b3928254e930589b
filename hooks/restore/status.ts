/** The status and Events of a VecRestore, from what its Jobs reported. */
import type { Progress } from '../../crds/contract/job.ts'
import type { RestoreResult } from '../../crds/contract/restore-job.ts'
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import { formatRestoreSource, type RestoreStatus, type VecRestore } from '../../crds/restore.ts'
import type { ConditionReason } from '../../crds/schema.ts'
import { formatBytes } from '../../crds/units.ts'
import { setConditions } from '../conditions.ts'
import type { Outcome } from '../data-job/observe.ts'
import {
  completionFields,
  dataJobEvents,
  outcomeCondition,
  outcomeTime,
  formatStartTime,
  unfinishedCondition,
  unfinishedPercentage,
  unlistedFields,
} from '../data-job/decision.ts'
import type { Context } from '../protocol.ts'

export interface StatusInputs {
  restore: VecRestore
  progress?: Progress
}

/** Pending until its first report, Downloading until the manifest was read, then Restoring. */
export function activeStatus(
  inputs: StatusInputs,
  conditionReason: ConditionReason | undefined,
  { now }: Context,
): RestoreStatus {
  const { restore, progress } = inputs
  const reason = conditionReason ?? {
    reason: 'RestoreRunning',
    message: progress?.message ?? 'the restore has started',
  }
  return {
    phase: activePhase(inputs),
    ...reportedFields(inputs),
    conditions: setConditions(restore, [unfinishedCondition(reason)], now),
  }
}

export function finishedStatus(inputs: StatusInputs, outcome: Outcome): RestoreStatus {
  const { restore, progress: report } = inputs
  const { phase } = outcome
  const isComplete = phase === 'Completed'
  const { completed = 0, total = 0 } = report?.restore ?? {}
  const update = outcomeCondition(outcome, {
    reason: isComplete ? 'RestoreCompleted' : 'RestoreFailed',
    message: `Restored ${completed}/${total}`,
  })
  return {
    phase,
    ...reportedFields(inputs),
    ...(isComplete && {
      progress: { collectionsTotal: total, collectionsCompleted: completed, percentage: 100 },
    }),
    ...completionFields(withLeftoverHint(outcome, report)),
    conditions: setConditions(restore, [update], outcomeTime(outcome)),
  }
}

/** No pod was left to restore the replication factor that one had lowered: the status says what to do. */
function withLeftoverHint(outcome: Outcome, report: Progress | undefined): Outcome {
  const { current } = report?.restore ?? {}
  // The pod that wrote a final report has restored it, or has noted that it could not.
  if (report?.state !== 'Started' || current?.factor === undefined) return outcome
  const { collection, factor } = current
  const hint = `replication_factor of ${collection} may still be 1 at the target: set it to ${factor}`
  return { ...outcome, error: [outcome.error, hint].join('; ') }
}

function activePhase({ restore, progress }: StatusInputs): NonNullable<RestoreStatus['phase']> {
  const { phase, startTime } = restore.status ?? {}
  if (progress === undefined && startTime === undefined) return 'Pending'
  // The pod that replaces a killed one may not have read the manifest again.
  if (phase === 'Restoring') return phase
  return progress?.restore?.phase ?? 'Downloading'
}

/** The reported fields over those of earlier reports: a user may have removed the report. */
function reportedFields({ restore, progress: report }: StatusInputs): RestoreStatus {
  const sourceBackup = formatRestoreSource(restore)
  const { status = {} } = restore
  const {
    startTime = reportedStart(report),
    restoredCollections,
    unlistedCollections,
    progress,
  } = status
  if (startTime === undefined) return { sourceBackup }
  return {
    sourceBackup,
    startTime,
    ...(restoredCollections !== undefined && { restoredCollections }),
    ...(progress !== undefined && { progress }),
    ...(report?.restore === undefined
      ? unlistedCollections !== undefined && { unlistedCollections }
      : resultFields(report.restore)),
  }
}

function reportedStart(report: Progress | undefined): string | undefined {
  return formatStartTime(report?.restore?.startedAt ?? report?.startedAt)
}

function resultFields(result: RestoreResult): RestoreStatus {
  const { total, completed, bytes, bytesTotal, current, collections } = result
  return {
    restoredCollections: collections.map(
      ({ name, originalName, status, bytes: size, points, error }) => ({
        name,
        ...(originalName !== undefined && { originalName }),
        status,
        ...(size !== undefined && { size: formatBytes(size) }),
        ...(points !== undefined && { pointsCount: points }),
        ...(error !== undefined && { error }),
      }),
    ),
    ...unlistedFields(result.unlisted),
    progress: {
      collectionsTotal: total,
      collectionsCompleted: completed,
      ...(current !== undefined && { currentCollection: current.collection }),
      percentage: unfinishedPercentage(bytes, bytesTotal),
    },
  }
}

export function restoreEvents(
  { restore, progress }: StatusInputs,
  status: RestoreStatus,
  now: Date,
): KubernetesEvent[] {
  const { startTime, sourceBackup = 'the backup' } = status
  const { bytes = 0, notes = [] } = progress?.restore ?? {}
  return dataJobEvents(
    { resource: restore, status, now },
    {
      started: startTime !== undefined &&
        restore.status?.startTime === undefined && {
          reason: 'RestoreStarted',
          message: `restoring from ${sourceBackup}`,
        },
      completed: {
        reason: 'RestoreCompleted',
        suffix: [`, ${formatBytes(bytes)}`, ...notes].join('; '),
      },
      failed: 'RestoreFailed',
    },
  )
}
