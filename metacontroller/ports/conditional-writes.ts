/**
 * Conditional writes, by resourceVersion, uid or a new name: of several concurrent ones only the
 * first succeeds.
 */
import { KubernetesError } from '../../crds/contract/errors.ts'
import {
  resourcePath,
  type ApiResource,
  type Kubernetes,
} from '../../jobs/clients/kubernetes/client.ts'

interface VersionedObject {
  metadata: {
    name: string
    uid?: string | undefined
    resourceVersion?: string | undefined
  }
}

/**
 * Creates the object, or replaces the version given by its resourceVersion. False on a conflict.
 */
export function createOrReplace(
  kubernetes: Kubernetes,
  resource: ApiResource,
  object: VersionedObject,
): Promise<boolean> {
  const { name, resourceVersion } = object.metadata
  return resourceVersion === undefined
    ? succeeds(kubernetes, 'POST', resourcePath(resource), object)
    : succeeds(kubernetes, 'PUT', resourcePath(resource, name), object)
}

/** Deletes the object with exactly this uid and resourceVersion. False on a conflict. */
export function deleteExact(
  kubernetes: Kubernetes,
  resource: ApiResource,
  object: VersionedObject,
): Promise<boolean> {
  const { name, uid, resourceVersion } = object.metadata
  return succeeds(kubernetes, 'DELETE', resourcePath(resource, name), {
    kind: 'DeleteOptions',
    apiVersion: 'v1',
    preconditions: { uid, resourceVersion },
  })
}

/** False if another writer was first: the object has changed, exists already, or is gone. */
async function succeeds(
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
