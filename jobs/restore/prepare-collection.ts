/**
 * Prepares the collection that takes the snapshots: creates it with replication factor 1, the
 * recorded configuration, shard keys with matching ids and payload indexes, or adapts an existing
 * one. Also puts the replication factor back if the restore ends before shard-transfers.ts sets the final one.
 */
import { EngineError, Rejected } from '../../crds/contract/errors.ts'
import type { ShardKey } from '../../crds/contract/manifest.ts'
import type { RestoreCollectionInfo } from '../clients/engine/responses.ts'
import { errorMessage } from '../clients/http/request.ts'
import { isReplaced } from '../collection-uuid.ts'
import { createIndexes } from '../payload-indexes.ts'
import { recreateBody, recreateIndex } from '../recreate-collection.ts'
import { isTransient, retryChange, retryTransient } from '../retry.ts'
import { changeCollection, requireStillOurs, uuidQuestion } from './change-collection.ts'
import { checkSameSchema, findCollection } from './collection-checks.ts'
import type { Checkpoint } from './checkpoint.ts'
import { recordIdentity, requireOwnCollection } from './collection-identity.ts'
import { applyConfig } from './config.ts'
import { collectionsForPod, recoveryForPod, type RunContext } from './context.ts'
import { replicasOnFirstNode, type ReportedShards } from './placement.ts'
import { snapshotBytes, type RestoreItem } from '../manifest-check.ts'
import { waitForIdle } from './retry-recovery.ts'
import { keyPlan, type KeyStep } from './shard-ids.ts'
import { collectionDeleted, waitForShards } from './wait-for-shards.ts'

/**
 * Creates the collection, its shard keys and indexes, or adapts an existing collection. A
 * collection left incomplete by an earlier attempt is deleted first.
 */
export async function prepareCollection(
  item: RestoreItem,
  context: RunContext,
  checkpoint: Checkpoint,
): Promise<void> {
  const { name } = item
  if (checkpoint.isOurs) await deleteIncomplete(item, checkpoint, context)
  const target = await retryTransient(context, () => findCollection(name, context))
  await (target === undefined ? createCollection(item, context) : prepareExisting(item, context))
  await buildIndexes(item, context)
  requireShards(item, await waitForShards(item, context))
}

async function deleteIncomplete(
  item: RestoreItem,
  checkpoint: Checkpoint,
  context: RunContext,
): Promise<void> {
  const { name } = item
  const { log, signal } = context.tools
  log.info({ collection: name }, 'deleting the incomplete collection of an earlier attempt')
  // A deletion waits for a running recovery, and every other change of the cluster waits for the
  // deletion.
  await waitForIdle(item, context)
  // That may take hours: the pod that replaced this one may have restored the collection.
  await retryChange(context, async () => {
    // A call whose response was lost may have deleted it, and another client may have created its own since.
    await requireOwnCollection(name, checkpoint, context)
    await collectionsForPod(context, 0).deleteCollection(name, signal)
  })
}

/**
 * Throws unless exactly the recorded shards exist under their ids and keys; nothing may be
 * recovered otherwise.
 */
export function requireShards({ source, name }: RestoreItem, view: ReportedShards): void {
  const replicas = replicasOnFirstNode(view)
  for (const { shardId, shardKey } of source.shards) {
    if (replicas.has(shardId) && view.keys.get(shardId) === shardKey) continue
    throw new EngineError(`collection ${name} was created without shard ${shardId} of the backup`)
  }
  const extra = [...replicas.keys()].filter(
    (id) => !source.shards.some(({ shardId }) => shardId === id),
  )
  if (extra.length > 0) {
    throw new EngineError(
      `collection ${name} has shards that are not in the backup: ${extra.join(', ')}`,
    )
  }
}

/**
 * The collection did not exist when this or an earlier pod checked it. A client may have created it while
 * others were restored: a VecCollection creates it empty, and points in it are nowhere else.
 */
