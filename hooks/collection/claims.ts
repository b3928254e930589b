/** Which other VecCollections of the cluster claim the same name, or the same alias. */
import type { VecCollection } from '../../crds/collection.ts'
import type { Rival } from './aliases.ts'

/** What of a VecCollection decides whose a name or an alias is. Of thousands no more is kept in memory. */
export interface Claim {
  metadata: Pick<
    VecCollection['metadata'],
    'namespace' | 'name' | 'uid' | 'generation' | 'creationTimestamp'
  >
  spec: Pick<VecCollection['spec'], 'clusterRef' | 'collectionName' | 'aliases'>
  status?: { health?: NonNullable<VecCollection['status']>['health'] }
}

/** A copy of that part alone. */
export function claimOf({ metadata, spec, status }: VecCollection): Claim {
  const { namespace, name, uid, generation, creationTimestamp } = metadata
  const { clusterRef, collectionName, aliases } = spec
  return {
    metadata: { namespace, name, uid, generation, creationTimestamp },
    spec: {
      clusterRef,
      ...(collectionName !== undefined && { collectionName }),
      ...(aliases !== undefined && { aliases }),
    },
    ...(status?.health !== undefined && { status: { health: status.health } }),
  }
}

/** Name of the collection inside the engine. */
export function collectionNameOf({ metadata, spec }: Claim): string {
  return spec.collectionName ?? metadata.name
}

/** The resource that had the name first, if that is another one. */
export function ownerOf(collection: Claim, others: Claim[]): string | undefined {
  const name = collectionNameOf(collection)
  const earlier = rivals(collection, others).find(
    (other) => collectionNameOf(other) === name && hadItBefore(other, collection),
  )
  return earlier && called(earlier)
}

/** The resource besides this one that declares the alias; of several the oldest. */
export function aliasRival(collection: Claim, others: Claim[], alias: string): Rival | undefined {
  const rival = rivals(collection, others).find(({ spec }) => spec.aliases?.includes(alias))
  return rival && { name: called(rival), isOlder: isOlder(rival, collection) }
}

/** Namespace and name of the VecCluster a collection is in. */
export function clusterOf({ metadata, spec }: Claim): { namespace: string; name: string } {
  return { namespace: spec.clusterRef.namespace ?? metadata.namespace, name: spec.clusterRef.name }
}

function rivals(collection: Claim, others: Claim[]): Claim[] {
  return others
    .filter((other) => other.metadata.uid !== collection.metadata.uid)
    .toSorted((one, other) => (isOlder(one, other) ? -1 : 1))
}

/** Of two made in one second, the one that adopted it already; the uid decides only before that. */
function hadItBefore(one: Claim, other: Claim): boolean {
  const isTie = createdAt(one) === createdAt(other)
  if (isTie && knowsIt(one) !== knowsIt(other)) return knowsIt(one)
  return isOlder(one, other)
}

/** Who was refused the name never sees the collection: only an owner's status tells of its health. */
function knowsIt({ status }: Claim): boolean {
  return status?.health !== undefined
}

function createdAt({ metadata }: Claim): number {
  return Date.parse(metadata.creationTimestamp)
}

function isOlder(one: Claim, other: Claim): boolean {
  const order = createdAt(one) - createdAt(other)
  return order < 0 || (order === 0 && one.metadata.uid < other.metadata.uid)
}

function called({ metadata }: Claim): string {
  return `VecCollection ${metadata.namespace}/${metadata.name}`
}
