/** Finds the children of a parent; adopts orphans that match it, releases what matches no more. */
import {
  controllerOf,
  controllerReference,
  isDeleting,
  type ObjectApi,
  type ApiObject,
  type OwnerReference,
} from '../client.ts'
import { referenceOf } from '../client.ts'
import type { Informer } from './informer.ts'
import { describe, ObjectMap } from './object.ts'
import type { Matches } from './selector.ts'
import { isNotFound, updateLive } from './update.ts'

interface Claim {
  api: ObjectApi
  parent: ApiObject
  matches: Matches
  children: Informer[]
}

/** Every kind of child has an entry, also when there is none of it. */
export async function claimChildren({ children, ...claim }: Claim): Promise<ObjectMap> {
  const claimed = new ObjectMap()
  for (const informer of children) {
    const { apiVersion, kind } = informer.kind
    claimed.group({ apiVersion, kind })
    const mine = await claimKind(claim, informer)
    for (const object of mine) claimed.insert(object)
  }
  return claimed
}

async function claimKind(claim: Omit<Claim, 'children'>, informer: Informer): Promise<ApiObject[]> {
  // The parent is asked once, and only if there is something to adopt.
  let permission: Promise<void> | undefined
  const mayAdopt = () => (permission ??= recheck(claim.api, claim.parent))
  const claimed: ApiObject[] = []
  const errors: string[] = []
  for (const object of informer.list(claim.parent.metadata.namespace)) {
    try {
      if (await claimOne(claim, object, mayAdopt)) claimed.push(object)
    } catch (error) {
      // An object that was deleted meanwhile is no child.
      if (!isNotFound(error)) errors.push(String(error))
    }
  }
  if (errors.length === 0) return claimed
  throw new Error(`can't claim ${informer.kind.kind} children: ${errors.join(', ')}`)
}

async function claimOne(
  { api, parent, matches }: Omit<Claim, 'children'>,
  object: ApiObject,
  mayAdopt: () => Promise<void>,
): Promise<boolean> {
  const owner = controllerOf(object)
  const matching = matches(object.metadata.labels)
  if (owner !== undefined) {
    if (owner.uid !== parent.metadata.uid) return false
    if (!matching && !isDeleting(parent)) await release(api, parent, object)
    return matching
  }
  if (isDeleting(parent) || !matching || isDeleting(object)) return false
  await mayAdopt()
  await adopt(api, parent, object)
  return true
}

async function adopt(api: ObjectApi, parent: ApiObject, child: ApiObject): Promise<void> {
  const reference = controllerReference(parent)
  await updateLive(api, child, (live) =>
    withOwners(live, [...ownersBut(live, reference.uid), reference]),
  )
}

async function release(api: ObjectApi, parent: ApiObject, child: ApiObject): Promise<void> {
  await updateLive(api, child, (live) => withOwners(live, ownersBut(live, parent.metadata.uid)))
}

/** The cache may not know yet that the parent is being deleted, or is another one by now. */
async function recheck(api: ObjectApi, parent: ApiObject): Promise<void> {
  const live = await api.get(referenceOf(parent))
  if (live?.metadata.uid !== parent.metadata.uid) {
    throw new Error(`original ${describe(parent)} is gone`)
  }
  if (live !== undefined && isDeleting(live))
    throw new Error(`${describe(parent)} has just been deleted`)
}

function ownersBut({ metadata }: ApiObject, uid: string | undefined): OwnerReference[] {
  return (metadata.ownerReferences ?? []).filter((owner) => owner.uid !== uid)
}

function withOwners(object: ApiObject, ownerReferences: OwnerReference[]): ApiObject {
  return { ...object, metadata: { ...object.metadata, ownerReferences } }
}
