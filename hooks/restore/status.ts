/** The whole status of a VecRestore, from what its Jobs reported (specification: states and transitions). */
import type { Progress } from '../../crds/command.ts'
import type { RestoreResult } from '../../crds/restore-command.ts'
import type { RestoreStatus, VecRestore } from '../../crds/restore.ts'
import { sourceName } from '../../crds/rules/restore-places.ts'
import { humanSize } from '../../crds/size.ts'
import { conditionsOf } from '../conditions.ts'
import type { Ending } from '../ending.ts'
import type { Context } from '../protocol.ts'
import {
  complete,
  endFields,
  incomplete,
  percentageOf,
  startTimeOf,
  unlistedFields,
  type Remark,
} from '../transfer-status.ts'

export interface Reported {
  restore: VecRestore
  progress?: Progress
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
  return {
    phase: openPhase(reported),
    ...soFar(reported),
    conditions: conditionsOf(restore, [incomplete(said)], now),
  }
}

export function endedStatus(reported: Reported, ending: Ending, { now }: Context): RestoreStatus {
  const { restore, progress: report } = reported
  const { phase } = ending
  const isComplete = phase === 'Completed'
  const { completed = 0, total = 0 } = report?.restore ?? {}
  const finding = complete(ending, {
    reason: isComplete ? 'RestoreCompleted' : 'RestoreFailed',
    message: `Restored ${completed}/${total}`,
  })
  return {
    phase,
    ...soFar(reported),
    ...(isComplete && {
      progress: { collectionsTotal: total, collectionsCompleted: completed, percentage: 100 },
    }),
    ...endFields(ending),
    conditions: conditionsOf(restore, [finding], now),
  }
}

function openPhase({ restore, progress }: Reported): NonNullable<RestoreStatus['phase']> {
  const { phase, startTime } = restore.status ?? {}
  if (progress === undefined && startTime === undefined) return 'Pending'
  // A pod that comes after a killed one may not have read it again.
  if (phase === 'Restoring') return phase
  return progress?.restore?.phase ?? 'Downloading'
}

/** What the reports tell, over what is known from earlier ones: somebody may have removed them. */
function soFar({ restore, progress: report }: Reported): RestoreStatus {
  const sourceBackup = sourceName(restore)
  const { status = {} } = restore
  const { startTime = startOf(report), restoredCollections, unlistedCollections, progress } = status
  if (startTime === undefined) return { sourceBackup }
  return {
    sourceBackup,
    startTime,
    ...(restoredCollections !== undefined && { restoredCollections }),
    ...(progress !== undefined && { progress }),
    ...(report?.restore === undefined
      ? unlistedCollections !== undefined && { unlistedCollections }
      : resultOf(report.restore)),
  }
}

function startOf(report: Progress | undefined): string | undefined {
  return startTimeOf(report?.restore?.startedAt ?? report?.startedAt)
}

function resultOf(result: RestoreResult): RestoreStatus {
  const { total, completed, bytes, bytesTotal, current, collections } = result
  return {
    restoredCollections: collections.map(
      ({ name, originalName, status, bytes: size, points, error }) => ({
        name,
        ...(originalName !== undefined && { originalName }),
        status,
        ...(size !== undefined && { size: humanSize(size) }),
        ...(points !== undefined && { pointsCount: points }),
        ...(error !== undefined && { error }),
      }),
    ),
    ...unlistedFields(result.unlisted),
    progress: {
      collectionsTotal: total,
      collectionsCompleted: completed,
      ...(current !== undefined && { currentCollection: current.collection }),
      percentage: percentageOf(bytes, bytesTotal),
    },
  }
}
