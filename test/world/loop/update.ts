/** Read, change, write: retried when another client wrote in between. */
import { setTimeout as delay } from 'node:timers/promises'
import { ApiError, referenceOf, type ObjectApi, type ApiObject } from '../client.ts'

/** Real time: only the API's answer is waited for. */
const RETRY_MS = [10, 50, 250]

export function isNotFound(error: unknown): boolean {
  return error instanceof ApiError && error.status === 404
}

/** Another client changed the object since it was read. */
export function isConflict(error: unknown): boolean {
  return error instanceof ApiError && error.status === 409 && error.reason === 'Conflict'
}

export function isAlreadyExists(error: unknown): boolean {
  return error instanceof ApiError && error.status === 409 && error.reason === 'AlreadyExists'
}

/**
 * Changes the live object of this uid; a namesake counts as not found. The change answers undefined
 * when there is nothing to write.
 */
export async function updateLive(
  api: ObjectApi,
  object: ApiObject,
  change: (live: ApiObject) => ApiObject | undefined,
  part: 'whole' | 'status' = 'whole',
): Promise<ApiObject> {
  for (const wait of [...RETRY_MS, undefined]) {
    const live = await readLive(api, object)
    const desired = change(live)
    if (desired === undefined) return live
    try {
      return await (part === 'whole' ? api.replace(desired) : api.replaceStatus(desired))
    } catch (error) {
      if (!isConflict(error) || wait === undefined) throw error
      await delay(wait)
    }
  }
  throw new Error('not reached: the last try answers or throws')
}

async function readLive(api: ObjectApi, object: ApiObject): Promise<ApiObject> {
  const live = await api.get(referenceOf(object))
  if (live !== undefined && live.metadata.uid === object.metadata.uid) return live
  const { kind, metadata } = object
  throw new ApiError(404, 'NotFound', `${kind} "${metadata.name}" not found`)
}
