/** Patches: JSON merge (RFC 7386) and JSON (RFC 6902). A strategic one is taken as a merge: lists are replaced whole. */
import { clone, equal, isRecord, type Json } from './json.ts'
import { badRequest, ApiFailure } from './failure.ts'

/** Applies a patch by its content type; the given object is not changed. */
export function patched(object: object, type: string, patch: unknown): unknown {
  switch (type) {
    case 'application/merge-patch+json':
    case 'application/strategic-merge-patch+json':
      return mergePatch(object, patch)
    case 'application/json-patch+json':
      return jsonPatch(object, patch)
    default:
      throw new ApiFailure(
        415,
        'UnsupportedMediaType',
        `the body of the request was in an unknown format - accepted media types include: ` +
          `application/json-patch+json, application/merge-patch+json (got ${type})`,
      )
  }
}

export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch
  const merged: Json = isRecord(target) ? { ...target } : {}
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) Reflect.deleteProperty(merged, key)
    else merged[key] = mergePatch(merged[key], value)
  }
  return merged
}

interface Operation {
  op: string
  path: string
  from?: string
  value?: unknown
}

function jsonPatch(object: object, patch: unknown): unknown {
  if (!Array.isArray(patch)) throw badRequest('a JSON patch is a list of operations')
  const holder = { root: clone(object) as unknown }
  for (const operation of patch as Operation[]) apply(holder, operation)
  return holder.root
}

function apply(holder: { root: unknown }, { op, path, from, value }: Operation): void {
  switch (op) {
    case 'add':
      put(holder, path, clone(value), true)
      return
    case 'replace':
      take(holder, path, false)
      put(holder, path, clone(value), false)
      return
    case 'remove':
      take(holder, path, true)
      return
    case 'copy':
      put(holder, path, clone(take(holder, from ?? '', false)), true)
      return
    case 'move':
      put(holder, path, take(holder, from ?? '', true), true)
      return
    case 'test':
      if (equal(take(holder, path, false), value)) return
      throw new ApiFailure(422, 'Invalid', `testing value ${path} failed`)
    default:
      throw badRequest(`unknown operation ${op}`)
  }
}

/** The value at a pointer, removed from there when asked. */
function take(holder: { root: unknown }, path: string, remove: boolean): unknown {
  const { parent, key } = locate(holder, path)
  if (Array.isArray(parent)) {
    const index = Number(key)
    if (!(index < parent.length)) throw missing(path)
    return remove ? parent.splice(index, 1)[0] : parent[index]
  }
  if (!(key in parent)) throw missing(path)
  const value = parent[key]
  if (remove) Reflect.deleteProperty(parent, key)
  return value
}

function put(holder: { root: unknown }, path: string, value: unknown, insert: boolean): void {
  const { parent, key } = locate(holder, path)
  if (!Array.isArray(parent)) parent[key] = value
  else if (key === '-') parent.push(value)
  else parent.splice(Number(key), insert ? 0 : 1, value)
}

function locate(
  holder: { root: unknown },
  path: string,
): { parent: Json | unknown[]; key: string } {
  const keys = ['root', ...path.split('/').slice(1).map(unescaped)]
  const last = keys.pop() ?? ''
  let parent: unknown = holder
  for (const key of keys) {
    parent = Array.isArray(parent)
      ? parent[Number(key)]
      : isRecord(parent)
        ? parent[key]
        : undefined
  }
  if (!isRecord(parent) && !Array.isArray(parent)) throw missing(path)
  return { parent, key: last }
}

function unescaped(key: string): string {
  return key.replaceAll('~1', '/').replaceAll('~0', '~')
}

function missing(path: string): ApiFailure {
  return new ApiFailure(422, 'Invalid', `the server rejected our request: no value at ${path}`)
}
