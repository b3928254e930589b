/** Rules of `advise` about a collection: its shards, replicas and payload indexes. */
import { formatBytes } from '../../../crds/units.ts'
import type { Advice, CollectionFacts, Facts } from './facts.ts'

/** A shard is copied, repaired and backed up as a whole. */
export const LARGE_SHARD_BYTES = 50 * 2 ** 30

/** Said wherever another number of shards would help: the operator does not change it unasked. */
const CHANGE =
  'change spec.shardNumber, which spec.resharding of the VecCluster permits from engine 1.18.3 on; or another collection with that shardNumber, filled by VecMigration or from your source'

type Rule = (collection: CollectionFacts, facts: Facts) => Advice[]

export const COLLECTION_RULES: readonly Rule[] = [
  singleCopy,
  factorAboveNodes,
  factorAboveZones,
  replicasInOneZone,
  writeFactor,
  fewShards,
  largeShards,
  unindexed,
]

function singleCopy({ name, factor, shards }: CollectionFacts, facts: Facts): Advice[] {
  // A single node has a rule of its own.
  if (factor > 1 || facts.nodes.length < 2) return []
  const bytes = shards.reduce((sum, shard) => sum + shard.bytes, 0)
  return [
    {
      rule: 'SingleCopy',
      level: 'warning',
      collection: name,
      seen: `replication factor 1: ${formatBytes(bytes)} in ${shards.length} shards, each on one node`,
      why: 'while a node restarts its shards are not available, and the loss of its volume is the loss of them',
      set: 'spec.replicationFactor: 2 of its VecCollection; the operator adds the replicas',
    },
  ]
}

function factorAboveNodes({ name, factor }: CollectionFacts, { nodes }: Facts): Advice[] {
  if (nodes.length < 2 || factor <= nodes.length) return []
  return [
    {
      rule: 'FactorAboveNodes',
      level: 'warning',
      collection: name,
      seen: `replication factor ${factor} on ${nodes.length} nodes`,
      why: 'a node holds one replica of a shard, so there are fewer copies than the factor says',
      set: `spec.replicas: ${factor} of the VecCluster, or spec.replicationFactor: ${nodes.length}`,
    },
  ]
}

/** Undefined unless the zone of every node is known. */
function zoneByNode({ nodes }: Facts): Map<number, string> | undefined {
  const zones = nodes.flatMap(({ ordinal, zone }) =>
    zone === undefined ? [] : [[ordinal, zone] as const],
  )
  return zones.length === nodes.length && nodes.length > 0 ? new Map(zones) : undefined
}

function factorAboveZones({ name, factor }: CollectionFacts, facts: Facts): Advice[] {
  const count = new Set(zoneByNode(facts)?.values()).size
  if (count < 2 || factor <= count || factor > facts.nodes.length) return []
  return [
    {
      rule: 'FactorAboveZones',
      level: 'note',
      collection: name,
      seen: `replication factor ${factor} in ${count} zones`,
      why: 'two replicas of a shard share a zone: the loss of a zone may leave a single one',
      set: `nodes in ${factor} zones, or spec.replicationFactor: ${count}`,
    },
  ]
}

function replicasInOneZone({ name, shards }: CollectionFacts, facts: Facts): Advice[] {
  const zones = zoneByNode(facts)
  if (zones === undefined || new Set(zones.values()).size < 2) return []
  const affected = shards.filter(({ nodes }) => {
    return nodes.length > 1 && new Set(nodes.map((ordinal) => zones.get(ordinal))).size === 1
  })
  if (affected.length === 0) return []
  return [
    {
      rule: 'ReplicasInOneZone',
      level: 'warning',
      collection: name,
      seen: `${affected.length} of ${shards.length} shards have all replicas in one zone: ${affected.map(({ id }) => id).join(', ')}`,
      why: 'the loss of that zone takes every copy of them',
      set: 'spec.shards.balance: Always of the VecCluster; vec-operator plan shows the moves',
    },
  ]
}

function writeFactor({ name, factor, writeFactor: required }: CollectionFacts): Advice[] {
  if (factor === 1 || required < factor) return []
  return [
    {
      rule: 'WriteFactor',
      level: 'warning',
      collection: name,
      seen: `write consistency factor ${required}, replication factor ${factor}`,
      why: 'every replica must confirm a write: writes fail while one node is down',
      set: `spec.writeConsistencyFactor: ${factor - 1} or less of its VecCollection`,
    },
  ]
}

function fewShards({ name, factor, shards }: CollectionFacts, { nodes }: Facts): Advice[] {
  if (nodes.length < 2 || shards.length === 0 || shards.length >= nodes.length) return []
  const idle = nodes.length - shards.length * factor
  const without = idle > 0 ? `; ${idle} nodes hold nothing of it` : ''
  return [
    {
      rule: 'FewShards',
      level: 'note',
      collection: name,
      seen: `${shards.length} shards on ${nodes.length} nodes${without}`,
      why: 'a write to a shard goes to its replicas only, so more nodes do not take more writes',
      set: `shardNumber ${nodes.length} or a multiple of it: ${CHANGE}`,
    },
  ]
}

function largeShards({ name, shards }: CollectionFacts): Advice[] {
  const large = shards.filter(({ bytes }) => bytes >= LARGE_SHARD_BYTES)
  const [largest] = large.toSorted((a, b) => b.bytes - a.bytes)
  if (largest === undefined) return []
  return [
    {
      rule: 'LargeShards',
      level: 'note',
      collection: name,
      seen: `${large.length} of ${shards.length} shards have ${formatBytes(LARGE_SHARD_BYTES)} or more; the largest, ${largest.id}, has ${formatBytes(largest.bytes)}`,
      why: 'a shard is copied, repaired and backed up as a whole, and a transfer that fails starts again',
      set: `a larger shardNumber: ${CHANGE}`,
    },
  ]
}

function unindexed({ name }: CollectionFacts, facts: Facts): Advice[] {
  const fields = facts.unindexed.flatMap(({ collection, field }) =>
    collection === name ? [field] : [],
  )
  if (fields.length === 0) return []
  return [
    {
      rule: 'MissingIndex',
      level: 'warning',
      collection: name,
      seen: `slow queries filtered by ${[...new Set(fields)].toSorted().join(', ')}, without an index`,
      why: 'such a filter reads the payload of every candidate',
      set: 'spec.payloadIndexes of its VecCollection, with each of these fields and its type',
    },
  ]
}
