/** What the API server does to metadata, whatever the kind: names, identity, owners, generation, sizes. */
import { randomBytes, randomUUID } from 'node:crypto'
import type { ApiMeta, ApiObject } from '../client.ts'
import { badRequest, immutable, type Cause } from './failure.ts'
import { equal } from './json.ts'
import { apiVersionOf, type Kind } from './kinds.ts'
import { annotationCauses, labelCauses } from './labels.ts'

const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/
const LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/
const MAX_ANNOTATIONS = 256 * 1024
/** Kinds whose names are host names, or may hold what a host name may not. */
const NAMES: Record<string, { pattern: RegExp; max: number }> = {
  Namespace: { pattern: LABEL, max: 63 },
  Service: { pattern: LABEL, max: 63 },
  Role: { pattern: /^[^/%]+$/, max: 253 },
  RoleBinding: { pattern: /^[^/%]+$/, max: 253 },
  ClusterRole: { pattern: /^[^/%]+$/, max: 253 },
  ClusterRoleBinding: { pattern: /^[^/%]+$/, max: 253 },
}

/** Kubernetes writes times to the second. */
export function timestamp(date: Date): string {
  return date.toISOString().replace(/\.\d+Z$/, 'Z')
}

/** Gives a new object its identity; fields that clients may not set are dropped. */
export function identified(kind: Kind, object: ApiObject, now: Date): ApiObject {
  const { metadata } = object
  const name = metadata.name || generated(metadata.generateName)
  const meta: ApiMeta = {
    ...serverFields(metadata),
    name,
    uid: randomUUID(),
    creationTimestamp: timestamp(now),
    ...(kind.generation && { generation: 1 }),
  }
  const { status, ...rest } = object
  return {
    ...rest,
    ...(!kind.status && status !== undefined && { status }),
    apiVersion: apiVersionOf(kind),
    kind: kind.kind,
    metadata: meta,
  }
}

/** Keeps identity and deletion unchanged, whatever an update contains. */
export function sameIdentity(object: ApiObject, old: ApiObject): ApiObject {
  const { uid, creationTimestamp, generation, deletionTimestamp, deletionGracePeriodSeconds } =
    old.metadata
  return {
    ...object,
    apiVersion: old.apiVersion,
    kind: old.kind,
    metadata: {
      ...serverFields(object.metadata),
      name: old.metadata.name,
      ...(old.metadata.namespace !== undefined && { namespace: old.metadata.namespace }),
      ...(uid !== undefined && { uid }),
      ...(creationTimestamp !== undefined && { creationTimestamp }),
      ...(generation !== undefined && { generation }),
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
      ...(deletionGracePeriodSeconds !== undefined && { deletionGracePeriodSeconds }),
    },
  }
}

/** Everything that is wrong with the metadata of an object that is to be stored. */
export function metadataCauses(kind: Kind, object: ApiObject): Cause[] {
  const { metadata } = object
  const { name, annotations = {}, ownerReferences = [] } = metadata
  const { pattern, max } = NAMES[kind.kind] ?? { pattern: SUBDOMAIN, max: 253 }
  const causes: Cause[] = [...labelCauses(object), ...annotationCauses(object)]
  if (name === '') {
    causes.push({
      field: 'metadata.name',
      message: 'Required value: name or generateName is required',
    })
  } else if (!pattern.test(name) || name.length > max) {
    const message = `Invalid value: "${name}": a lowercase RFC 1123 name of at most ${max} characters must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character`
    causes.push({ field: 'metadata.name', message })
  }
  const size = Object.entries(annotations).reduce((sum, entry) => sum + byteLength(entry), 0)
  if (size > MAX_ANNOTATIONS) {
    const message = `Too long: may not be more than ${MAX_ANNOTATIONS} bytes`
    causes.push({ field: 'metadata.annotations', message })
  }
  if (ownerReferences.filter(({ controller }) => controller === true).length > 1) {
    const message = 'Only one reference can have Controller set to true.'
    causes.push({ field: 'metadata.ownerReferences', message: `Invalid value: ${message}` })
  }
  return causes
}

/** What an update may not do to metadata. `given` is what the client sent. */
export function metadataUpdateCauses(given: ApiMeta, next: ApiObject, old: ApiObject): Cause[] {
  const causes: Cause[] = []
  if (given.uid !== undefined && given.uid !== old.metadata.uid) {
    causes.push(immutable('metadata.uid', given.uid))
  }
  const before = old.metadata.finalizers ?? []
  const added = (next.metadata.finalizers ?? []).filter((name) => !before.includes(name))
  if (old.metadata.deletionTimestamp !== undefined && added.length > 0) {
    const message = `Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{${added.map((name) => JSON.stringify(name)).join(', ')}}`
    causes.push({ field: 'metadata.finalizers', message })
  }
  return causes
}

/** Whether the desired state changed: everything but metadata and status. */
export function specChanged(a: ApiObject, b: ApiObject): boolean {
  return !equal({ ...a, metadata: {}, status: {} }, { ...b, metadata: {}, status: {} })
}

/** The object in the URL must be the object in the body. */
export function checkAddress(object: ApiObject, namespace: string, name?: string): void {
  const { metadata } = object
  if ((metadata.namespace ?? namespace) !== namespace) {
    throw badRequest(
      `the namespace of the provided object does not match the namespace sent on the request`,
    )
  }
  if (name !== undefined && (metadata.name || name) !== name) {
    throw badRequest(
      `the name of the object (${metadata.name}) does not match the name on the URL (${name})`,
    )
  }
}

/** Metadata that clients write. */
function serverFields(metadata: ApiMeta): ApiMeta {
  const { name, namespace, generateName, labels, annotations, finalizers, ownerReferences } =
    metadata
  return {
    name,
    ...(namespace !== undefined && namespace !== '' && { namespace }),
    ...(generateName !== undefined && { generateName }),
    ...(labels !== undefined && Object.keys(labels).length > 0 && { labels }),
    ...(annotations !== undefined && Object.keys(annotations).length > 0 && { annotations }),
    ...(finalizers !== undefined && finalizers.length > 0 && { finalizers }),
    ...(ownerReferences !== undefined && ownerReferences.length > 0 && { ownerReferences }),
  }
}

function generated(prefix: string | undefined): string {
  if (prefix === undefined || prefix === '') return ''
  const alphabet = 'bcdfghjklmnpqrstvwxz2456789'
  const letters = [...randomBytes(5)].map((byte) => alphabet.charAt(byte % alphabet.length))
  return prefix + letters.join('')
}

function byteLength([key, value]: [string, string]): number {
  return Buffer.byteLength(key) + Buffer.byteLength(value)
}
