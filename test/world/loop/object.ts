/** Properties of any object: its key, its owner, its group and kind. */
import { isDeepStrictEqual } from 'node:util'
import type { ApiObject } from '../client.ts'

/** `namespace/name`, or the name of an object that has no namespace. */
export function keyOf({ metadata }: ApiObject): string {
  const { namespace, name } = metadata
  return namespace === undefined || namespace === '' ? name : `${namespace}/${name}`
}

/** `Kind.group/version`, as in the requests of hooks. */
export function labelOf({ apiVersion, kind }: { apiVersion: string; kind: string }): string {
  return `${kind}.${apiVersion}`
}

export function groupOf(apiVersion: string): string {
  return apiVersion.includes('/') ? apiVersion.slice(0, apiVersion.indexOf('/')) : ''
}

export function describe(object: ApiObject): string {
  return `${object.kind} ${keyOf(object)}`
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Same content, whatever the order of the fields. */
export function same(left: unknown, right: unknown): boolean {
  return isDeepStrictEqual(left, right)
}

interface Group {
  apiVersion: string
  kind: string
  /** By `namespace/name`; of two with one key the later one stays. */
  objects: Map<string, ApiObject>
}

/** Objects by kind, then by key: the form in which hooks see children and related objects. */
export class ObjectMap {
  readonly #groups = new Map<string, Group>()

  /** Makes the kind known even if there is no object of it. */
  group(kind: { apiVersion: string; kind: string }): Map<string, ApiObject> {
    const label = labelOf(kind)
    const group = this.#groups.get(label) ?? { ...kind, objects: new Map<string, ApiObject>() }
    this.#groups.set(label, group)
    return group.objects
  }

  insert(object: ApiObject): void {
    const { apiVersion, kind } = object
    this.group({ apiVersion, kind }).set(keyOf(object), object)
  }

  /** Sorted by group, version and kind: core kinds come first. */
  groups(): Group[] {
    const order = ({ apiVersion, kind }: Group) => `${groupOf(apiVersion)}\0${apiVersion}\0${kind}`
    return [...this.#groups.values()].sort((one, other) => (order(one) < order(other) ? -1 : 1))
  }

  toJSON(): Record<string, Record<string, ApiObject>> {
    const entries = this.groups().map(
      (group) => [labelOf(group), Object.fromEntries(group.objects)] as const,
    )
    return Object.fromEntries(entries)
  }
}
