/** The API server of a small world, as a pass of the loop calls it. */
import { isDeepStrictEqual } from 'node:util'
import { VecBackup } from '../../crds/backup.ts'
import { ApiError, type ApiObject, type ObjectApi } from '../world/client.ts'
import {
  beginEnd,
  create,
  edit,
  keyOf,
  remove,
  type Small,
  type SmallWorld,
} from './small-world.ts'

export interface SmallApi extends ObjectApi {
  /** Whether an object was missing or a call was refused: Metacontroller logs that and tries again. */
  readonly hasRefused: boolean
}

/** `isStatusLost` makes every write of a status fail. */
export function apiOf(world: SmallWorld, { isStatusLost = false } = {}): SmallApi {
  let hasRefused = false
  const refuse = (status: number, reason: string): never => {
    hasRefused = true
    throw new ApiError(status, reason, reason)
  }
  const liveOf = (object: ApiObject): Small => {
    const found = world.live[keyOf(object)] ?? refuse(404, 'NotFound')
    const { resourceVersion } = object.metadata
    const isCurrent =
      resourceVersion === undefined || resourceVersion === found.metadata.resourceVersion
    return isCurrent ? found : refuse(409, 'Conflict')
  }
  const stored = (key: string) => asApi(world.live[key] ?? refuse(404, 'NotFound'))
  return {
    get hasRefused() {
      return hasRefused
    },
    get: async ({ kind, name }) => {
      const found = world.live[`${kind}/${name}`]
      if (found !== undefined) return asApi(found)
      hasRefused = true
      return undefined
    },
    create: async (input) => {
      const object = input as Small
      if (world.namespaceEnds) refuse(403, 'Forbidden')
      if (keyOf(object) in world.live) refuse(409, 'AlreadyExists')
      // The garbage collector deletes a child whose owner is gone.
      if (!isOwned(world, object)) return asApi(object)
      create(world, object)
      return stored(keyOf(object))
    },
    replace: async (input) => {
      const object = input as ApiObject
      const found = liveOf(object)
      const key = keyOf(object)
      const { finalizers = [] } = object.metadata
      if (found.metadata.deletionTimestamp !== undefined && finalizers.length === 0) {
        remove(world, key)
        return object
      }
      edit(world, key, () => replaced(found, object))
      return stored(key)
    },
    replaceStatus: async (input) => {
      const object = input as ApiObject
      if (isStatusLost) refuse(500, 'Lost')
      liveOf(object)
      edit(world, keyOf(object), (found) => ({ ...found, status: object.status }))
      return stored(keyOf(object))
    },
    delete: async ({ kind, name }, options) => {
      const { uid } = options ?? {}
      const key = `${kind}/${name}`
      const found = world.live[key] ?? refuse(404, 'NotFound')
      if (uid !== undefined && found.metadata.uid !== uid) refuse(409, 'Conflict')
      // The finalizer of its own controller keeps a VecBackup.
      if (kind === VecBackup.kind) beginEnd(world, key)
      else remove(world, key)
    },
  }
}

/** Status is a subresource; a change of anything but metadata is a new generation of a custom resource. */
function replaced(found: Small, written: ApiObject): Small {
  const { status: _, ...object } = written
  const { metadata, status, ...before } = found
  const { metadata: given, ...after } = object
  const isChanged = found.kind.startsWith('Vec') && !isDeepStrictEqual(before, after)
  const generation = Number(metadata.generation) + (isChanged ? 1 : 0)
  return {
    ...object,
    metadata: { ...(given as Small['metadata']), generation },
    ...(status !== undefined && { status }),
  }
}

function isOwned({ live }: SmallWorld, { metadata }: Small): boolean {
  const uids = new Set(Object.values(live).map((object) => object.metadata.uid))
  return metadata.ownerReferences?.every(({ uid }) => uids.has(uid)) ?? true
}

/** Both types describe any object of Kubernetes. */
function asApi(object: Small): ApiObject {
  return object as unknown as ApiObject
}
