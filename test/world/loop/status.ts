/** The status of a parent: replaced whole, written only where it differs from the live one. */
import type { ObjectApi, ApiObject } from '../client.ts'
import { same } from './object.ts'
import { isConflict, isNotFound, updateLive } from './update.ts'

/**
 * Answers false where the write was given up: the parent is gone, or others wrote at every try.
 * The parent will be seen again anyway, so neither is an error.
 */
export async function writeStatus(
  api: ObjectApi,
  parent: ApiObject,
  status: Record<string, unknown> | null | undefined,
): Promise<boolean> {
  // The generation that the hook saw, which may not be the live one.
  const desired = { ...status, observedGeneration: parent.metadata.generation ?? 0 }
  const change = (live: ApiObject) =>
    same(live.status, desired) ? undefined : { ...live, status: desired }
  try {
    await updateLive(api, parent, change, 'status')
    return true
  } catch (error) {
    if (isNotFound(error) || isConflict(error)) return false
    throw error
  }
}
