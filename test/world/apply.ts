/** What a person's `apply` does in either world: creates an object, or makes the one that is there say the same. */
import { ApiError, referenceOf, type ApiClient, type ApiObject } from './client.ts'

/** Creates the object, or replaces everything but status and the metadata others wrote. */
export async function applyObject(api: ApiClient, object: object): Promise<ApiObject> {
  const wanted = object as ApiObject
  for (;;) {
    const found = await api.get(referenceOf(wanted))
    try {
      return await (found === undefined ? api.create(wanted) : api.replace(merged(found, wanted)))
    } catch (error) {
      // Someone else wrote between our read and our write: look again.
      if (!(error instanceof ApiError) || error.status !== 409 || !RACES.has(error.reason)) {
        throw error
      }
    }
  }
}

const RACES = new Set(['Conflict', 'AlreadyExists'])

function merged(found: ApiObject, wanted: ApiObject): ApiObject {
  const { labels, annotations } = wanted.metadata
  return {
    ...wanted,
    ...(found.status !== undefined && { status: found.status }),
    metadata: {
      ...found.metadata,
      labels: { ...found.metadata.labels, ...labels },
      // What Jobs and controllers wrote stays, as kubectl apply leaves it.
      annotations: { ...found.metadata.annotations, ...annotations },
    },
  }
}