function requireEmpty({ source, name }: RestoreItem, live: RestoreCollectionInfo): void {
  if ((live.points_count ?? 0) > 0) throw createdByOther(name)
  checkSameSchema(name, source, live.config.params)
}

function createdByOther(name: string, cause?: unknown): Rejected {
  return new Rejected(
    `collection ${name} was created by another client while this restore was about to create it: delete it or restore under another name, and create the VecRestore again`,
    { cause },
  )
}

async function createCollection(item: RestoreItem, context: RunContext): Promise<void> {
  const { source, name } = item
  const { signal, log } = context.tools
  await context.progress.recordCreation()
  log.info({ collection: name }, `creating collection ${name} with one replica of each shard`)
  const body = recreateBody(source.config, { replication_factor: 1 })
  let isFirstCall = true
  const create = async () => {
    const isFirst = isFirstCall
    isFirstCall = false
    try {
      await collectionsForPod(context, 0).createCollection(name, body, signal)
    } catch (error) {
      // No call of this restore can have created it: the collection belongs to another client.
      if (isFirst && error instanceof EngineError && error.status === 409) {
        await context.progress.recordNotCreated()
        throw createdByOther(name, error)
      }
      throw error
    }
  }
  await changeOnce(context, create, () => isCreated(item, context))
  await recordIdentity(name, context)
  for (const step of keyPlan(item).steps) await applyKeyStep(name, step, context)
}

/**
 * Whether the collection exists after a call that failed: that call created it, or another client did since. Throws
 * if it has points, which are nowhere else.
 */
async function isCreated(item: RestoreItem, context: RunContext): Promise<boolean> {
  const target = await findCollection(item.name, context)
  if (target === undefined) return false
  try {
    requireEmpty(item, target.live)
  } catch (error) {
    await context.progress.recordNotCreated()
    throw error
  }
  return true
}

async function applyKeyStep(name: string, step: KeyStep, context: RunContext): Promise<void> {
  const { signal } = context.tools
  const engine = recoveryForPod(context, 0)
  const change = async (call: () => Promise<void>) => {
    await requireStillOurs(name, context)
    await call()
  }
  const exists = async (key: ShardKey) => (await readShardKeys(name, context)).has(key)
  if ('drop' in step) {
    const { drop: key } = step
    context.progress.report()
    await changeOnce(
      context,
      () => change(() => engine.deleteShardKey(name, key, signal)),
      async () => !(await exists(key)),
    )
    await context.progress.reported()
    return
  }
  const { create: key, shards } = step
  await changeOnce(
    context,
    () => change(() => engine.createShardKey(name, { key, shards, replicas: 1 }, signal)),
    () => exists(key),
  )
}

async function readShardKeys(name: string, context: RunContext): Promise<Set<string | number>> {
  const placement = await recoveryForPod(context, 0).collectionCluster(name, context.tools.signal)
  const shards = [...placement.local_shards, ...placement.remote_shards]
  return new Set(shards.flatMap(({ shard_key }) => (shard_key == null ? [] : [shard_key])))
}

/**
 * Gives an existing collection the configuration of the backup and, for now, replication factor 1.
 */
async function prepareExisting(item: RestoreItem, context: RunContext): Promise<void> {
  const { name } = item
  await recordIdentity(name, context)
  // Not before all nodes know the same collection: one that had not caught up may have described another one.
  const target = await retryTransient(context, () => findCollection(name, context))
  if (target === undefined) throw collectionDeleted(name)
  const { live } = target
  // It may have been recreated since it was checked, which may be hours ago.
  checkSameSchema(name, item.source, live.config.params)
  if (context.progress.wasAbsent(name)) requireEmpty(item, live)
  const factor = Number(live.config.params['replication_factor'] ?? 1)
  const fields = { collection: name, factor }
  context.tools.log.info(fields, `collection ${name} exists and will be replaced`)
  await lowerFactor(name, context.factors.get(name)?.factor ?? factor, context)
  await applyConfig(item, live, context)
}

/**
 * The engine uses the indexes of a snapshot, but registers only those that are created
 * (docs/engine-notes.md, "Recovery of a collection").
 */
