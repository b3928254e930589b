/**
 * Every write of a pass goes through here: first it is asked whether the pass still may write, and an
 * error that does not tell whether the write was applied is kept for the read that follows.
 */
import { EngineError, NotReady } from '../../crds/errors.ts'
import type { AliasAction, CollectionBody, IndexBody } from '../../crds/rules/bodies.ts'
import type { ClusterName, CollectionEngine } from './ports.ts'

/** What a write may end with when it is not known whether it was applied. */
export type Doubt = EngineError | undefined

export interface Writes {
  /** Throws as a write would that may not be made now. */
  check(): Promise<Doubt>
  create(body: CollectionBody): Promise<Doubt>
  patch(body: CollectionBody): Promise<Doubt>
  delete(): Promise<Doubt>
  putIndex(index: IndexBody): Promise<Doubt>
  deleteIndex(field: string): Promise<Doubt>
  updateAliases(actions: AliasAction[]): Promise<Doubt>
}

interface Permission {
  engine: CollectionEngine
  cluster: ClusterName
  signal: AbortSignal
  writeHolder: (cluster: ClusterName) => Promise<string | undefined>
  /** Throws when this collection is not to be written to. */
  permitted: () => Promise<void>
}

export function writesTo(collection: string, permission: Permission): Writes {
  const { engine, signal } = permission
  const write = (call: () => Promise<void>) => careful(permission, call)
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

/** Whether a call may succeed by itself later; what the engine refused for good may not. */
export function isTransient({ status, message }: EngineError): boolean {
  if (status === undefined || status === 408 || status === 429) return true
  // The consensus of that node is dead: people must know.
  return status >= 500 && status !== 507 && !message.includes('Channel closed')
}

async function careful(
  { cluster, signal, writeHolder, permitted }: Permission,
  call: () => Promise<void>,
): Promise<Doubt> {
  signal.throwIfAborted()
  await permitted()
  const holder = await writeHolder(cluster)
  if (holder !== undefined) throw new NotReady(`waits for ${holder}, which holds the cluster`)
  signal.throwIfAborted()
  try {
    await call()
    return undefined
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof EngineError && isDoubtful(error)) return error
    throw error
  }
}

/**
 * A time-out of consensus may still be applied, a second create finds the first one's work, and what
 * was just seen and is gone was deleted by somebody.
 */
function isDoubtful({ status }: EngineError): boolean {
  return status === undefined || [404, 408, 409].includes(status) || status >= 500
}
