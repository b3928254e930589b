/**
 * Reconciles one collection in the engine: its configuration, indexes and aliases (reconcile-*.ts). It waits
 * for an engine that is not ready, reads first, writes only what differs, and never deletes a collection or a
 * vector. Differences that it must not change are reported.
 */
import type { VecCollection } from '../../crds/collection.ts'
import { EngineError, KubernetesError, NotReady, Rejected } from '../../crds/contract/errors.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import { createBody, type CollectionInfo } from '../../crds/engine/collections.ts'
import { engineConfigPaths } from '../../crds/engine/mutable-fields.ts'
import type { ConditionReason } from '../../crds/schema.ts'
import { clusterNameOf } from '../../crds/collection-ownership.ts'
import { reconcileAliases } from './reconcile-aliases.ts'
import {
  formatDifference,
  immutableDifferences,
  previouslyIgnored,
  reconcileConfig,
} from './reconcile-config.ts'
import {
  isTransient,
  reconcileContext,
  waitForCollection,
  type ReconcileContext,
  type ReconcileInput,
} from './reconcile-context.ts'
import { reconcileIndexes } from './reconcile-indexes.ts'
import {
  finalResult,
  internalErrorResult,
  observedFields,
  pendingResult,
  retryDelaySeconds,
  type ObservedFields,
  type ReconcileResult,
} from './result.ts'
import { replicationCondition } from './status.ts'

export type ReconcileTask = ReconcileInput

/** Value of the annotation accept-risk on a VecCollection. */
const EMPTY_COLLECTION = 'empty-collection'

export async function reconcile(
  input: ReconcileTask,
  signal: AbortSignal,
): Promise<ReconcileResult> {
  const context = reconcileContext(input, signal)
  const partial: PartialResult = {}
  try {
    return await input.engineCache.runLimited(() => reconcileSteps(context, partial, input), signal)
  } catch (error) {
    signal.throwIfAborted()
    return { ...resultFromError(context, error), ...partial }
  }
}

/** Findings of a reconcile that failed later: values that the engine ignores must not be retried. */
type PartialResult = Pick<ReconcileResult, 'fields' | 'recreated' | 'liveShards'>

async function reconcileSteps(
  context: ReconcileContext,
  partial: PartialResult,
  input: Pick<ReconcileInput, 'mayReshard'>,
): Promise<ReconcileResult> {
  const { collection, name, engineCache, engine, signal } = context
  signal.throwIfAborted()
  const notReady = await engineCache.notReadyReason(signal)
  if (notReady !== undefined)
    return pendingResult('ClusterNotReady', `${formatCluster(context)} not ready: ${notReady}`)
  context.requireNotAlias(await engineCache.aliases(signal))
  const version = await engineCache.version(signal)
  const found = await engine.collectionInfo(name, signal)
  // After adoption, ownership is checked again only before writes.
  if (!hasBeenReconciled(collection)) await context.requireUnowned()
  const unknownOwner = found && (await context.unknownOwner())
  if (unknownOwner !== undefined) throw new NotReady(unknownOwner)
  if (found === undefined && hadPoints(collection)) return collectionMissing(context)
  const live = found ?? (await createCollection(context, version))
  if (found === undefined && wasObserved(collection)) partial.recreated = true

  const immutable = immutableDifferences(collection.spec, live.config, input.mayReshard)
  if (immutable.length > 0) {
    const message = immutable.map(formatDifference).join('; ')
    const conditionReason = { reason: 'ImmutableFieldMismatch', message }
    // Nothing is changed, so the managed indexes and aliases stay the same.
    partial.fields = { ...unchangedFields(context, live), ...ignoredFields(collection) }
    return withReplication(context, {
      ...finalResult(collection, 'Degraded', conditionReason),
      ...partial,
    })
  }
  const shards = live.config.params['shard_number']
  if (input.mayReshard === true && typeof shards === 'number') partial.liveShards = shards
  const config = await reconcileConfig(context, live, version)
  const ignoredIndexes = [...previouslyIgnored(collection, version)].filter(isIndexPath)
  partial.fields = {
    ...unchangedFields(context, config.info),
    ...ignored(context, [...config.ignored, ...ignoredIndexes], version),
  }
  const indexes = await reconcileIndexes(context, config.info, version)
  const paths = [...config.ignored, ...indexes.ignored].toSorted()
  const { aliases: managedAliases } = partial.fields
  partial.fields = {
    ...observedFields(indexes.info),
    payloadIndexes: indexes.managed,
    ...(managedAliases !== undefined && { aliases: managedAliases }),
    ...ignored(context, paths, version),
  }
  const aliases = await reconcileAliases(context)
  const fields: ObservedFields = { ...partial.fields, aliases: aliases.managed }
  partial.fields = fields
  const failures = [...ignoredFailures(paths, version), ...indexes.failures, ...aliases.failures]
  const { recreated } = partial
  return withReplication(context, {
    ...conclude(context, failures, indexes.pending),
    ...{ fields, ...(recreated !== undefined && { recreated }) },
    ...(partial.liveShards !== undefined && { liveShards: partial.liveShards }),
  })
}

