/**
 * Prepares the target collection: creates it from the configuration of the source, with shard keys,
 * payload indexes and read fan-out, or checks an existing one before the first batch. A new
 * collection builds no index during the copy; the functions that restore its threshold are here as
 * well.
 */
import { EngineError, Rejected } from '../../crds/contract/errors.ts'
import type { ShardKey } from '../../crds/contract/manifest.ts'
import type { MigrationCheckpoint } from '../../crds/contract/migration-job.ts'
import type {
  CollectionBody,
  CollectionConfig,
  CollectionInfo,
} from '../../crds/engine/collections.ts'
import { formatNames } from '../../crds/units.ts'
import { errorMessage } from '../clients/http/request.ts'
import { isReplaced } from '../collection-uuid.ts'
import { createIndexes, type RecordedIndex } from '../payload-indexes.ts'
import { bodyDifferences, fanOutBody, recreateBody, recreateIndex } from '../recreate-collection.ts'
import { changeWithBackoff, withBackoff } from './backoff.ts'
import { resolveTargetName, type RunContext } from './context.ts'
import {
  changeTarget,
  requireSameTarget,
  uuidQuestion,
  withIdentity,
  type TargetCollection,
} from './deleted-collections.ts'
import { incompatibilities, shardingMethod, type SourceCollection } from './source-collection.ts'

/**
 * Prepares the target for points and returns the checkpoint to start from. `previousPosition` is
 * the checkpoint of an earlier pod.
 */
export async function prepareTarget(
  sourceCollection: SourceCollection,
  previousPosition: MigrationCheckpoint | undefined,
  context: RunContext,
): Promise<MigrationCheckpoint> {
  const { options, progress } = context
  const name = resolveTargetName(sourceCollection.name, options)
  await rejectAlias(name, context)
  const live = await readTarget(name, context)
  if (live === undefined && !options.createMissing) {
    throw new Rejected(`Collection missing on target and createMissing is false: ${name}`)
  }
  if (live !== undefined && previousPosition !== undefined)
    await requireSameTarget(previousPosition, name, context)
  if (live !== undefined) rejectIncompatible(name, sourceCollection, live)
  const initial: MigrationCheckpoint = {
    collection: sourceCollection.name,
    isOurs: true,
    before: 0,
    copied: 0,
  }
  if (live === undefined || previousPosition?.isOurs === true) {
    // A collection that is gone is created again, and none of its points are copied yet.
    const position =
      live === undefined
        ? createdPosition(initial, sourceCollection, context)
        : (previousPosition ?? initial)
    if (live !== undefined && !isCreated(position)) {
      const { config } = sourceCollection.info
      await requireOwnTarget(name, { live, body: targetBody(config, context) }, context)
    }
    progress.setPosition(position)
    // A pod that replaces this one must know what to restore before the setting is changed.
    await progress.checkpoint()
    if (live === undefined) await createTarget(name, { sourceCollection, position }, context)
    const identified = await withIdentity(position, name, context)
    progress.setPosition(identified)
    await ensureTarget({ name, uuid: identified.targetUuid }, sourceCollection, context)
    const created = { ...identified, isCreated: true }
    progress.setPosition(created)
    await progress.checkpoint()
    return created
  }
  const { targetUuid } = await withIdentity(previousPosition ?? initial, name, context)
  await addShardKeys({ name, uuid: targetUuid }, sourceCollection, context)
  if (previousPosition !== undefined) return previousPosition
  const before = await countPointsBefore(live, name, context)
  const position = {
    ...{ ...initial, isOurs: false, before },
    ...(targetUuid !== undefined && { targetUuid }),
  }
  progress.setPosition(position)
  await progress.checkpoint()
  return position
}

function createdPosition(
  initial: MigrationCheckpoint,
  { info }: SourceCollection,
  context: RunContext,
): MigrationCheckpoint {
  const indexingThreshold = thresholdToRestore(info.config, context)
  return { ...initial, ...(indexingThreshold !== undefined && { indexingThreshold }) }
}

/** Whether an earlier pod created the collection: its points are those of this migration. */
function isCreated(position: MigrationCheckpoint): boolean {
  const { isCreated: recorded = false, lanes, offset, copied } = position
  return recorded || copied > 0 || lanes !== undefined || offset !== undefined
}

/** 0 only if the target is empty; otherwise an approximate number. */
async function countPointsBefore(
  live: CollectionInfo,
  name: string,
  context: RunContext,
): Promise<number> {
  const { target, tools } = context
  const request = { limit: 1, idsOnly: true } as const
  const first = await withBackoff(context, () => target.points.scroll(name, request, tools.signal))
  return first.count === 0 ? 0 : Math.max(1, live.points_count ?? 1)
}

/**
 * Throws unless the collection is empty and has the configuration of the request that creates it: another
 * client may have created it between the last reading and that request, and its points are nowhere else.
 */
