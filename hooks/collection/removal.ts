/** Deletes a collection with its resource: the one place where data is meant to be lost. */
import { EngineError, KubernetesError, NotReady, Rejected } from '../../crds/errors.ts'
import { appears, passOf, type Parts } from './one-pass.ts'

/** Why the collection is not deleted yet; undefined once there is nothing left to delete. */
export type Remaining = string | undefined

export async function remove(task: Parts, signal: AbortSignal): Promise<Remaining> {
  const pass = passOf(task, signal)
  try {
    const isThere = await pass.engine.collectionInfo(pass.name, signal)
    if (isThere === undefined) return undefined
    const doubt = await pass.writes.delete()
    const left = await appears(pass, (info) => info === undefined)
    if (left === undefined) return undefined
    return doubt?.message ?? `collection ${pass.name} is still there`
  } catch (error) {
    // The name is an alias, or belongs to an older resource: there is nothing here that is ours.
    if (error instanceof Rejected) return undefined
    if (isExpected(error)) return error.message
    throw error
  }
}

function isExpected(error: unknown): error is Error {
  return (
    error instanceof EngineError || error instanceof NotReady || error instanceof KubernetesError
  )
}
