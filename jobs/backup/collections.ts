/**
 * Backs up the selected collections, one after the other: a failed collection does not stop the
 * others. In a backup of all collections, one that a client deletes meanwhile is left out if all
 * nodes agree at the end that it is gone; one that they list again is backed up as it is then.
 */
import { StorageError } from '../../crds/contract/errors.ts'
import type { ManifestCollection } from '../../crds/contract/manifest.ts'
import { formatNames } from '../../crds/units.ts'
import { isReportable, withHint } from '../retry.ts'
import { MAX_ROUNDS, type RunContext } from './context.ts'
import { backUpByNode, discardNodeSnapshots } from './nodes/collection.ts'
import { readOwner } from './owner.ts'
import { deleteStaleObjects } from './shards/checkpoint.ts'
import { backUpByShard } from './shards/collection.ts'
import { clusterCollections, CollectionDeleted } from './source-cluster.ts'

export interface BackedUpCollections {
  completed: ManifestCollection[]
  /** Names of those that are left out. */
  deleted: string[]
}

interface Selection {
  names: string[]
  /** Unless the spec names the collections, a deleted one is left out instead of failing. */
  mayDisappear: boolean
}

export async function backUpCollections(
  { names, mayDisappear }: Selection,
  context: RunContext,
): Promise<BackedUpCollections> {
  const run: Run = { context, mayDisappear, completed: [], deleted: new Map() }
  await backUpEach(names, run)
  await backUpRecreated(run)
  // A cluster that has lost all of them must not look like one that needed no backup.
  if (run.deleted.size === names.length) failDeleted(run)
  const deleted = [...run.deleted.keys()]
  for (const name of deleted) await discardObjects(name, context)
  context.progress.finish()
  return { completed: run.completed, deleted }
}

const MAX_NAMED = 5

/** For the message of the backup; empty if none was deleted. */
export function deletedNotes(names: string[]): string[] {
  const [name, ...others] = names
  if (name === undefined) return []
  return [
    others.length === 0
      ? `collection ${name} was deleted during the backup and is not in it`
      : `collections ${formatNames(names, MAX_NAMED)} were deleted during the backup and are not in it`,
  ]
}

interface Run extends Pick<Selection, 'mayDisappear'> {
  context: RunContext
  completed: ManifestCollection[]
  /** The errors of collections that no node listed, by name. */
  deleted: Map<string, CollectionDeleted>
}

async function backUpEach(names: string[], run: Run): Promise<void> {
  const { context, mayDisappear, completed, deleted } = run
  const { progress, tools } = context
  let persistentError: StorageError | undefined
  for (const name of names) {
    startCollection(name, context)
    try {
      if (persistentError !== undefined) throw persistentError
      tools.log.info({ collection: name }, progress.statusLine())
      const collection = await backUp(name, context)
      progress.completed(collection)
      completed.push(collection)
    } catch (error) {
      tools.signal.throwIfAborted()
      if (!isReportable(error)) throw error
      if (mayDisappear && error instanceof CollectionDeleted) {
        deleted.set(name, error)
        progress.leftOut(name)
        tools.log.warn({ collection: name, reason: error.message }, 'collection was deleted')
      } else {
        fail(name, withHint(error.message), context)
        persistentError ??= await findPersistentError(error, context)
      }
    }
    progress.report()
    await progress.flush()
  }
}

/** Clients may recreate a collection under its name: what exists at the end must be backed up. */
async function backUpRecreated(run: Run): Promise<void> {
  for (let round = 1; run.deleted.size > 0; round += 1) {
    const recreated = await findRecreated(run)
    if (recreated.length === 0) return
    for (const name of recreated) run.deleted.delete(name)
    if (round < MAX_ROUNDS) await backUpEach(recreated, run)
    else for (const name of recreated) fail(name, recreatedMessage(name), run.context)
  }
}

function recreatedMessage(name: string): string {
  return `collection ${name} was deleted and recreated ${MAX_ROUNDS} times while it was backed up`
}

/** A deletion counts only if all nodes agree on it: otherwise these collections fail. */
async function findRecreated(run: Run): Promise<string[]> {
  const { context, deleted } = run
  try {
    const existing = new Set(await clusterCollections(context))
    return [...deleted.keys()].filter((name) => existing.has(name))
  } catch (error) {
    context.tools.signal.throwIfAborted()
    if (!isReportable(error)) throw error
    failDeleted(run, `: ${error.message}`)
    return []
  }
}

function failDeleted({ context, deleted }: Run, reason = ''): void {
  for (const [name, { message }] of deleted) fail(name, message + reason, context)
  deleted.clear()
}

function fail(name: string, message: string, { progress, tools }: RunContext): void {
  tools.log.error({ collection: name, reason: message }, `collection ${name} failed`)
  progress.failed(name, message)
}

function startCollection(name: string, { progress, plan }: RunContext): void {
  if (plan.method === 'Shard') progress.startCollection(name)
  else progress.startCollection(name, plan.cluster.replicas)
}

function backUp(name: string, context: RunContext): Promise<ManifestCollection> {
  return context.plan.method === 'Shard'
    ? backUpByShard(name, context)
    : backUpByNode(name, context)
}

/** The bucket rejects every call: any further snapshot would be created in vain. */
async function findPersistentError(
  error: unknown,
  context: RunContext,
): Promise<StorageError | undefined> {
  if (!(error instanceof StorageError)) return undefined
  try {
    await readOwner(context.bucket, context.folder, context.tools.signal)
    return undefined
  } catch (retryError) {
    return retryError instanceof StorageError ? retryError : undefined
  }
}

/**
 * What was uploaded of a collection that is left out: no restore can use it. A store that does not
 * delete it, such as one with Object Lock, does not fail the backup; the purge deletes it later.
 */
async function discardObjects(name: string, context: RunContext): Promise<void> {
  const { signal, log } = context.tools
  try {
    if (context.plan.method === 'Shard') await deleteStaleObjects(name, [], context)
    else await discardNodeSnapshots(name, context)
  } catch (error) {
    signal.throwIfAborted()
    if (!(error instanceof StorageError)) throw error
    log.warn({ collection: name, reason: error.message }, 'objects of a deleted collection remain')
  }
}
