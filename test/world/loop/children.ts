/** Brings the children of a parent to what its hook desires: deletes, creates, updates. */
import {
  controllerReference,
  isDeleting,
  referenceOf,
  type ObjectApi,
  type ApiObject,
} from '../client.ts'
import { merged, withLastApplied } from './apply.ts'
import type { CompositeController, Method } from './composite.ts'
import type { Discovery } from './discovery.ts'
import { describe, groupOf, isRecord, ObjectMap, same } from './object.ts'
import { UID_LABEL, type Matches } from './selector.ts'
import { isAlreadyExists, isConflict, isNotFound } from './update.ts'

/** The label of generated selectors is added where it is missing; a child that does not match is an error. */
export function desiredChildren(
  { spec }: CompositeController,
  parent: ApiObject,
  answered: ObjectMap,
  matches: Matches,
): ObjectMap {
  const desired = new ObjectMap()
  for (const child of answered.groups().flatMap(({ objects }) => [...objects.values()])) {
    const labels = { ...labelsOf(child) }
    if (spec.generateSelector === true) labels[UID_LABEL] ??= parent.metadata.uid ?? ''
    if (!matches(labels)) {
      throw new Error(`labels on desired child ${describe(child)} don't match parent selector`)
    }
    const named = Object.keys(labels).length > 0
    desired.insert({ ...child, metadata: { ...child.metadata, ...(named && { labels }) } })
  }
  return desired
}

function labelsOf(child: ApiObject): Record<string, string> {
  const labels: unknown = child.metadata.labels ?? {}
  if (isRecord(labels) && Object.values(labels).every((value) => typeof value === 'string')) {
    return labels as Record<string, string>
  }
  throw new Error(`invalid labels on desired child ${describe(child)}`)
}

export class Children {
  readonly #api: ObjectApi
  readonly #discovery: Discovery
  /** By group and kind, whatever the version. */
  readonly #methods = new Map<string, Method>()

  constructor(api: ObjectApi, discovery: Discovery) {
    this.#api = api
    this.#discovery = discovery
  }

  async learnMethods({ spec }: CompositeController): Promise<void> {
    for (const { apiVersion, resource, updateStrategy } of spec.childResources ?? []) {
      const { kind } = await this.#discovery.resource(apiVersion, resource)
      const method = updateStrategy?.method ?? 'OnDelete'
      this.#methods.set(`${groupOf(apiVersion)}/${kind}`, method)
    }
  }

  /** One object that cannot be dealt with does not keep the others from it. */
  async manage(parent: ApiObject, observed: ObjectMap, desired: ObjectMap): Promise<void> {
    const errors: string[] = []
    const attempt = (work: Promise<void>) =>
      work.catch((error: unknown) => errors.push(words(error)))
    for (const { apiVersion, kind, objects } of observed.groups()) {
      const ofKind = desired.group({ apiVersion, kind })
      for (const [key, object] of objects) {
        if (!ofKind.has(key) && !isDeleting(object)) await attempt(this.#delete(object))
      }
    }
    for (const { apiVersion, kind, objects } of desired.groups()) {
      const there = observed.group({ apiVersion, kind })
      for (const [key, object] of objects) {
        await attempt(this.#apply(parent, there.get(key), object))
      }
    }
    if (errors.length > 0) throw new Error(errors.join(', '))
  }

  async #apply(parent: ApiObject, observed: ApiObject | undefined, desired: ApiObject) {
    // Fails for a kind that is not there, which no other object of the answer has to suffer for.
    await this.#discovery.kind(desired.apiVersion, desired.kind)
    await (observed === undefined ? this.#create(parent, desired) : this.#update(observed, desired))
  }

  async #create(parent: ApiObject, desired: ApiObject): Promise<void> {
    const child = owned(withLastApplied(desired, desired), parent)
    try {
      await this.#api.create(child)
    } catch (error) {
      // Either the cache lags, or another owner has the name: both are handled alike.
      if (!isAlreadyExists(error)) throw error
    }
  }

  async #update(observed: ApiObject, desired: ApiObject): Promise<void> {
    const { apiVersion, kind } = desired
    const method = this.#methods.get(`${groupOf(apiVersion)}/${kind}`) ?? 'OnDelete'
    if (method === 'OnDelete' || isDeleting(observed)) return
    const next = merged(observed, desired)
    if (same(next, observed)) return
    switch (method) {
      case 'Recreate':
        // The next pass finds it missing and recreates it.
        return this.#delete(observed)
      case 'InPlace':
        return this.#replace(next)
    }
  }

  async #replace(child: ApiObject): Promise<void> {
    try {
      await this.#api.replace(child)
    } catch (error) {
      if (!isNotFound(error) && !isConflict(error)) throw error
    }
  }

  async #delete(child: ApiObject): Promise<void> {
    const { uid } = child.metadata
    const options = { propagation: 'Background' as const, ...(uid !== undefined && { uid }) }
    try {
      await this.#api.delete(referenceOf(child), options)
    } catch (error) {
      if (!isNotFound(error)) throw new Error(`can't delete ${describe(child)}: ${words(error)}`)
    }
  }
}

/** A child without a namespace belongs where its parent is; of two with one key the later stays. */
export function withDefaults(parent: ApiObject, children: ApiObject[]): ObjectMap {
  const byKey = new ObjectMap()
  const { namespace } = parent.metadata
  for (const child of children) {
    const home = child.metadata.namespace || namespace
    byKey.insert({
      ...child,
      metadata: { ...child.metadata, ...(home !== undefined && { namespace: home }) },
    })
  }
  return byKey
}

function owned(child: ApiObject, parent: ApiObject): ApiObject {
  const reference = controllerReference(parent)
  const owners = child.metadata.ownerReferences ?? []
  if (owners.some(({ uid }) => uid === reference.uid)) return child
  return { ...child, metadata: { ...child.metadata, ownerReferences: [...owners, reference] } }
}

export function words(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
