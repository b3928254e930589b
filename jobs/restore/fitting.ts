/**
 * What is looked at before anything is touched, collection by collection: the objects in the bucket, what
 * stands at the target under that name, and what the priority would do to it.
 */
import { isDeepStrictEqual } from 'node:util'
import { EngineError, Rejected } from '../../crds/errors.ts'
import { isPlain, own, type Plain } from '../../crds/rules/objects.ts'
import type { LiveCollection } from '../clients/engine-recovery-answers.ts'
import { inLanes } from '../lanes.ts'
import { patiently } from '../patience.ts'
import { look } from './settled.ts'
import { atTarget, refuseIds } from './shard-ids.ts'
import { disagreement, firstCopies, type Copies, type Sight } from './sight.ts'
import { collectionsOn, engineOn, recoveryOn, type Inspection } from './work.ts'
import type { Wanted } from './wanted.ts'

/** Objects that are asked for at a time: a store answers each after some milliseconds, near or far. */
const OBJECTS_AT_ONCE = 8

/**
 * Throws with the first reason why this collection cannot be restored; answers where its shards are at
 * the target, if it is there.
 */
export async function checkCollection(given: Wanted, work: Inspection): Promise<Sight | undefined> {
  const { source, name } = given
  const [, found] = await Promise.all([
    checkObjects(source, work),
    patiently(work, () => existing(name, work)),
  ])
  if (found !== undefined) checkSameShape(name, source, found.live)
  const sight = found && (await patiently(work, () => seen(name, work)))
  if (sight === undefined) refuseIds(given)
  const wanted = atTarget(given, sight)
  // Where nodes disagree, that is repaired first, and looked at then.
  if (sight !== undefined && disagreement(sight) === undefined) {
    checkSameShards(name, wanted.source, sight)
  }
  refusePriority(wanted, sight && firstCopies(sight), work)
  return sight
}

/** The collection at the target; undefined when there is none. An alias is none, and cannot become one. */
export async function existing(
  name: string,
  work: Inspection,
): Promise<{ live: LiveCollection } | undefined> {
  const { signal } = work.tools
  const [names, aliases] = await Promise.all([
    engineOn(work, 0).collections(signal),
    collectionsOn(work, 0).aliases(signal),
  ])
  if (names.includes(name)) {
    const live = await recoveryOn(work, 0).collection(name, signal)
    return live && { live }
  }
  const alias = aliases.find(({ alias_name }) => alias_name === name)
  if (alias === undefined) return undefined
  throw new Rejected(
    `${name} is an alias of collection ${alias.collection_name} at the target: use collectionMapping`,
  )
}

/** Where its shards are; throws where a node cannot be asked. */
export async function seen(name: string, work: Inspection): Promise<Sight> {
  const sight = await look(name, work)
  if (typeof sight === 'string') throw new EngineError(sight)
  return sight
}

async function checkObjects({ snapshots }: Wanted['source'], work: Inspection): Promise<void> {
  const { bucket, tools } = work
  const lanes = snapshots.map((snapshot) => [snapshot])
  await inLanes(lanes, OBJECTS_AT_ONCE, async ({ key, sizeBytes }) => {
    const size = await bucket.size(key, tools.signal)
    if (size === sizeBytes) return
    const address = `s3://${bucket.name}/${key}`
    if (size === undefined) throw new Rejected(`${address} is missing`)
    throw new Rejected(`${address} has ${size} bytes, not the ${sizeBytes} of the manifest`)
  })
}

/** What a PATCH can change is no obstacle: it is set as in the backup (config.ts). */
function checkSameShape(name: string, source: Wanted['source'], live: LiveCollection): void {
  const [recorded, found] = [fixedIn(source.config), fixedIn(live.config)]
  for (const part of ['vectors', 'sparse_vectors', 'shard_number', 'sharding_method']) {
    const [one, other] = [recorded[part] ?? initial(part), found[part] ?? initial(part)]
    if (isDeepStrictEqual(one, other)) continue
    throw new Rejected(
      `collection ${name} is at the target with other ${part} than in the backup: ${JSON.stringify(other)} instead of ${JSON.stringify(one)}`.slice(
        0,
        1024,
      ),
    )
  }
}

function fixedIn({ params }: LiveCollection['config']): Plain {
  return {
    ...params,
    vectors: eachVector(params['vectors'], DENSE),
    sparse_vectors: eachVector(params['sparse_vectors'], SPARSE),
  }
}

/** What of a dense vector cannot be changed. */
const DENSE = ['size', 'distance', 'datatype', 'multivector_config']
/** Of a sparse one, only its name; `index.datatype` is that of what it stores. */
const SPARSE = ['datatype']

/** By name, reduced to some of its fields; the one unnamed vector is an object with a number as `size`. */
function eachVector(vectors: unknown, fields: string[]): unknown {
  if (!isPlain(vectors)) return undefined
  if (typeof own(vectors, 'size') === 'number') return reduced(vectors, fields)
  const entries = Object.entries(vectors).map(([name, vector]) => [
    name,
    reduced(own(vector, 'index') ?? vector, fields),
  ])
  return Object.fromEntries(entries)
}

/** Null is as good as absent. */
function reduced(vector: unknown, fields: string[]): Plain {
  const entries = fields.flatMap((field) => {
    const value = own(vector, field) ?? undefined
    return value === undefined ? [] : [[field, value]]
  })
  return Object.fromEntries(entries) as Plain
}

/** What an absent part means. */
function initial(part: string): unknown {
  return part === 'sharding_method' ? 'auto' : {}
}

/** With other ids or keys, points would land among those of another key (facts 6.4). */
function checkSameShards(name: string, { shards }: Wanted['source'], sight: Sight): void {
  const recorded = shards.map(({ shardId, shardKey }) => [shardId, shardKey ?? null])
  const found = [...firstCopies(sight).keys()].map((id) => [id, sight.keys.get(id) ?? null])
  if (isDeepStrictEqual(recorded.sort(byId), found.sort(byId))) return
  throw new Rejected(
    `collection ${name} is at the target with other shards or shard keys than in the backup`,
  )
}

function byId([one]: unknown[], [other]: unknown[]): number {
  return Number(one) - Number(other)
}

/** Other priorities do no harm only where no other node holds a copy, or will hold one. */
export function refusePriority(
  wanted: Wanted,
  copies: Copies | undefined,
  { priority, plan }: Pick<Inspection, 'priority' | 'plan'>,
): void {
  if (priority === 'snapshot' || plan.cluster.replicas === 1) return
  if (isTakenAlone(wanted, copies)) return
  const why =
    priority === 'replica'
      ? 'it stops the consensus of engines from 1.18 on for good'
      : 'it leaves copies that differ'
  throw new Rejected(
    `priority ${priority} is refused for collection ${wanted.source.name}: ${why} where another node holds, or will hold, a copy; use snapshot`,
  )
}

/** Whether each shard has one copy at most, where its snapshot goes: a shard goes to the node that has it. */
function isTakenAlone({ method, source }: Wanted, copies: Copies | undefined): boolean {
  return source.shards.every(({ shardId, nodes }) => {
    const holders = [...(copies?.get(shardId)?.keys() ?? [])]
    if (method === 'Shard') return holders.length <= 1
    return nodes.length === 1 && isDeepStrictEqual(holders, nodes)
  })
}
