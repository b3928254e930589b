/**
 * State shared by the steps of one reconcile: the collection, the engine, and the guarded writes. Also for how long a pass waits
 * until a write is visible, and which writes wait while pods have different versions.
 */
import type { VecCollection } from '../../crds/collection.ts'
import { EngineError, NotReady, Rejected } from '../../crds/contract/errors.ts'
import type {
  Alias,
  AliasAction,
  CollectionBody,
  CollectionInfo,
  IndexBody,
} from '../../crds/engine/collections.ts'
import type { NamespacedName } from '../../crds/schema.ts'
import { formatNames } from '../../crds/units.ts'
import { compareMinors } from '../../crds/versions.ts'
import type { EngineCache } from './engine-cache.ts'
import {
  clusterNameOf,
  collectionNameOf,
  findOwner,
  hasAdopted,
  type Claim,
} from '../../crds/collection-ownership.ts'
import type { CollectionEngine, CollectionPorts } from './ports.ts'

export interface ReconcileContext {
  collection: VecCollection
  /** Name in the engine. */
  name: string
  engine: CollectionEngine
  engineCache: EngineCache
  writes: GuardedWrites
  /**
   * Why values that the CRD passes through to the engine must not be written now, by their paths; undefined if they
   * may, or if there are none. Called before the write, whose check of the Lease comes last.
   */
  mixedVersions: (paths: readonly string[]) => Promise<NotReady | undefined>
  signal: AbortSignal
  /** All VecCollections that this cluster allows; listed once per reconcile. */
  otherClaims: () => Promise<Claim[]>
  /** Throws if the name belongs to an older resource. */
  requireUnowned: () => Promise<void>
  /**
   * Why an existing collection may belong to a resource that cannot be read; undefined if it does not, or if
   * this resource has adopted it.
   */
  unknownOwner: () => Promise<string | undefined>
  /** Throws if the name is an alias: every call would act on a different collection. */
  requireNotAlias: (aliases: Alias[]) => void
  wait: (milliseconds: number) => Promise<void>
}

export interface ReconcileInput {
  collection: VecCollection
  engineCache: EngineCache
  ports: CollectionPorts
  /** Whether the cluster allows a namespace; resources of other namespaces cannot claim names or aliases. */
  isAllowed: (namespace: string) => boolean
  /** The cluster has spec.resharding. */
  mayReshard?: boolean
}

export function reconcileContext(
  { collection, engineCache, ports, isAllowed }: ReconcileInput,
  signal: AbortSignal,
): ReconcileContext {
  const name = collectionNameOf(collection)
  const cluster = clusterNameOf(collection)
  const claimList = once(() => ports.collectionsOf(cluster, collection))
  const otherClaims = async () => {
    const { claims } = await claimList()
    return claims.filter(({ metadata }) => isAllowed(metadata.namespace))
  }
  const unknownOwner = async () => {
    if (hasAdopted(collection)) return undefined
    const namespace = (await claimList()).unreadable.find(isAllowed)
    return (
      namespace &&
      `collection ${name} exists and may belong to a VecCollection of namespace ${namespace}, which cannot be read: run helm upgrade, or remove it from operator.namespaces`
    )
  }
  const requireNotAlias = (aliases: Alias[]) => {
    const target = aliases.find(({ alias_name }) => alias_name === name)?.collection_name
    if (target !== undefined) throw new Rejected(`${name} is an alias of collection ${target}`)
  }
  const requireUnowned = async () => {
    const owner = findOwner(collection, await otherClaims())
    if (owner !== undefined) throw new Rejected(`collection ${name} belongs to ${owner}`)
  }
  // Cached values are sufficient for reads, but not for writes.
  const checkPermission = once(async () => {
    engineCache.invalidateAliases()
    requireNotAlias(await engineCache.aliases(signal))
    await requireUnowned()
  })
  const { engine } = engineCache
  const mixedVersions = async (paths: readonly string[]) =>
    paths.length === 0 ? undefined : mixedVersionsError(await ports.podVersions(cluster), paths)
  const writeHolder = (clusterName: NamespacedName) => ports.writeHolder(clusterName, isAllowed)
  return {
    collection,
    name,
    engine,
    engineCache,
    signal,
    otherClaims,
    requireUnowned,
    unknownOwner,
    requireNotAlias,
    mixedVersions,
    writes: guardedWrites(name, { engine, cluster, signal, writeHolder, checkPermission }),
    wait: (milliseconds) => ports.wait(milliseconds, signal),
  }
}

const MAX_LISTED = 5

