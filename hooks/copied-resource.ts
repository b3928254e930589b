/** A resource that was created again from a manifest of one that has ended. */
import { ANNOTATIONS } from '../crds/names.ts'
import type { Lack } from './lack.ts'
import { endOfOriginal } from './observations.ts'

/**
 * A copy of what has ended does not run: it would put the data of its day over those of today. Deleting the
 * annotation first makes it a new resource.
 */
export function copyLack(
  resource: Parameters<typeof endOfOriginal>[0] & { kind: string },
): Lack | undefined {
  const original = endOfOriginal(resource)
  if (original === undefined) return undefined
  const { uid, state, at } = original
  return {
    reason: 'CopyOfEnded',
    message: `this is a copy of a ${resource.kind} (uid ${uid}) that ended as ${state} at ${at}, and is not run again: to run it, create another ${resource.kind} without the annotation ${ANNOTATIONS.progress}`,
    isRefusal: true,
    isShown: true,
  }
}
