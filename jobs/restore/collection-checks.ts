/**
 * Checks of each collection before anything is changed: the objects in the bucket, an existing
 * collection of that name at the target, and the effect of the priority on it.
 */
import { isDeepStrictEqual } from 'node:util'
import { EngineError, Rejected } from '../../crds/contract/errors.ts'
import { isPlainObject, ownValue, type PlainObject } from '../../crds/engine/plain-object.ts'
import type { RestoreCollectionInfo } from '../clients/engine/responses.ts'
import { retryTransient, runGroupsConcurrently } from '../retry.ts'
import {
  collectionsForPod,
  engineForPod,
  recoveryForPod,
  type PreflightContext,
} from './context.ts'
import {
  findDisagreement,
  replicasOnFirstNode,
  type ReplicaStates,
  type ReportedShards,
} from './placement.ts'
import type { RestoreItem } from '../manifest-check.ts'
import { checkShardIds, withTargetIds } from './shard-ids.ts'
import { tryReadReportedShards } from './wait-for-shards.ts'

/**
 * Objects requested concurrently: a store needs some milliseconds for each response, local or
 * remote.
 */
const OBJECT_CONCURRENCY = 8

/**
 * Throws the first reason why this collection cannot be restored; returns its shard view if it
 * exists at the target.
 */
export async function checkCollection(
  item: RestoreItem,
  context: PreflightContext,
): Promise<ReportedShards | undefined> {
  const { source, name } = item
  const [, target] = await Promise.all([
    checkObjects(source, context),
    retryTransient(context, () => findCollection(name, context)),
  ])
  if (target !== undefined) checkSameSchema(name, source, target.live.config.params)
  const view = target && (await retryTransient(context, () => readReportedShards(name, context)))
  if (view === undefined) checkShardIds(item)
  const resolved = withTargetIds(item, view)
  // If the nodes disagree, the restore repairs that first and checks the shards afterwards.
  if (view !== undefined && findDisagreement(view) === undefined) {
    checkSameShards(name, resolved.source, view)
  }
  rejectPriority(resolved, view && replicasOnFirstNode(view), context)
  return view
}

/**
 * The collection at the target; undefined if there is none. Throws if the name is an alias: an
 * alias is not a collection, and no collection can be created under its name.
 */
export async function findCollection(
  name: string,
  context: PreflightContext,
): Promise<{ live: RestoreCollectionInfo } | undefined> {
  const { signal } = context.tools
  const [names, aliases] = await Promise.all([
    engineForPod(context, 0).collections(signal),
    collectionsForPod(context, 0).aliases(signal),
  ])
  if (names.includes(name)) {
    const live = await recoveryForPod(context, 0).collection(name, signal)
    return live && { live }
  }
  const alias = aliases.find(({ alias_name }) => alias_name === name)
  if (alias === undefined) return undefined
  throw new Rejected(
    `${name} is an alias of collection ${alias.collection_name} at the target: use collectionMapping`,
  )
}

/** The shards as all nodes report them; throws if a node does not respond. */
export async function readReportedShards(
  name: string,
  context: PreflightContext,
): Promise<ReportedShards> {
  const view = await tryReadReportedShards(name, context)
  if (typeof view === 'string') throw new EngineError(view)
  return view
}

/** Throws `Rejected` unless every snapshot is in the bucket with its size. */
export async function checkObjects(
  { snapshots }: RestoreItem['source'],
  context: Pick<PreflightContext, 'bucket' | 'tools'>,
): Promise<void> {
  const { bucket, tools } = context
  const groups = snapshots.map((snapshot) => [snapshot])
  await runGroupsConcurrently(groups, OBJECT_CONCURRENCY, async ({ key, sizeBytes }) => {
    const size = await bucket.size(key, tools.signal)
    if (size === sizeBytes) return
    const address = `s3://${bucket.name}/${key}`
    if (size === undefined) throw new Rejected(`${address} is missing`)
    throw new Rejected(`${address} has ${size} bytes, not the ${sizeBytes} of the manifest`)
  })
}

