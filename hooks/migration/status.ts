/** The whole status of a VecMigration, from what its Jobs reported (specification: states and transitions). */
import type { Progress } from '../../crds/command.ts'
import type { MigrationResult } from '../../crds/migration-command.ts'
import type { MigrationStatus, VecMigration } from '../../crds/migration.ts'
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
import { sourceName } from './places.ts'

export interface Reported {
  migration: VecMigration
  progress?: Progress
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
  return {
    phase: isStarted ? 'Running' : 'Pending',
    ...soFar(reported),
    conditions: conditionsOf(migration, [incomplete(said)], now),
  }
}

export function endedStatus(reported: Reported, ending: Ending, { now }: Context): MigrationStatus {
  const { migration, progress: report } = reported
  const { phase } = ending
  const isComplete = phase === 'Completed'
  const { completed = 0, total = 0 } = report?.migration ?? {}
  const finding = complete(ending, {
    reason: isComplete ? 'MigrationCompleted' : 'MigrationFailed',
    message: `Copied ${completed}/${total}`,
  })
  const { progress, ...status } = soFar(reported)
  return {
    phase,
    ...status,
    ...(progress !== undefined && {
      progress: { ...progress, ...(isComplete && { percentage: 100 }) },
    }),
    ...endFields(withLeftover(ending, report)),
    conditions: conditionsOf(migration, [finding], now),
  }
}

/** No pod was left to put back what the first one held back: the status says what is to be done. */
function withLeftover(ending: Ending, report: Progress | undefined): Ending {
  const { position, collections = [] } = report?.migration ?? {}
  if (ending.phase !== 'Failed' || position?.indexingThreshold === undefined) return ending
  const { collection, indexingThreshold } = position
  const known = collections.find(({ name }) => name === collection)
  const name = known?.targetName ?? collection
  const left = `indexing_threshold of ${name} may still be 0 on the target: set it to ${indexingThreshold}`
  return { ...ending, error: `${ending.error ?? 'the Job ended'}; ${left}` }
}

/** What the reports tell, over what is known from earlier ones: somebody may have removed them. */
function soFar({ migration, progress: report }: Reported): MigrationStatus {
  const source = sourceName(migration)
  const {
    startTime = startTimeOf(report?.migration?.startedAt),
    collections,
    unlistedCollections,
    progress,
  } = migration.status ?? {}
  if (startTime === undefined) return { source }
  return {
    startTime,
    source,
    ...(collections !== undefined && { collections }),
    ...(progress !== undefined && { progress }),
    ...(report?.migration === undefined
      ? unlistedCollections !== undefined && { unlistedCollections }
      : resultOf(report.migration)),
  }
}

function resultOf(result: MigrationResult): MigrationStatus {
  const { total, completed, pointsTotal, pointsCopied, collections } = result
  return {
    collections,
    ...unlistedFields(result.unlisted),
    progress: {
      collectionsTotal: total,
      collectionsCompleted: completed,
      pointsTotal,
      pointsCopied,
      percentage: percentageOf(pointsCopied, pointsTotal),
    },
  }
}