async function requireOwnTarget(
  name: string,
  { live, body }: { live: CollectionInfo; body: CollectionBody },
  context: RunContext,
): Promise<void> {
  const { params } = live.config
  const differing = bodyDifferences(body, live.config)
    // The migration itself changes it.
    .filter(({ path }) => path !== 'optimizers_config.indexing_threshold')
    .map(({ text }) => text)
  const hasOtherVectors =
    incompatibilities(body, params).length > 0 || incompatibilities(params, body).length > 0
  const isEmpty =
    (live.points_count ?? 0) === 0 && (await countPointsBefore(live, name, context)) === 0
  if (isEmpty && differing.length === 0 && !hasOtherVectors) return
  forgetThreshold(context)
  const details = differing.length === 0 ? '' : ` (${formatNames(differing, MAX_DIFFERENCES)})`
  throw new Rejected(
    `collection ${name} was created on the target by another client while this migration was about to create it${details}: delete it or use collectionMapping, and create another VecMigration`,
  )
}

/** Differences that a message names. */
const MAX_DIFFERENCES = 5

/** The setting of a collection that this migration did not create is not changed. */
function forgetThreshold({ progress }: RunContext): void {
  const { position } = progress
  if (position === undefined) return
  const { indexingThreshold: _, ...rest } = position
  progress.setPosition(rest)
}

async function readTarget(name: string, context: RunContext): Promise<CollectionInfo | undefined> {
  const { target, tools } = context
  return withBackoff(context, () => target.collections.collectionInfo(name, tools.signal))
}

/**
 * Rejects an alias: the engine resolves it, and points would go to a collection that the spec does
 * not name.
 */
async function rejectAlias(name: string, context: RunContext): Promise<void> {
  const { target, tools } = context
  const aliases = await withBackoff(context, () => target.collections.aliases(tools.signal))
  const alias = aliases.find(({ alias_name }) => alias_name === name)
  if (alias === undefined) return
  throw new Rejected(`${name} is an alias of ${alias.collection_name} on the target`)
}

function rejectIncompatible(
  name: string,
  sourceCollection: SourceCollection,
  live: CollectionInfo,
): void {
  const reasons = incompatibilities(sourceCollection.info.config.params, live.config.params)
  if (reasons.length === 0) return
  throw new Rejected(
    `the target collection ${name} does not fit: ${reasons.join('; ')} (use collectionMapping or drop it)`,
  )
}

/** Every step can be repeated. */
async function ensureTarget(
  collection: TargetCollection,
  sourceCollection: SourceCollection,
  context: RunContext,
): Promise<void> {
  const { target, tools } = context
  const { collections } = target
  const { name } = collection
  await addShardKeys(collection, sourceCollection, context)
  const fanOut = fanOutBody(sourceCollection.info.config)
  if (fanOut !== undefined) {
    await changeTarget(collection, context, () =>
      collections.patchCollection(name, fanOut, tools.signal),
    )
  }
  const { info } = sourceCollection
  const indexes = Object.entries(info.payload_schema).map(
    ([field, { data_type: dataType, params }]): [string, RecordedIndex] => [
      field,
      { dataType, ...(params != null && { params }) },
    ],
  )
  await createIndexes(Object.fromEntries(indexes), info, {
    read: () => readTarget(name, context),
    create: async (field, index) => {
      const body = recreateIndex(field, index)
      await changeTarget(collection, context, () => collections.putIndex(name, body, tools.signal))
    },
    setLimit: async (count) => {
      const body = { strict_mode_config: { max_payload_index_count: count } }
      await changeTarget(collection, context, () =>
        collections.patchCollection(name, body, tools.signal),
      )
    },
  })
}

interface TargetSetup {
  sourceCollection: SourceCollection
  position: MigrationCheckpoint
}

async function createTarget(
  name: string,
  { sourceCollection, position }: TargetSetup,
  context: RunContext,
): Promise<void> {
  const { target, tools } = context
  const { config } = sourceCollection.info
  const initialConfig =
    position.indexingThreshold === undefined ? config : withIndexingDisabled(config)
  const body = targetBody(initialConfig, context)
  tools.log.info(
    { collection: name },
    `creating collection ${name} with the configuration of the source`,
  )
  await changeWithBackoff(context, async () => {
    try {
      await target.collections.createCollection(name, body, tools.signal)
    } catch (error) {
      // A previous request whose response was lost created it, or another client.
      if (!(error instanceof EngineError) || error.status !== 409) throw error
      const live = await target.collections.collectionInfo(name, tools.signal)
      // It was deleted again: the next attempt creates it.
      if (live === undefined) throw new EngineError(error.message, { cause: error })
      await requireOwnTarget(name, { live, body }, context)
    }
  })
}

/** Body of the request that creates the collection, with the shards and replicas of the spec. */
function targetBody(config: CollectionConfig, { options }: RunContext): CollectionBody {
  const { params } = config
  // With custom sharding this is the number of shards per key.
  const sourceShardNumber = shardingMethod(params) === 'custom' ? params['shard_number'] : undefined
  const {
    shardNumber = sourceShardNumber,
    replicationFactor,
    writeConsistencyFactor,
  } = options.target ?? {}
  return recreateBody(config, {
    shard_number: shardNumber,
    replication_factor: replicationFactor,
    write_consistency_factor: writeConsistencyFactor,
  })
}

