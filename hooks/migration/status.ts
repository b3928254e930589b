/** The whole status of a VecMigration, from what its Jobs reported (specification: states and transitions). */
import type { Progress } from '../../crds/command.ts'
import type { MigrationResult } from '../../crds/migration-command.ts'
import type { MigrationStatus, VecMigration } from '../../crds/migration.ts'
import { conditionsOf, timestamp, type Finding } from '../conditions.ts'
import type { Ending } from '../ending.ts'
import type { Context } from '../protocol.ts'
import { sourceName } from './places.ts'

/** A status shows no more of an error than this; the log of the Job has it all. */
const MAX_ERROR = 4096
/** All is done only once that was said. */
const NEARLY = 99

export interface Reported {
  migration: VecMigration
  progress?: Progress
}

/** Why a migration has not ended yet. */
export interface Remark {
  reason: string
  message: string
}

/** Pending until the points of its collections were counted, then Running. */
export function openStatus(
  reported: Reported,
  remark: Remark | undefined,
  { now }: Context,
): MigrationStatus {
  const { migration, progress } = reported
  const isStarted = progress?.migration !== undefined || migration.status?.startTime !== undefined
  const said = remark ?? {
    reason: isStarted ? 'MigrationRunning' : 'MigrationStarting',
    message: progress?.message ?? 'the points of its collections are being counted',
  }
  const finding: Finding = { type: 'Complete', status: 'False', ...said }
  return {
    phase: isStarted ? 'Running' : 'Pending',
    ...soFar(reported),
    conditions: conditionsOf(migration, [finding], now),
  }
}

export function endedStatus(
  reported: Reported,
  { phase, at, error }: Ending,
  { now }: Context,
): MigrationStatus {
  const { migration, progress: report } = reported
  const isComplete = phase === 'Completed'
  const { completed = 0, total = 0 } = report?.migration ?? {}
  const finding: Finding = {
    type: 'Complete',
    status: isComplete ? 'True' : 'False',
    reason: isComplete ? 'MigrationCompleted' : 'MigrationFailed',
    message: `Copied ${completed}/${total}`,
  }
  const { progress, ...status } = soFar(reported)
  return {
    phase,
    ...status,
    ...(progress !== undefined && {
      progress: { ...progress, ...(isComplete && { percentage: 100 }) },
    }),
    completionTime: timestamp(new Date(at)),
    ...(error !== undefined && { error: error.slice(0, MAX_ERROR) }),
    conditions: conditionsOf(migration, [finding], now),
  }
}

/** What the reports tell, over what is known from earlier ones: somebody may have removed them. */
function soFar({ migration, progress: report }: Reported): MigrationStatus {
  const source = sourceName(migration)
  const { startTime = startOf(report), collections, progress } = migration.status ?? {}
  if (startTime === undefined) return { source }
  return {
    startTime,
    source,
    ...(collections !== undefined && { collections }),
    ...(progress !== undefined && { progress }),
    ...(report?.migration !== undefined && resultOf(report.migration)),
  }
}

/** The first attempt's: a later one goes on with its work. */
function startOf(report: Progress | undefined): string | undefined {
  const start = report?.migration?.startedAt
  return start === undefined ? undefined : timestamp(new Date(start))
}

function resultOf(result: MigrationResult): MigrationStatus {
  const { total, completed, pointsTotal, pointsCopied, collections } = result
  return {
    collections,
    progress: {
      collectionsTotal: total,
      collectionsCompleted: completed,
      pointsTotal,
      pointsCopied,
      percentage: percentageOf(result),
    },
  }
}

function percentageOf({ pointsCopied, pointsTotal }: MigrationResult): number {
  if (pointsTotal === 0) return 0
  return Math.min(NEARLY, Math.floor((100 * pointsCopied) / pointsTotal))
}