async function buildIndexes({ name, source }: RestoreItem, context: RunContext): Promise<void> {
  const { signal } = context.tools
  // Derives the time limit: existing data may be as large as the backup, or larger.
  const bytes = snapshotBytes(source)
  await createIndexes(source.payloadIndexes, source, {
    read: () => retryTransient(context, () => recoveryForPod(context, 0).collection(name, signal)),
    create: async (field, index) => {
      const body = recreateIndex(field, index)
      await changeCollection(name, context, () =>
        recoveryForPod(context, 0).buildIndex(name, { body, bytes }, signal),
      )
    },
    setLimit: async (count) => {
      const body = { strict_mode_config: { max_payload_index_count: count } }
      await changeCollection(name, context, () =>
        collectionsForPod(context, 0).patchCollection(name, body, signal),
      )
    },
  })
}

/**
 * Makes a change that may have been applied although the call failed: checks its effect before
 * repeating it.
 */
async function changeOnce(
  context: RunContext,
  change: () => Promise<void>,
  isApplied: () => Promise<boolean>,
): Promise<void> {
  await retryChange(context, async () => {
    try {
      await change()
    } catch (error) {
      if (!(error instanceof EngineError)) throw error
      const mayBeApplied = [400, 409].includes(error.status ?? 0) || isTransient(error)
      if (!mayBeApplied || !(await isApplied())) throw error
    }
  })
}

/** Time limit for clean-up after the Job has to stop. */
const CLEAN_UP_MS = 10_000

export async function lowerFactor(
  name: string,
  factor: number,
  context: RunContext,
): Promise<void> {
  if (factor === 1) return
  await context.progress.recordLoweredFactor(factor)
  const { uuid } = context.progress
  context.factors.set(name, { factor, ...(uuid !== undefined && { uuid }) })
  await setFactor(name, 1, context)
}

/**
 * Lowers the factor again: an earlier pod of this restore may have restored it when it was stopped.
 */
export async function lowerFactorAgain(name: string, context: RunContext): Promise<void> {
  if (context.factors.has(name)) await setFactor(name, 1, context)
}

/** Restores every factor that is still lowered, also after the Job was asked to stop. */
export async function restoreFactors(context: RunContext): Promise<void> {
  for (const name of [...context.factors.keys()]) await restoreFactor(name, context)
}

/**
 * Never throws: the reason why the restore ends takes precedence. Changes nothing if another pod has taken over: it
 * continues with the lowered factor.
 */
export async function restoreFactor(name: string, context: RunContext): Promise<void> {
  const lowered = context.factors.get(name)
  if (lowered === undefined) return
  const { factor, uuid } = lowered
  const { signal, log, reporter } = context.tools
  const body = { params: { replication_factor: factor } }
  const patch = async (abortSignal: AbortSignal) => {
    const collection = await recoveryForPod(context, 0).collection(name, abortSignal)
    if (collection === undefined) return
    // That of another client has a factor of its own.
    if (await isReplaced(uuidQuestion(name, context, abortSignal), uuid)) return
    if ((await reporter.owner()) === 'another pod') return
    await collectionsForPod(context, 0).patchCollection(name, body, abortSignal)
    log.info({ collection: name, factor }, 'replication factor restored')
  }
  try {
    if (signal.aborted) await patch(AbortSignal.timeout(CLEAN_UP_MS))
    else await retryTransient(context, () => patch(signal))
    context.factors.delete(name)
  } catch (error) {
    const reason = errorMessage(error)
    context.progress.note(`${name} was left at replication factor 1, not ${factor}: ${reason}`)
  }
}

/** The final factor is set by now, so the original one must not be restored. */
export function forgetLoweredFactor(name: string, context: RunContext): void {
  context.factors.delete(name)
}

async function setFactor(name: string, factor: number, context: RunContext): Promise<void> {
  const body = { params: { replication_factor: factor } }
  await changeCollection(name, context, () =>
    collectionsForPod(context, 0).patchCollection(name, body, context.tools.signal),
  )
}
