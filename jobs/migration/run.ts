/**
 * `migration run`: copies collections point by point, one after the other, into a managed cluster.
 * A failed collection does not stop the others, and a new pod continues the work of a killed one.
 */
import { Type } from '@sinclair/typebox'
import { EngineError } from '../../crds/contract/errors.ts'
import type {
  MigratedCollection,
  MigrationCheckpoint,
  MigrationPlan,
} from '../../crds/contract/migration-job.ts'
import { API_VERSION } from '../../crds/contract/names.ts'
import type { Dependencies, RunResult } from '../dependencies.ts'
import { HEARTBEAT_MS, ResourceDeleted, type Report } from '../reporter.ts'
import {
  isDiskFull,
  isReportable,
  isTlsError,
  reportReason,
  RetryBudget,
  retryTransient,
} from '../retry.ts'
import {
  connectEndpoints,
  MigrationOptions,
  resolveTargetName,
  type RunContext,
} from './context.ts'
import { CopiedIds } from './copied-ids.ts'
import { copyPoints } from './copy.ts'
import { failDeletedCollections, TargetUuidWatch } from './deleted-collections.ts'
import { formatSource } from './list-collections.ts'
import { copyScopes } from './partitions.ts'
import {
  prepareTarget,
  restoreAfterFailure,
  restoreIndexingThreshold,
  restorePreviousSettings,
} from './prepare-target.ts'
import { includesFingerprint, Progress } from './progress.ts'
import {
  findNewCollections,
  rejectDuplicateTarget,
  selectCollections,
} from './select-collections.ts'
import {
  readPageLimits,
  readSourceCollection,
  rejectIfDeleted,
  type TouchedCollection,
  waitForReadablePoints,
  type SourceCollection,
} from './source-collection.ts'
import { UnansweredUpserts } from './unanswered-upserts.ts'
import { verifyCopy, type Verification } from './verify.ts'

export async function run(plan: MigrationPlan, tools: Dependencies): Promise<RunResult> {
  const report = await attempt(plan, tools)
  tools.log.info({ state: report.state, error: report.migration?.error }, report.message ?? '')
  await tools.reporter.finish(report)
  return report.state
}

type FinalReport = Report & { state: 'Done' | 'Failed' }

const MigrationObject = Type.Object({ spec: MigrationOptions })

async function attempt(plan: MigrationPlan, tools: Dependencies): Promise<FinalReport> {
  const previous = tools.reporter.previous?.migration
  const startedAt = previous?.startedAt ?? tools.time.now().toISOString()
  let progress = new Progress(tools, startedAt, previous?.collections)
  try {
    const options = await readOptions(plan, tools)
    const base = {
      plan,
      tools,
      options,
      ...connectEndpoints(plan, tools),
      retryBudget: new RetryBudget(),
      targetWatch: new TargetUuidWatch(),
      unansweredUpserts: new UnansweredUpserts(tools.time),
    }
    const collections = await prepareCollections({ ...base, progress })
    const resumePosition = previousPosition(tools)
    // The pod that this one replaces may send upserts until it notices.
    if (resumePosition !== undefined) base.unansweredUpserts.add(HEARTBEAT_MS)
    progress = new Progress(tools, startedAt, collections, resumePosition)
    const context: RunContext = { ...base, progress }
    await progress.checkpoint()
    // Continue the collection in progress first: its checkpoint is lost once another collection
    // starts.
    const isResumed = ({ name }: MigratedCollection) => name === resumePosition?.collection
    const others = collections.filter((collection) => !isResumed(collection))
    for (const collection of [...collections.filter(isResumed), ...others]) {
      await migrate(collection, context)
    }
    await migrateNewCollections(context)
    await failDeletedCollections(context)
    await progress.flush()
    return finalReport(progress)
  } catch (error) {
    tools.signal.throwIfAborted()
    if (!isReportable(error)) throw error
    const message = withHint(error.message)
    const result = progress.toResult()
    return {
      state: 'Failed',
      reason: reportReason(error),
      message,
      migration: { ...result, error: result.error ?? message },
    }
  }
}

async function readOptions(
  plan: MigrationPlan,
  { kubernetes }: Dependencies,
): Promise<MigrationOptions> {
  const { resource, namespace, name } = plan
  const collection = { apiVersion: API_VERSION, plural: resource, namespace }
  const migration = await kubernetes.get(collection, name, MigrationObject)
  if (migration === undefined) throw new ResourceDeleted(`${resource} ${namespace}/${name} is gone`)
  return migration.spec
}

/**
 * The collections to copy, with their point counts; those that an earlier pod finished keep their
 * state.
 */
async function prepareCollections(context: RunContext): Promise<MigratedCollection[]> {
  const { target, tools } = context
  await retryTransient(context, async () => {
    const reason = await target.engine.notReadyReason(tools.signal)
    if (reason !== undefined) throw new EngineError(`target cluster not ready: ${reason}`)
  })
  await restorePreviousSettings(context)
  const previousCollections = new Map(
    tools.reporter.previous?.migration?.collections.map((collection) => [
      collection.name,
      collection,
    ]),
  )
  context.progress.setUnreachedSource(formatSource(context))
  const selected = await selectCollections(context, previousCollections)
  const { finished, failedFingerprints } = tools.reporter.previous?.migration ?? {}
  return selected.map((collection) => {
    const previousState = previousCollections.get(collection.name)
    if (previousState !== undefined && isTerminal(previousState)) return previousState
    if (includesFingerprint(collection.name, failedFingerprints))
      return { ...collection, status: 'Failed', error: `${collection.name}: ${FAILED_EARLIER}` }
    if (!includesFingerprint(collection.name, finished)) return collection
    return { ...collection, status: 'Completed', pointsCopied: collection.pointsTotal ?? 0 }
  })
}