/** Settings that PATCH can change are not compared: config.ts sets them as in the backup. */
export function checkSameSchema(
  name: string,
  source: RestoreItem['source'],
  params: PlainObject,
): void {
  const [recorded, current] = [immutableParams(source.config.params), immutableParams(params)]
  for (const part of ['vectors', 'sparse_vectors', 'shard_number', 'sharding_method']) {
    const [expected, actual] = [
      recorded[part] ?? defaultValue(part),
      current[part] ?? defaultValue(part),
    ]
    if (isDeepStrictEqual(expected, actual)) continue
    const hint = part === 'shard_number' ? reshardedHint(expected) : ''
    const difference = `${JSON.stringify(actual)} instead of ${JSON.stringify(expected)}`
    throw new Rejected(
      `collection ${name} is at the target with other ${part} than in the backup: ${difference}${hint}`.slice(
        0,
        1024,
      ),
    )
  }
}

/** Its number of shards may have been changed since the backup. */
function reshardedHint(expected: unknown): string {
  return `: restore it under another name with spec.collectionMapping, delete the collection, or set spec.shardNumber of its VecCollection to ${String(expected)} and wait until it has them`
}

function immutableParams(params: PlainObject): PlainObject {
  return {
    ...params,
    vectors: vectorFields(params['vectors'], DENSE_FIELDS),
    sparse_vectors: vectorFields(params['sparse_vectors'], SPARSE_FIELDS),
  }
}

/** Fields of a dense vector that cannot be changed. */
const DENSE_FIELDS = ['size', 'distance', 'datatype', 'multivector_config']
/**
 * Of a sparse vector, only its name and `index.datatype`, the type of the stored values, cannot be
 * changed.
 */
const SPARSE_FIELDS = ['datatype']

/**
 * Vectors by name, reduced to some of their fields; an object with a numeric `size` is the single
 * unnamed vector.
 */
function vectorFields(vectors: unknown, fields: string[]): unknown {
  if (!isPlainObject(vectors)) return undefined
  if (typeof ownValue(vectors, 'size') === 'number') return pickFields(vectors, fields)
  const entries = Object.entries(vectors).map(([name, vector]) => [
    name,
    pickFields(ownValue(vector, 'index') ?? vector, fields),
  ])
  return Object.fromEntries(entries)
}

/** Null counts as absent. */
function pickFields(vector: unknown, fields: string[]): PlainObject {
  const entries = fields.flatMap((field) => {
    const value = ownValue(vector, field) ?? undefined
    return value === undefined ? [] : [[field, value]]
  })
  return Object.fromEntries(entries) as PlainObject
}

/** Default of an absent part. */
function defaultValue(field: string): unknown {
  return field === 'sharding_method' ? 'auto' : {}
}

/**
 * With other ids or keys, points would end up among those of another key: the engine accepts the
 * snapshot of another shard (docs/engine-notes.md, "Snapshots of a shard").
 */
function checkSameShards(
  name: string,
  { shards }: RestoreItem['source'],
  view: ReportedShards,
): void {
  const recorded = shards.map(({ shardId, shardKey }) => [shardId, shardKey ?? null])
  const current = [...replicasOnFirstNode(view).keys()].map((id) => [id, view.keys.get(id) ?? null])
  if (isDeepStrictEqual(recorded.sort(byId), current.sort(byId))) return
  throw new Rejected(
    `collection ${name} is at the target with other shards or shard keys than in the backup`,
  )
}

function byId([a]: unknown[], [b]: unknown[]): number {
  return Number(a) - Number(b)
}

/**
 * Priorities other than `snapshot` are harmless only if no other node holds a replica or will hold
 * one (docs/engine-notes.md, "Recovery of a collection").
 */
export function rejectPriority(
  item: RestoreItem,
  replicas: ReplicaStates | undefined,
  { priority, plan }: Pick<PreflightContext, 'priority' | 'plan'>,
): void {
  if (priority === 'snapshot' || plan.cluster.replicas === 1) return
  if (isSoleReplica(item, replicas)) return
  const reason =
    priority === 'replica'
      ? 'it stops the consensus of engines from 1.18 on for good'
      : 'it leaves copies that differ'
  throw new Rejected(
    `priority ${priority} is refused for collection ${item.source.name}: ${reason} where another node holds, or will hold, a copy; use snapshot`,
  )
}

/**
 * Whether each shard has at most one replica, on the node that takes its snapshot. A shard snapshot
 * goes to the node that holds the shard.
 */
function isSoleReplica(
  { method, source }: RestoreItem,
  replicas: ReplicaStates | undefined,
): boolean {
  return source.shards.every(({ shardId, nodes }) => {
    const holders = [...(replicas?.get(shardId)?.keys() ?? [])]
    if (method === 'Shard') return holders.length <= 1
    return nodes.length === 1 && isDeepStrictEqual(holders, nodes)
  })
}
