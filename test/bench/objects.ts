/** Objects as the API server stores them: with identity, times and managedFields of a realistic size. */
import { createHash } from 'node:crypto'
import type { AnyObject } from '../../crds/kubernetes.ts'

export const CREATED = '2026-03-01T12:00:00Z'

interface Owner {
  apiVersion: string
  kind: string
  metadata: { name: string; uid: string }
}

interface Bare {
  apiVersion: string
  kind: string
  metadata: { name: string; namespace?: string; [field: string]: unknown }
  [field: string]: unknown
}

/** Who wrote an object, and who its status. */
interface Writers {
  object: string
  status?: string
}

/** What the API server and those who write objects add to one. */
export function stored(object: Bare, writers: Writers, owner?: Owner): AnyObject {
  const { kind, metadata, status, ...written } = object
  const uid = uidOf(kind, metadata.namespace ?? '', metadata.name)
  const whole = {
    uid,
    resourceVersion: String(1_000_000 + (parseInt(uid.slice(0, 6), 16) % 9_000_000)),
    generation: 1,
    creationTimestamp: CREATED,
    ...metadata,
    ...(owner !== undefined && { ownerReferences: [referenceTo(owner)] }),
    managedFields: [
      managed(object, writers.object, { metadata, ...written }),
      ...(status === undefined
        ? []
        : [{ ...managed(object, writers.status, { status }), subresource: 'status' }]),
    ],
  }
  return { ...object, metadata: whole }
}

/** A uid as the API server would give it, but the same in every run. */
export function uidOf(...names: string[]): string {
  const hex = createHash('sha256').update(names.join('/')).digest('hex')
  return [8, 4, 4, 4, 12].map((length, group) => hex.slice(group * 6, group * 6 + length)).join('-')
}

function managed({ apiVersion }: Bare, manager: string | undefined, fields: object): object {
  return {
    manager,
    operation: 'Update',
    apiVersion,
    time: CREATED,
    fieldsType: 'FieldsV1',
    fieldsV1: fieldsOf(fields),
  }
}

function referenceTo({ apiVersion, kind, metadata: { name, uid } }: Owner) {
  return { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true }
}

/** Every field with an `f:` before its name, lists item by item: how managedFields names them. */
function fieldsOf(value: unknown): object {
  if (typeof value !== 'object' || value === null) return {}
  const entries = Array.isArray(value)
    ? value.map((item, index) => [`k:{"index":${index}}`, fieldsOf(item)])
    : Object.entries(value).map(([key, inner]) => [`f:${key}`, fieldsOf(inner)])
  return Object.fromEntries(entries) as object
}
