/** Which other VecCollections of the cluster claim the same name, or the same alias. */
import type { VecCollection } from '../../crds/collection.ts'
import type { Rival } from './aliases.ts'

/** Name of the collection inside the engine. */
export function collectionNameOf({ metadata, spec }: VecCollection): string {
  return spec.collectionName ?? metadata.name
}

/** The resource that had the name first, if that is another one. */
export function ownerOf(collection: VecCollection, others: VecCollection[]): string | undefined {
  const name = collectionNameOf(collection)
  const earlier = rivals(collection, others).find(
    (other) => collectionNameOf(other) === name && hadItBefore(other, collection),
  )
  return earlier && called(earlier)
}

/** The resource besides this one that declares the alias; of several the oldest. */
export function aliasRival(
  collection: VecCollection,
  others: VecCollection[],
  alias: string,
): Rival | undefined {
  const rival = rivals(collection, others).find(({ spec }) => spec.aliases?.includes(alias))
  return rival && { name: called(rival), isOlder: isOlder(rival, collection) }
}

/** Namespace and name of the VecCluster a collection is in. */
export function clusterOf({ metadata, spec }: VecCollection): { namespace: string; name: string } {
  return { namespace: spec.clusterRef.namespace ?? metadata.namespace, name: spec.clusterRef.name }
}

function rivals(collection: VecCollection, others: VecCollection[]): VecCollection[] {
  return others
    .filter((other) => other.metadata.uid !== collection.metadata.uid)
    .toSorted((one, other) => (isOlder(one, other) ? -1 : 1))
}

/** Of two made in one second, the one that adopted it already; the uid decides only before that. */
function hadItBefore(one: VecCollection, other: VecCollection): boolean {
  const isTie = createdAt(one) === createdAt(other)
  if (isTie && knowsIt(one) !== knowsIt(other)) return knowsIt(one)
  return isOlder(one, other)
}

/** Who was refused the name never sees the collection: only an owner's status tells of its health. */
function knowsIt({ status }: VecCollection): boolean {
  return status?.health !== undefined
}

function createdAt({ metadata }: VecCollection): number {
  return Date.parse(metadata.creationTimestamp)
}

function isOlder(one: VecCollection, other: VecCollection): boolean {
  const order = createdAt(one) - createdAt(other)
  return order < 0 || (order === 0 && one.metadata.uid < other.metadata.uid)
}

function called({ metadata }: VecCollection): string {
  return `VecCollection ${metadata.namespace}/${metadata.name}`
}
