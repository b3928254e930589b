/** Writes of which only the first of several may succeed: by resourceVersion, uid, or a new name. */
import { KubernetesError } from '../crds/errors.ts'
import { pathOf, type Collection, type Kubernetes } from '../jobs/clients/kubernetes.ts'

interface Named {
  metadata: {
    name: string
    uid?: string | undefined
    resourceVersion?: string | undefined
  }
}

/** Makes the object, or replaces the one of exactly its resourceVersion. False when late. */
export function put(kubernetes: Kubernetes, place: Collection, object: Named): Promise<boolean> {
  const { name, resourceVersion } = object.metadata
  return resourceVersion === undefined
    ? isDone(kubernetes, 'POST', pathOf(place), object)
    : isDone(kubernetes, 'PUT', pathOf(place, name), object)
}

/** Deletes the object of exactly this uid and resourceVersion. False when late. */
export function remove(kubernetes: Kubernetes, place: Collection, object: Named): Promise<boolean> {
  const { name, uid, resourceVersion } = object.metadata
  return isDone(kubernetes, 'DELETE', pathOf(place, name), {
    kind: 'DeleteOptions',
    apiVersion: 'v1',
    preconditions: { uid, resourceVersion },
  })
}

/** False when somebody was quicker: the object is another by now, is there already, or is gone. */
async function isDone(
  kubernetes: Kubernetes,
  method: 'POST' | 'PUT' | 'DELETE',
  path: string,
  body: object,
): Promise<boolean> {
  const { status, text } = await kubernetes.call(method, path, { body })
  if (status < 400) return true
  if (status === 404 || status === 409) return false
  throw new KubernetesError(`${method} ${path} answered ${status}: ${text.slice(0, 300)}`, {
    status,
  })
}
