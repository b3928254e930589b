/** Paths of the engine's API. Names come from users, from engines and from buckets. */
import { Rejected } from '../../crds/errors.ts'

/**
 * A name as one segment of a path. An empty one, `.` and `..` would name the resource above: a DELETE
 * of the snapshot `..` is a DELETE of its collection.
 */
export function segment(name: string): string {
  if (name === '' || name === '.' || name === '..') {
    throw new Rejected(`${JSON.stringify(name)} is no name that a path of the engine can hold`)
  }
  return encodeURIComponent(name)
}

export function collectionPath(collection: string): string {
  return `/collections/${segment(collection)}`
}