function ignoredFailures(paths: string[], version: string): ConditionReason[] {
  if (paths.length === 0) return []
  const message = `engine ${version} ignores ${paths.join(', ')}`
  return [{ reason: 'UnsupportedFields', message }]
}

function conclude(
  context: ReconcileContext,
  failures: ConditionReason[],
  pending: ReconcileResult | undefined,
): ReconcileResult {
  const [first] = failures
  if (first !== undefined) {
    const message = failures.map((failure) => failure.message).join('; ')
    const failedResult = finalResult(context.collection, 'Failed', {
      reason: first.reason,
      message,
    })
    // Pending indexes must not wait for the retry of a permanent failure.
    const seconds = Math.min(
      failedResult.requeueAfterSeconds,
      pending?.requeueAfterSeconds ?? Infinity,
    )
    return { ...failedResult, requeueAfterSeconds: seconds }
  }
  if (pending !== undefined) return pending
  const message = 'collection, indexes and aliases match spec'
  return finalResult(context.collection, 'Ready', { reason: 'CollectionReady', message })
}

/** An earlier reconcile found the collection; the status has a health only in this case. */
function wasObserved({ status }: VecCollection): boolean {
  return status?.health !== undefined
}

/** The collection had points, and no annotation accepts that it is recreated empty. */
function hadPoints({ metadata, status }: VecCollection): boolean {
  const accepted = (metadata.annotations?.[ANNOTATIONS.acceptRisk] ?? '').split(',')
  if (accepted.some((risk) => risk.trim() === EMPTY_COLLECTION)) return false
  return (status?.pointsCount ?? 0) > 0
}

/** Does not create a replacement: an empty collection would hide the data loss. */
async function collectionMissing(context: ReconcileContext): Promise<ReconcileResult> {
  // Throws if a restore that replaces the collection holds the Lease or an older resource owns the name.
  await context.writes.check()
  const { collection, name } = context
  const count = collection.status?.pointsCount ?? 0
  const message = `collection ${name} is missing from the engine; it had ${count} points. Restore a backup, or set the annotation ${ANNOTATIONS.acceptRisk} to ${EMPTY_COLLECTION} to create it empty`
  const missing = finalResult(collection, 'Failed', { reason: 'CollectionMissing', message })
  return { ...missing, isUnobserved: true }
}

async function createCollection(
  context: ReconcileContext,
  version: string,
): Promise<CollectionInfo> {
  const { spec } = context.collection
  const mixed = await context.mixedVersions(engineConfigPaths(spec))
  if (mixed !== undefined) throw mixed
  const unknownResult = await context.writes.create(createBody(spec, version))
  const info = await waitForCollection(context, (found) => found !== undefined)
  if (info !== undefined) return info
  throw (
    unknownResult ?? new NotReady(`collection ${context.name} was created but is not visible yet`)
  )
}

async function withReplication(
  context: ReconcileContext,
  result: ReconcileResult,
): Promise<ReconcileResult> {
  const { collection, engine, name, signal } = context
  const factor = collection.spec.replicationFactor
  if (factor === undefined) return result
  const replicas = await engine.collectionCluster(name, signal)
  return { ...result, replicated: replicationCondition(factor, replicas) }
}

function ignored(
  { collection }: ReconcileContext,
  paths: string[],
  engineVersion: string,
): ObservedFields {
  const { generation } = collection.metadata
  return paths.length === 0 ? {} : { ignored: { generation, engineVersion, paths } }
}

function isIndexPath(path: string): boolean {
  return path.startsWith('payloadIndexes[')
}

function unchangedFields(
  { collection: { status = {} } }: ReconcileContext,
  live: CollectionInfo,
): ObservedFields {
  const { payloadIndexes, aliases } = status
  return {
    ...observedFields(live),
    ...(payloadIndexes !== undefined && { payloadIndexes }),
    ...(aliases !== undefined && { aliases }),
  }
}

function ignoredFields({ status }: VecCollection): ObservedFields {
  return status?.ignored === undefined ? {} : { ignored: status.ignored }
}

function hasBeenReconciled({ status }: VecCollection): boolean {
  return status?.phase === 'Ready' || status?.phase === 'Degraded'
}

/** Maps an error to a result: to be retried, to be fixed by the user, or an internal error. */
function resultFromError(context: ReconcileContext, error: unknown): ReconcileResult {
  const { collection, engineCache } = context
  if (error instanceof NotReady) return pendingResult('Waiting', error.message)
  if (error instanceof Rejected) {
    return finalResult(collection, 'Failed', { reason: 'Conflict', message: error.message })
  }
  if (error instanceof EngineError) {
    if (error.status === undefined && error.cause !== undefined) engineCache.backOff(error)
    if (isTransient(error))
      return pendingResult('EngineNotAnswering', error.message, retryDelaySeconds(error))
    return finalResult(collection, 'Failed', { reason: 'EngineRefused', message: error.message })
  }
  if (error instanceof KubernetesError)
    return pendingResult('KubernetesNotAnswering', error.message)
  return internalErrorResult(collection, error)
}

function formatCluster({ collection }: ReconcileContext): string {
  const { namespace, name } = clusterNameOf(collection)
  return `cluster ${namespace}/${name}`
}
