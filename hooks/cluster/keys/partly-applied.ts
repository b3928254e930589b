/** Whether the Secrets with the API keys, and the template of the pods, are as the last helm run left them. */
import { templateKeys } from '../../../crds/contract/api-keys.ts'
import type { Observed } from '../ports.ts'
import type { KeyRotation } from './ports.ts'
import { desiredKey } from './rotation.ts'

/**
 * Whether the Secrets or the template differ from the plan, although the plan may be the one that was
 * reported last: a run ended after it had changed something and before it reported, or another client has
 * removed or replaced a key.
 */
export function isPartlyApplied(observed: Observed): boolean {
  const { rotation, statefulSet, progress, isKeyReplaced } = observed
  if (isKeyReplaced === true) return true
  const { generation = 0 } = statefulSet?.metadata ?? {}
  const isCached = generation >= (progress?.applied?.statefulSetGeneration ?? 0)
  if (rotation === undefined || !isCached) return false
  const { plan, keys } = rotation
  const isPublished = keys.published === plan.published || rotation.isResting === true
  const variables = plan.accepted.length === 2 ? plan.accepted : []
  return (
    !isPublished ||
    isKeyMissing(observed, rotation) ||
    templateKeys(statefulSet).join() !== variables.join()
  )
}

/** The Secret of the operator does not have a key that is still known. */
function isKeyMissing(observed: Observed, { plan, keys }: KeyRotation): boolean {
  const known = [keys.published, desiredKey(observed)]
  return [plan.published, ...plan.accepted].some(
    (key) => !keys.stored.has(key) && known.includes(key),
  )
}
