/**
 * What the VecCollections of a cluster claim: which one owns a collection name, which claims an alias, and
 * which number of shards each collection should have. The service and `vec-operator plan` agree on it.
 */
import type { VecCollection } from './collection.ts'
import type { NamespacedName } from './schema.ts'

/** The fields of a VecCollection that decide ownership: of thousands of resources only these stay in memory. */
export interface Claim {
  metadata: Pick<
    VecCollection['metadata'],
    'namespace' | 'name' | 'uid' | 'generation' | 'creationTimestamp'
  >
  spec: Pick<VecCollection['spec'], 'clusterRef' | 'collectionName' | 'aliases'>
  status?: { health?: string | undefined }
}

/** A claim with what decides the number of shards of its collection. */
export interface ShardClaim extends Claim {
  spec: Claim['spec'] & Pick<VecCollection['spec'], 'shardNumber' | 'shardingMethod'>
  status?: { health?: string | undefined; phase?: string | undefined }
}

export interface ClaimList {
  claims: Claim[]
  /** Namespaces whose VecCollections could not be read for long: they may have claims, too. */
  unreadable: string[]
}

/** Copies only the fields of a claim. */
export function toClaim({ metadata, spec, status }: Claim): Claim {
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

/** Copies only the fields of such a claim. */
export function toShardClaim(collection: ShardClaim): ShardClaim {
  const { metadata, spec, status } = toClaim(collection)
  const { shardNumber, shardingMethod } = collection.spec
  const phase = collection.status?.phase
  return {
    metadata,
    spec: { ...spec, shardingMethod, ...(shardNumber !== undefined && { shardNumber }) },
    status: { ...status, ...(phase !== undefined && { phase }) },
  }
}

/** Name of the collection inside the engine. */
export function collectionNameOf({ metadata, spec }: Claim): string {
  return spec.collectionName ?? metadata.name
}

/** The resource that claimed the name first, if it is not this one. */
export function findOwner(collection: Claim, others: Claim[]): string | undefined {
  const name = collectionNameOf(collection)
  const owner = otherClaims(collection, others).find(
    (b) => collectionNameOf(b) === name && claimedFirst(b, collection),
  )
  return owner && formatRef(owner)
}

/** Another VecCollection of the cluster that claims an alias. */
export interface AliasClaim {
  name: string
  isOlder: boolean
  /** It claims it as the name of its collection, which may not exist yet, or may have been lost. */
  isCollection?: true
}

/**
 * The older resource whose collection has this name, or the oldest that declares the alias. An alias with the name
 * of a collection would send its clients to another collection, and it could not be created any more.
 */
export function conflictingClaim(
  collection: Claim,
  others: Claim[],
  alias: string,
): AliasClaim | undefined {
  const claims = otherClaims(collection, others)
  const owner = claims.find((b) => collectionNameOf(b) === alias && isOlder(b, collection))
  if (owner !== undefined) return { name: formatRef(owner), isOlder: true, isCollection: true }
  const claim = claims.find(({ spec }) => spec.aliases?.includes(alias))
  return claim && { name: formatRef(claim), isOlder: isOlder(claim, collection) }
}

/** Namespace and name of the VecCluster of a collection. */
export function clusterNameOf({ metadata, spec }: Claim): NamespacedName {
  return { namespace: spec.clusterRef.namespace ?? metadata.namespace, name: spec.clusterRef.name }
}

/** Whether a claim is about a collection of this VecCluster. */
export function isOfCluster(claim: Claim, { namespace, name }: NamespacedName): boolean {
  const cluster = clusterNameOf(claim)
  return cluster.namespace === namespace && cluster.name === name
}

/** What the spec of a VecCollection asks for. */
export interface ShardNumber {
  /** Name in the engine. */
  collection: string
  shards: number
  /** The VecCollection. */
  source: NamespacedName
}

/**
 * Of the VecCollections of one cluster; `claims` are those of all of them, also of resources that an older CRD admitted.
 * Under custom sharding each shard key has shards of its own. Nothing is changed in a collection that is Degraded, or was not
 * compared with its spec yet: a spec with other vectors may be meant for another one.
 */
export function shardNumbersOf(
  all: readonly ShardClaim[],
  claims: Claim[] = all.map(toClaim),
): ShardNumber[] {
  const shardNumbers = all.flatMap((collection) => {
    const { shardNumber, shardingMethod } = collection.spec
    const { namespace, name } = collection.metadata
    if (shardNumber === undefined || shardingMethod === 'custom') return []
    if (collection.status?.phase === 'Degraded' || !hasAdopted(collection)) return []
    // Two resources that name one collection: the older one manages it.
    if (findOwner(collection, claims) !== undefined) return []
    const source = { namespace, name }
    return [{ collection: collectionNameOf(collection), shards: shardNumber, source }]
  })
  return shardNumbers.toSorted((a, b) => (a.collection < b.collection ? -1 : 1))
}

function otherClaims(collection: Claim, others: Claim[]): Claim[] {
  return others
    .filter((b) => b.metadata.uid !== collection.metadata.uid)
    .toSorted((a, b) => (isOlder(a, b) ? -1 : 1))
}

/** Of two resources created in the same second, the one that has adopted the name wins, else the lower uid. */
function claimedFirst(a: Claim, b: Claim): boolean {
  const isTie = createdAt(a) === createdAt(b)
  if (isTie && hasAdopted(a) !== hasAdopted(b)) return hasAdopted(a)
  return isOlder(a, b)
}

/** A resource that was denied the name never reads the collection: only an owner's status has a health. */
export function hasAdopted({ status }: Claim): boolean {
  return status?.health !== undefined
}

function createdAt({ metadata }: Claim): number {
  return Date.parse(metadata.creationTimestamp)
}

function isOlder(a: Claim, b: Claim): boolean {
  const order = createdAt(a) - createdAt(b)
  return order < 0 || (order === 0 && a.metadata.uid < b.metadata.uid)
}

function formatRef({ metadata }: Claim): string {
  return `VecCollection ${metadata.namespace}/${metadata.name}`
}