/** Creates the shard keys that are missing on the target. */
export async function addShardKeys(
  collection: TargetCollection,
  { keys }: SourceCollection,
  context: RunContext,
): Promise<void> {
  if (keys.length === 0) return
  const { options, target, tools } = context
  const { name } = collection
  const readKeys = () => target.points.shardKeys(name, tools.signal)
  const existing = await withBackoff(context, readKeys)
  const missing = keys.filter(({ key }) => !existing.some((present) => present.key === key))
  if (missing.length > 0 && !options.createMissing) {
    throw new Rejected(
      `Collection missing on target and createMissing is false: ${name} has no shard key ${formatKeys(missing)}`,
    )
  }
  for (const { key, shards } of missing) {
    const request = {
      key,
      shards: options.target?.shardNumber ?? shards,
      replicas: options.target?.replicationFactor,
    }
    await changeTarget(collection, context, async () => {
      try {
        await target.recovery.createShardKey(name, request, tools.signal)
      } catch (error) {
        // A previous request whose response was lost created it.
        const mayExist = error instanceof EngineError && [400, 409].includes(error.status ?? 0)
        if (!mayExist || !(await readKeys()).some((present) => present.key === key)) throw error
      }
    })
  }
}

function formatKeys(keys: readonly { key: ShardKey }[]): string {
  return keys.map(({ key }) => JSON.stringify(key)).join(', ')
}

/** Time limit for the cleanup that still runs when the Job is terminated. */
const CLEANUP_TIMEOUT_MS = 10_000

/** The threshold to restore after the copy; undefined if indexing stays enabled. */
export function thresholdToRestore({ optimizer_config }: CollectionConfig, { tools }: RunContext) {
  const { indexing_threshold: threshold } = optimizer_config
  // Any earlier report means that a pod has already worked: disable indexing in the first attempt
  // only.
  if (tools.reporter.previous !== undefined) return undefined
  // 0 means that no index is ever built; a value that the source does not report cannot be
  // restored.
  return typeof threshold === 'number' && threshold > 0 ? threshold : undefined
}

export function withIndexingDisabled(config: CollectionConfig): CollectionConfig {
  return { ...config, optimizer_config: { ...config.optimizer_config, indexing_threshold: 0 } }
}

/** Restores the threshold that an earlier pod disabled and could not restore itself. */
export async function restorePreviousSettings(context: RunContext): Promise<void> {
  const { target, tools } = context
  const { position, collections } = tools.reporter.previous?.migration ?? {}
  if (position?.indexingThreshold === undefined) return
  const { collection, indexingThreshold, targetUuid } = position
  const record = collections?.find(({ name }) => name === collection)
  const name = record?.targetName ?? collection
  try {
    const live = await withBackoff(context, () =>
      target.collections.collectionInfo(name, tools.signal),
    )
    // Another value is not one that this migration set: the collection may be that of another client.
    if (live?.config.optimizer_config['indexing_threshold'] !== 0) return
    await restoreIndexingThreshold({ name, uuid: targetUuid }, indexingThreshold, context)
  } catch (error) {
    // Another client has replaced it: its setting is its own.
    if (error instanceof Rejected) return
    throw withRestoreHint(error, name, indexingThreshold)
  }
}

export async function restoreIndexingThreshold(
  collection: TargetCollection,
  threshold: number,
  context: RunContext,
): Promise<void> {
  const { target, tools } = context
  const body = { optimizers_config: { indexing_threshold: threshold } }
  await changeTarget(collection, context, () =>
    target.collections.patchCollection(collection.name, body, tools.signal),
  )
}

/**
 * Makes one attempt with a short timeout, because the target may not respond. Returns the error,
 * with a hint added if the threshold could not be restored. Leaves it to the pod that replaced this one, if there is one.
 */
export async function restoreAfterFailure(
  error: unknown,
  name: string,
  context: RunContext,
): Promise<unknown> {
  const { target, tools, progress } = context
  const { indexingThreshold: threshold, targetUuid } = progress.position ?? {}
  if (threshold === undefined) return error
  const body = { optimizers_config: { indexing_threshold: threshold } }
  try {
    const signal = AbortSignal.timeout(CLEANUP_TIMEOUT_MS)
    if (await isReplaced(uuidQuestion(name, target, signal), targetUuid)) return error
    if ((await tools.reporter.owner()) === 'another pod') return error
    await target.collections.patchCollection(name, body, signal)
    return error
  } catch (reason) {
    if (reason instanceof EngineError && reason.status === 404) return error
    tools.log.warn(
      { collection: name, reason: errorMessage(reason), body },
      'settings not restored',
    )
    return withRestoreHint(error, name, threshold)
  }
}

/** Adds the setting that is still changed on the target to the message of an error. */
function withRestoreHint(error: unknown, name: string, threshold: number): unknown {
  if (!(error instanceof EngineError)) return error
  const hint = `indexing_threshold of ${name} is still 0 on the target: set it to ${threshold}`
  return new EngineError(`${error.message}; ${hint}`, { cause: error, status: error.status })
}
