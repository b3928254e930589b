/** The garbage collector: what lost its owners is deleted; foreground deletion waits for dependants; orphaning frees them. */
import { FOREGROUND, ORPHAN } from '../api/deletion.ts'
import { apiVersionOf, type Kind } from '../api/kinds.ts'
import type { Resources } from '../api/resources.ts'
import { isDeleting, type ApiObject, type OwnerReference } from '../client.ts'
import type { Controller } from './queue.ts'

interface ObjectLocation {
  kind: Kind
  namespace: string
  name: string
}

/** Keys are uids. */
export function garbageCollector(resources: Resources): Controller {
  const locations = new Map<string, ObjectLocation>()
  const dependants = new Map<string, Set<string>>()

  const note = (object: ApiObject, gone: boolean) => {
    const { uid = '', name, namespace = '', ownerReferences = [] } = object.metadata
    const kind = kindOf(resources, object)
    if (gone || kind === undefined) locations.delete(uid)
    else locations.set(uid, { kind, namespace, name })
    for (const owner of ownerReferences) {
      const of = dependants.get(owner.uid) ?? new Set()
      if (gone) of.delete(uid)
      else of.add(uid)
      dependants.set(owner.uid, of)
    }
  }
  const read = (uid: string): { location: ObjectLocation; object: ApiObject } | undefined => {
    const location = locations.get(uid)
    const object = location && resources.find(location.kind, location.namespace, location.name)
    return object?.metadata.uid === uid && location ? { location, object } : undefined
  }
  const dependantsOf = (owner: string) =>
    [...(dependants.get(owner) ?? [])]
      .map(read)
      .filter((found) => found !== undefined)
      .filter(({ object }) => object.metadata.ownerReferences?.some(({ uid }) => uid === owner))

  return {
    keys(object, change) {
      note(object, change === 'DELETED')
      const { uid = '', ownerReferences = [] } = object.metadata
      // Owners may wait for this one; dependants may have lost this one.
      return [uid, ...ownerReferences.map(({ uid }) => uid), ...(dependants.get(uid) ?? [])]
    },
    sync(uid) {
      const found = read(uid)
      if (found === undefined) return
      const { location, object } = found
      if (isDeleting(object)) endDeletion(resources, location, object, dependantsOf(uid))
      else collect(resources, location, object, dependantsOf(uid).length > 0)
    },
  }
}

/** Takes away the collector's own finalizer once nothing depends on the object any more. */
function endDeletion(
  resources: Resources,
  location: ObjectLocation,
  object: ApiObject,
  dependants: { location: ObjectLocation; object: ApiObject }[],
): void {
  const { finalizers = [], uid } = object.metadata
  if (finalizers.includes(ORPHAN)) {
    for (const dependant of dependants) {
      disown(resources, dependant.location, (owner) => owner.uid !== uid)
    }
    release(resources, location, ORPHAN)
  }
  if (!finalizers.includes(FOREGROUND)) return
  const blocks = ({ object }: { object: ApiObject }) =>
    object.metadata.ownerReferences?.some(
      (owner) => owner.uid === uid && owner.blockOwnerDeletion === true,
    )
  if (!dependants.some(blocks)) release(resources, location, FOREGROUND)
}

/** Deletes an object none of whose owners stays; forgets owners that go while another stays. */
function collect(
  resources: Resources,
  location: ObjectLocation,
  object: ApiObject,
  hasDependants: boolean,
) {
  const { ownerReferences = [], finalizers = [], uid = '' } = object.metadata
  if (ownerReferences.length === 0) return
  const states = ownerReferences.map((owner) => ({
    owner,
    state: stateOf(resources, location, owner),
  }))
  if (states.some(({ state }) => state === 'unknown')) return
  const remaining = states.filter(({ state }) => state === 'stays').map(({ owner }) => owner.uid)
  if (remaining.length > 0) {
    if (remaining.length < states.length) {
      disown(resources, location, (owner) => remaining.includes(owner.uid))
    }
    return
  }
  const waits = states.some(({ state }) => state === 'waits')
  const foreground = (waits && hasDependants) || finalizers.includes(FOREGROUND)
  resources.delete(location.kind, location, {
    propagationPolicy: finalizers.includes(ORPHAN)
      ? 'Orphan'
      : foreground
        ? 'Foreground'
        : 'Background',
    preconditions: { uid },
  })
}

/** An owner stays, waits for its dependants to go, or is gone; one of an unknown kind is not judged. */
function stateOf(resources: Resources, { namespace }: ObjectLocation, owner: OwnerReference) {
  const kind = kindOf(resources, owner)
  if (kind === undefined) return 'unknown'
  const found = resources.find(kind, kind.namespaced ? namespace : '', owner.name)
  if (found === undefined || found.metadata.uid !== owner.uid) return 'gone'
  return isDeleting(found) && found.metadata.finalizers?.includes(FOREGROUND) ? 'waits' : 'stays'
}

function kindOf(resources: Resources, { apiVersion, kind }: { apiVersion: string; kind: string }) {
  return resources.kinds
    .all()
    .find((known) => known.kind === kind && apiVersionOf(known) === apiVersion)
}

function disown(
  resources: Resources,
  location: ObjectLocation,
  keep: (owner: OwnerReference) => boolean,
): void {
  resources.update(location.kind, location, (old) => ({
    ...old,
    metadata: {
      ...old.metadata,
      ownerReferences: (old.metadata.ownerReferences ?? []).filter(keep),
    },
  }))
}

function release(resources: Resources, location: ObjectLocation, finalizer: string): void {
  resources.update(location.kind, location, (old) => ({
    ...old,
    metadata: {
      ...old.metadata,
      finalizers: (old.metadata.finalizers ?? []).filter((name) => name !== finalizer),
    },
  }))
}
