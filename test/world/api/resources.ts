/**
 * Every object of the embedded API and the rules under which it changes, as the generic registry of
 * a Kubernetes API server applies them. The HTTP side and the controllers both work on this.
 */
import { parseQuantity } from '../../../crds/units.ts'
import { admit } from '../admission/admit.ts'
import { Invalid } from '../admission/invalid.ts'
import type { ApiObject } from '../client.ts'
import type { Clock } from '../clock.ts'
import { defaulted, kindCauses } from './admission.ts'
import { afterDelete, checkPreconditions, isHeld, type DeleteOptions } from './deletion.ts'
import {
  alreadyExists,
  ApiFailure,
  conflict,
  forbidden,
  invalid,
  MODIFIED,
  notFound,
} from './failure.ts'
import { clone, equal, recordAt, valueAt } from './json.ts'
import { Kinds, type Kind } from './kinds.ts'
import {
  checkAddress,
  identified,
  metadataCauses,
  metadataUpdateCauses,
  sameIdentity,
  specChanged,
} from './metadata.ts'
import { Pages } from './pages.ts'
import { Store } from './store.ts'

/** What an update writes: the object, its status, or the finalizers of a namespace's spec. */
export type Part = 'object' | 'status' | 'finalize'

export class Resources {
  readonly store = new Store()
  readonly pages = new Pages()
  readonly kinds = new Kinds()
  readonly #clock: Clock

  constructor(clock: Clock) {
    this.#clock = clock
    this.store.subscribe(({ collection }) => {
      if (collection === 'apiextensions.k8s.io/customresourcedefinitions') this.#defineKinds()
    })
  }

  find(kind: Kind, namespace: string, name: string): ApiObject | undefined {
    return this.store.get(kind, namespace, name)
  }

  get(kind: Kind, namespace: string, name: string): ApiObject {
    const found = this.find(kind, namespace, name)
    if (found === undefined) throw notFound(kind, name)
    return found
  }

  create(kind: Kind, namespace: string, input: ApiObject): ApiObject {
    checkAddress(input, namespace)
    if (input.metadata.resourceVersion) {
      const message = 'resourceVersion should not be set on objects to be created'
      throw new ApiFailure(500, 'InternalError', message)
    }
    this.#checkNamespace(kind, namespace, input.metadata.name)
    const meta = { ...input.metadata, ...(kind.namespaced && { namespace }) }
    const made = identified(kind, { ...clone(input), metadata: meta }, this.#clock.now())
    const object = this.#admitted(kind, defaulted(kind, made), undefined)
    if (this.find(kind, namespace, object.metadata.name) !== undefined) {
      throw alreadyExists(kind, object.metadata.name)
    }
    this.#checkServiceAccount(kind, object)
    return this.store.put(kind, this.#withDefaultClass(kind, object))
  }

  /** Stores the result of `change`, which may get a frozen object. */
  update(
    kind: Kind,
    at: { namespace: string; name: string },
    change: (old: ApiObject) => ApiObject,
    part: Part = 'object',
  ): ApiObject {
    const old = this.get(kind, at.namespace, at.name)
    const next = this.preview(kind, at, change, part)
    if (equal(next, old)) return old
    const ends = next.metadata.deletionTimestamp !== undefined && !isHeld(next)
    return ends ? this.store.remove(kind, next) : this.store.put(kind, next)
  }

  /** The object as an update would store it, checked in the same way: a dry run. */
  preview(
    kind: Kind,
    at: { namespace: string; name: string },
    change: (old: ApiObject) => ApiObject,
    part: Part = 'object',
  ): ApiObject {
    const old = this.get(kind, at.namespace, at.name)
    const given = change(old)
    checkAddress(given, at.namespace, at.name)
    const version = given.metadata.resourceVersion
    if (version && version !== old.metadata.resourceVersion) {
      throw conflict(kind, at.name, MODIFIED)
    }
    const next = this.#next(kind, given, old, part)
    next.metadata.resourceVersion = old.metadata.resourceVersion ?? ''
    return next
  }

  /** Returns the last state of the object, and whether it is gone. */
  delete(
    kind: Kind,
    at: { namespace: string; name: string },
    options: DeleteOptions = {},
  ): { object: ApiObject; gone: boolean } {
    const old = this.get(kind, at.namespace, at.name)
    checkPreconditions(kind, old, options)
    const next = afterDelete(kind, old, options, this.#clock.now())
    if (next === undefined) return { object: this.store.remove(kind, old), gone: true }
    const { resourceVersion, ...metadata } = next.metadata
    if (metadata.finalizers?.length === 0) delete metadata.finalizers
    const marked = { ...next, metadata }
    const same = equal(marked, {
      ...old,
      metadata: { ...old.metadata, resourceVersion: undefined },
    })
    if (same && resourceVersion !== undefined) return { object: old, gone: false }
    return { object: this.store.put(kind, marked), gone: false }
  }

  #next(kind: Kind, given: ApiObject, old: ApiObject, part: Part): ApiObject {
    const merged = sameIdentity(clone(partOf(kind, given, old, part)), old)
    const next = part === 'object' ? defaulted(kind, merged, old) : merged
    const changed = part === 'object' && specChanged(next, old)
    if (kind.generation && changed) {
      next.metadata.generation = (old.metadata.generation ?? 0) + 1
    }
    const causes = metadataUpdateCauses(given.metadata, next, old)
    if (causes.length > 0) throw invalid(kind, old.metadata.name, causes)
    if (part === 'object') this.#checkExpansion(kind, next, old)
    return this.#admitted(kind, next, old)
  }

  #admitted(kind: Kind, object: ApiObject, old: ApiObject | undefined): ApiObject {
    const causes = [...metadataCauses(kind, object), ...kindCauses(kind, object, old)]
    if (causes.length > 0) throw invalid(kind, object.metadata.name, causes)
    if (kind.definition === undefined) return object
    try {
      return admit(kind.definition, object, old)
    } catch (error) {
      if (error instanceof Invalid) throw invalid(kind, object.metadata.name, error.causes)
      throw error
    }
  }

  #checkNamespace(kind: Kind, namespace: string, name: string): void {
    if (!kind.namespaced) return
    const namespaces = this.kinds.of('v1', 'Namespace')
    const found = this.get(namespaces, '', namespace)
    if (found.metadata.deletionTimestamp === undefined) return
    const why = `unable to create new content in namespace ${namespace} because it is being terminated`
    const message = `namespace ${namespace} is being terminated`
    const cause = { field: 'metadata.namespace', message, reason: 'NamespaceTerminating' }
    throw forbidden(kind, name, why, [cause])
  }