/**
 * One node takes a write, and each applies it by the version that it runs. An older engine drops a value that it does
 * not know, and stops its consensus at a kind of quantization that it cannot read (docs/engine-notes.md,
 * "Collections"). Patch releases of one minor version know the same values.
 */
function mixedVersionsError(versions: string[], paths: readonly string[]): NotReady | undefined {
  const [oldest, newest] = [versions[0], versions.at(-1)]
  if (oldest === undefined || newest === undefined || compareMinors(oldest, newest) === 0) {
    return undefined
  }
  return new NotReady(
    `the pods have the versions ${versions.join(', ')}: waiting until they have the same minor version to write ${formatNames(paths, MAX_LISTED)}`,
  )
}

/** Pauses between reads in milliseconds, five seconds in total: a write is not visible immediately. */
const PAUSES_MS = [10, 20, 50, 100, 200, 400, 800, 1500, 2000]

/** Polls the collection until `isDone` or for five seconds; returns the last read. */
export async function waitForCollection(
  { engine, name, signal, wait }: Pick<ReconcileContext, 'engine' | 'name' | 'signal' | 'wait'>,
  isDone: (info: CollectionInfo | undefined) => boolean,
): Promise<CollectionInfo | undefined> {
  let info = await engine.collectionInfo(name, signal)
  for (const pause of PAUSES_MS) {
    if (isDone(info)) return info
    await wait(pause)
    info = await engine.collectionInfo(name, signal)
  }
  return info
}

function once<T>(load: () => Promise<T>): () => Promise<T> {
  let loaded: Promise<T> | undefined
  return () => (loaded ??= load())
}

/** The error of a write that may or may not have been applied. */
export type UnknownResult = EngineError | undefined

export interface GuardedWrites {
  /** Throws if a write is not permitted now. */
  check(): Promise<UnknownResult>
  create(body: CollectionBody): Promise<UnknownResult>
  patch(body: CollectionBody): Promise<UnknownResult>
  delete(): Promise<UnknownResult>
  putIndex(index: IndexBody): Promise<UnknownResult>
  deleteIndex(field: string): Promise<UnknownResult>
  updateAliases(actions: AliasAction[]): Promise<UnknownResult>
}

interface Permission {
  engine: CollectionEngine
  cluster: NamespacedName
  signal: AbortSignal
  writeHolder: (cluster: NamespacedName) => Promise<string | undefined>
  /** Throws if this collection must not be written. */
  checkPermission: () => Promise<void>
}

/**
 * All writes of a reconcile. Each one first checks that the reconcile may still write. An error that leaves
 * open whether the write was applied is returned, not thrown: the read that follows decides.
 */
export function guardedWrites(collection: string, permission: Permission): GuardedWrites {
  const { engine, signal } = permission
  const write = (call: () => Promise<void>) => guardedWrite(permission, call)
  return {
    check: () => write(async () => undefined),
    create: (body) => write(() => engine.createCollection(collection, body, signal)),
    patch: (body) => write(() => engine.patchCollection(collection, body, signal)),
    delete: () => write(() => engine.deleteCollection(collection, signal)),
    putIndex: (index) => write(() => engine.putIndex(collection, index, signal)),
    deleteIndex: (field) => write(() => engine.deleteIndex(collection, field, signal)),
    updateAliases: (actions) => write(() => engine.updateAliases(actions, signal)),
  }
}

/** Whether a retry may succeed; a permanent rejection by the engine is not transient. */
export function isTransient({ status, message }: EngineError): boolean {
  if (status === undefined || status === 408 || status === 429) return true
  // The consensus thread of that node has stopped, which needs attention from a user.
  return status >= 500 && status !== 507 && !message.includes('Channel closed')
}

async function guardedWrite(
  { cluster, signal, writeHolder, checkPermission }: Permission,
  call: () => Promise<void>,
): Promise<UnknownResult> {
  signal.throwIfAborted()
  await checkPermission()
  const holder = await writeHolder(cluster)
  if (holder !== undefined)
    throw new NotReady(`waiting for ${holder}, which holds the write Lease of the cluster`)
  signal.throwIfAborted()
  try {
    await call()
    return undefined
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof EngineError && isResultUnknown(error)) return error
    throw error
  }
}

/**
 * A write that timed out in consensus may still be applied, a repeated create finds the collection of the
 * first one, and a 404 for something that was just read means that another client deleted it.
 */
function isResultUnknown({ status }: EngineError): boolean {
  return status === undefined || [404, 408, 409].includes(status) || status >= 500
}
