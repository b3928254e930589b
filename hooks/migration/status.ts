/** The status and Events of a VecMigration, from what its Jobs reported. */
import type { Progress } from '../../crds/contract/job.ts'
import type { MigrationResult } from '../../crds/contract/migration-job.ts'
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import type { MigrationStatus, VecMigration } from '../../crds/migration.ts'
import type { ConditionReason } from '../../crds/schema.ts'
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
import { formatSource } from './endpoints.ts'

export interface StatusInputs {
  migration: VecMigration
  progress?: Progress
}

/** Pending until the points of its collections were counted, then Running. */
export function activeStatus(
  inputs: StatusInputs,
  conditionReason: ConditionReason | undefined,
  { now }: Context,
): MigrationStatus {
  const { migration, progress } = inputs
  const isStarted = progress?.migration !== undefined || migration.status?.startTime !== undefined
  const reason = conditionReason ?? {
    reason: isStarted ? 'MigrationRunning' : 'MigrationStarting',
    message: progress?.message ?? 'counting the points of the collections',
  }
  return {
    phase: isStarted ? 'Running' : 'Pending',
    ...reportedFields(inputs),
    conditions: setConditions(migration, [unfinishedCondition(reason)], now),
  }
}

export function finishedStatus(inputs: StatusInputs, outcome: Outcome): MigrationStatus {
  const { migration, progress: report } = inputs
  const { phase } = outcome
  const isComplete = phase === 'Completed'
  const { completed = 0, total = 0 } = report?.migration ?? {}
  const update = outcomeCondition(outcome, {
    reason: isComplete ? 'MigrationCompleted' : 'MigrationFailed',
    message: `Copied ${completed}/${total}`,
  })
  const { progress, ...status } = reportedFields(inputs)
  return {
    phase,
    ...status,
    ...(progress !== undefined && {
      progress: { ...progress, ...(isComplete && { percentage: 100 }) },
    }),
    ...completionFields(withLeftoverHint(outcome, report)),
    conditions: setConditions(migration, [update], outcomeTime(outcome)),
  }
}

/**
 * No pod was left to restore the settings that the first one had changed: the status says what to
 * do.
 */
function withLeftoverHint(outcome: Outcome, report: Progress | undefined): Outcome {
  const { position, collections = [] } = report?.migration ?? {}
  if (outcome.phase !== 'Failed' || position?.indexingThreshold === undefined) return outcome
  const { collection, indexingThreshold } = position
  const entry = collections.find(({ name }) => name === collection)
  const name = entry?.targetName ?? collection
  const hint = `indexing_threshold of ${name} may still be 0 on the target: set it to ${indexingThreshold}`
  return { ...outcome, error: `${outcome.error ?? 'the Job ended'}; ${hint}` }
}

/** The reported fields over those of earlier reports: a user may have removed the report. */
function reportedFields({ migration, progress: report }: StatusInputs): MigrationStatus {
  const source = formatSource(migration)
  const {
    startTime = formatStartTime(report?.migration?.startedAt),
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
      : resultFields(report.migration)),
  }
}

function resultFields(result: MigrationResult): MigrationStatus {
  const { total, completed, pointsTotal, pointsCopied, collections } = result
  return {
    collections,
    ...unlistedFields(result.unlisted),
    progress: {
      collectionsTotal: total,
      collectionsCompleted: completed,
      pointsTotal,
      pointsCopied,
      percentage: unfinishedPercentage(pointsCopied, pointsTotal),
    },
  }
}

export function migrationEvents(
  migration: VecMigration,
  status: MigrationStatus,
  now: Date,
): KubernetesEvent[] {
  const { phase, source = 'the source', progress } = status
  const { collectionsTotal = 0, pointsTotal = 0, pointsCopied = 0 } = progress ?? {}
  return dataJobEvents(
    { resource: migration, status, now },
    {
      started: phase === 'Running' &&
        migration.status?.phase !== 'Running' && {
          reason: 'MigrationStarted',
          message: `copying ${pointsTotal} points of ${collectionsTotal} collections from ${source}`,
        },
      completed: { reason: 'MigrationCompleted', suffix: `, ${pointsCopied} points` },
      failed: 'MigrationFailed',
    },
  )
}