  #checkServiceAccount(kind: Kind, { metadata, spec }: ApiObject): void {
    if (kind.kind !== 'Pod') return
    const { namespace = '', name } = metadata
    const account = String(valueAt({ spec }, 'spec.serviceAccountName'))
    if (this.find(this.kinds.of('v1', 'ServiceAccount'), namespace, account) !== undefined) return
    const why = `error looking up service account ${namespace}/${account}: serviceaccount "${account}" not found`
    throw forbidden(kind, name, why)
  }

  /** A claim without a class gets the default one, if there is one. */
  #withDefaultClass(kind: Kind, object: ApiObject): ApiObject {
    const spec = recordAt(object, 'spec')
    if (kind.kind !== 'PersistentVolumeClaim' || 'storageClassName' in spec) return object
    const found = this.store
      .list(this.kinds.of('storage.k8s.io/v1', 'StorageClass'))
      .find(({ metadata }) => metadata.annotations?.[DEFAULT_CLASS] === 'true')
    if (found === undefined) return object
    return { ...object, spec: { ...spec, storageClassName: found.metadata.name } }
  }

  /** The admission plugin PersistentVolumeClaimResize, in its words. */
  #checkExpansion(kind: Kind, object: ApiObject, old: ApiObject): void {
    if (kind.kind !== 'PersistentVolumeClaim' || requestOf(object) <= requestOf(old)) return
    const { name } = object.metadata
    if (valueAt(old, 'status.phase') !== 'Bound') {
      throw forbidden(kind, name, 'Only bound persistent volume claims can be expanded')
    }
    const classes = this.kinds.of('storage.k8s.io/v1', 'StorageClass')
    const storageClass = this.find(classes, '', String(valueAt(old, 'spec.storageClassName')))
    if (storageClass?.['allowVolumeExpansion'] === true) return
    const why =
      'only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize'
    throw forbidden(kind, name, why)
  }

  #defineKinds(): void {
    const definitions = this.kinds.of('apiextensions.k8s.io/v1', 'CustomResourceDefinition')
    this.kinds.define(this.store.list(definitions))
  }
}

const DEFAULT_CLASS = 'storageclass.kubernetes.io/is-default-class'

function requestOf(claim: ApiObject): number {
  return parseQuantity(String(valueAt(claim, 'spec.resources.requests.storage')))
}

/** The part of the object that an update may write; the rest stays unchanged. */
function partOf(kind: Kind, given: ApiObject, old: ApiObject, part: Part): ApiObject {
  switch (part) {
    case 'object': {
      if (!kind.status) return given
      const next = { ...given }
      delete next.status
      return old.status === undefined ? next : { ...next, status: old.status }
    }
    case 'status':
      return { ...old, ...(given.status !== undefined && { status: given.status }) }
    case 'finalize': {
      const finalizers = recordAt(given, 'spec')['finalizers']
      return { ...old, spec: { ...recordAt(old, 'spec'), finalizers } }
    }
  }
}