const FAILED_EARLIER = 'failed in an earlier attempt: its log has the error'

/**
 * Without a limit, a source that constantly creates collections would keep the migration running.
 */
const MAX_LISTINGS = 10

/** Migrates the collections that were created on the source during the migration. */
async function migrateNewCollections(context: RunContext): Promise<void> {
  const { progress, tools } = context
  for (let listing = 1; ; listing += 1) {
    const added = await findNewCollections(context)
    if (added.length === 0) return
    const names = added.map(({ name }) => name)
    tools.log.info({ collections: names }, 'new collections on the source')
    progress.add(added)
    for (const collection of added) {
      if (listing < MAX_LISTINGS) await migrate(collection, context)
      else progress.failed(collection.name, `${collection.name}: ${TOO_LATE}`)
    }
    if (listing === MAX_LISTINGS) return
  }
}

const TOO_LATE = 'it was created on the source while others that were created meanwhile were copied'

function isTerminal({ status }: MigratedCollection): boolean {
  return status === 'Completed' || status === 'Failed'
}

async function migrate(collection: MigratedCollection, context: RunContext): Promise<void> {
  if (isTerminal(collection)) return
  const { name } = collection
  const { progress, tools } = context
  try {
    rejectDuplicateTarget(name, context)
    const summary = await copyAndVerify(name, context)
    tools.log.info({ collection: name }, `collection ${name}: ${summary}`)
    progress.completed(name, summary)
  } catch (error) {
    tools.signal.throwIfAborted()
    if (!isReportable(error)) throw error
    const message = `${name}: ${withHint(error.message)}`
    tools.log.error({ collection: name, reason: message }, `collection ${name} failed`)
    progress.failed(name, message)
  }
  progress.report()
  await progress.flush()
}

async function copyAndVerify(name: string, context: RunContext): Promise<string> {
  const { options, tools } = context
  const resumePosition = previousPosition(tools)
  const targetName = resolveTargetName(name, options)
  const source: TouchedCollection = { endpoint: context.source, name, keys: [] }
  const touched = [source]
  try {
    await waitForReadablePoints(context.source, name, context)
    const sourceCollection = await readSourceCollection(name, context)
    source.keys = sourceCollection.keys.map(({ key }) => key)
    const position = await prepareTarget(
      sourceCollection,
      resumePosition?.collection === name ? resumePosition : undefined,
      context,
    )
    touched.push({ endpoint: context.target, name: targetName, keys: source.keys })
    const { summary, difference } = await copyFrom(position, sourceCollection, context)
    if (difference !== undefined) throw new EngineError(difference)
    return summary
  } catch (error) {
    const finalError = await restoreAfterFailure(error, targetName, context)
    tools.signal.throwIfAborted()
    for (const collection of touched) await rejectIfDeleted(finalError, collection, context)
    throw finalError
  }
}

/** Checkpoint of an earlier pod, without the threshold: it is already restored. */
function previousPosition({ reporter }: Dependencies): MigrationCheckpoint | undefined {
  const { position } = reporter.previous?.migration ?? {}
  if (position === undefined) return undefined
  const { indexingThreshold: _, ...rest } = position
  return rest
}

async function copyFrom(
  position: MigrationCheckpoint,
  sourceCollection: SourceCollection,
  context: RunContext,
): Promise<Verification> {
  const { progress, tools } = context
  const scopes = copyScopes(sourceCollection, context)
  progress.setPosition(position)
  tools.log.info({ ...position }, progress.statusLine())
  const { copyPageSize: pageSize, wait } = await readPageLimits(sourceCollection, context)
  // A target that was empty before is compared completely and needs no ids.
  const isFirstAttempt = previousPosition(tools)?.collection !== sourceCollection.name
  const ids = position.before === 0 ? undefined : new CopiedIds(isFirstAttempt)
  const input = { scopes, points: sourceCollection.info.points_count ?? 0, pageSize, wait, ids }
  const copiedPoints = await copyPoints(position, input, context)
  progress.setCopied(sourceCollection.name, copiedPoints)
  await restoreSettings(
    position,
    resolveTargetName(sourceCollection.name, context.options),
    context,
  )
  tools.log.info({ collection: sourceCollection.name, points: copiedPoints }, 'points copied')
  return verifyCopy(sourceCollection.name, { position, ids }, context)
}

/**
 * Restores the indexing threshold and removes it from the checkpoint: nothing is left to restore.
 */
async function restoreSettings(
  position: MigrationCheckpoint,
  name: string,
  context: RunContext,
): Promise<void> {
  const { indexingThreshold: threshold, ...rest } = { ...position, ...context.progress.position }
  if (threshold === undefined) return
  await restoreIndexingThreshold({ name, uuid: position.targetUuid }, threshold, context)
  context.progress.setPosition(rest)
}

/** Adds what a user can do about an error if the message does not say. */
function withHint(message: string): string {
  if (isDiskFull(message)) return `${message} (the volume of the target is full: grow it)`
  if (isTlsError(message)) return `${message} (a source behind a private CA needs caSecretRef)`
  return message
}

function finalReport(progress: Progress): FinalReport {
  const migration = progress.toResult()
  const message = progress.summary()
  if (migration.failed === 0) return { state: 'Done', message, migration }
  return { state: 'Failed', reason: 'MigrationFailed', message, migration }
}
