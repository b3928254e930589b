/** What `kubectl apply` does, in either world: creates an object, or updates the existing one. */
import { ApiError, referenceOf, type ApiClient, type ApiObject } from './client.ts'

/** Creates the object, or replaces everything but status and the metadata others wrote. */
export async function applyObject(api: ApiClient, object: object): Promise<ApiObject> {
  const desired = object as ApiObject
  for (;;) {
    const live = await api.get(referenceOf(desired))
    try {
      return await (live === undefined
        ? api.create(desired)
        : api.replace(mergeObjects(live, desired)))
    } catch (error) {
      // Someone else wrote between our read and our write: look again.
      if (
        !(error instanceof ApiError) ||
        error.status !== 409 ||
        !CONFLICT_REASONS.has(error.reason)
      ) {
        throw error
      }
    }
  }
}

const CONFLICT_REASONS = new Set(['Conflict', 'AlreadyExists'])

function mergeObjects(live: ApiObject, desired: ApiObject): ApiObject {
  const { labels, annotations } = desired.metadata
  return {
    ...desired,
    ...(live.status !== undefined && { status: live.status }),
    metadata: {
      ...live.metadata,
      labels: { ...live.metadata.labels, ...labels },
      // What Jobs and controllers wrote stays, as kubectl apply leaves it.
      annotations: { ...live.metadata.annotations, ...annotations },
    },
  }
}
