/** Which number of shards each collection of a cluster should have: the service and `vec-operator plan` agree on it. */
import type { VecCollection } from './collection.ts'
import {
  type Claim,
  collectionNameOf,
  findOwner,
  hasAdopted,
  toClaim,
} from './collection-ownership.ts'
import type { NamespacedName } from './schema.ts'

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
  all: readonly VecCollection[],
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
