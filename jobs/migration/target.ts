/**
 * The target collection: made from the configuration of the source, with shard keys, payload indexes
 * and read fan-out, or checked before the first batch when it is there.
 */
import { EngineError, Rejected } from '../../crds/errors.ts'
import type { ShardKey } from '../../crds/manifest.ts'
import type { MigrationPosition } from '../../crds/migration-command.ts'
import type { CollectionConfig, CollectionInfo } from '../../crds/rules/answers.ts'
import type { Plain } from '../../crds/rules/objects.ts'
import { fanOutBody, recreateBody, recreateIndex } from '../../crds/rules/recreate.ts'
import { methodOf, misfits } from './fit.ts'
import { thresholdToHold, withoutIndexing } from './held-back.ts'
import { paced } from './pace.ts'
import type { Shape } from './shape.ts'
import { targetNameOf, type Work } from './work.ts'

/**
 * Makes the target ready for points and answers with where to begin. `earlier` is where a pod before
 * this one stood.
 */
export async function prepareTarget(
  shape: Shape,
  earlier: MigrationPosition | undefined,
  work: Work,
): Promise<MigrationPosition> {
  const { order, tally } = work
  const name = targetNameOf(shape.name, order)
  await refuseAlias(name, work)
  const live = await liveTarget(name, work)
  if (live === undefined && !order.createMissing) {
    throw new Rejected(`Collection missing on target and createMissing is false: ${name}`)
  }
  if (live !== undefined) refuseMisfit(name, shape, live)
  const begin: MigrationPosition = { collection: shape.name, isOurs: true, before: 0, copied: 0 }
  if (live === undefined || earlier?.isOurs === true) {
    // One that is gone is created again, and then nothing of it is copied yet.
    const position = live === undefined ? newPosition(begin, shape, work) : (earlier ?? begin)
    tally.begin(position)
    // Whoever comes after this pod must know what is to be put back before it is changed.
    await tally.noted()
    await makeTarget(name, { shape, live, position }, work)
    return position
  }
  await addShardKeys(name, shape, work)
  if (earlier !== undefined) return earlier
  const position = { ...begin, isOurs: false, before: await pointsBefore(live, name, work) }
  tally.begin(position)
  await tally.noted()
  return position
}

function newPosition(begin: MigrationPosition, { info }: Shape, work: Work): MigrationPosition {
  const indexingThreshold = thresholdToHold(info.config, work)
  return { ...begin, ...(indexingThreshold !== undefined && { indexingThreshold }) }
}

/** 0 where there is none at all; otherwise about as many as there are. */
async function pointsBefore(live: CollectionInfo, name: string, work: Work): Promise<number> {
  const { target, tools } = work
  const wanted = { limit: 1, bare: true } as const
  const first = await paced(work, () => target.points.scroll(name, wanted, tools.signal))
  return first.count === 0 ? 0 : Math.max(1, live.points_count ?? 1)
}

async function liveTarget(name: string, work: Work): Promise<CollectionInfo | undefined> {
  const { target, tools } = work
  return paced(work, () => target.collections.collectionInfo(name, tools.signal))
}

/** An alias would be followed, to a collection nobody named. */
async function refuseAlias(name: string, work: Work): Promise<void> {
  const { target, tools } = work
  const aliases = await paced(work, () => target.collections.aliases(tools.signal))
  const alias = aliases.find(({ alias_name }) => alias_name === name)
  if (alias === undefined) return
  throw new Rejected(`${name} is an alias of ${alias.collection_name} on the target`)
}

function refuseMisfit(name: string, shape: Shape, live: CollectionInfo): void {
  const reasons = misfits(shape.info.config.params, live.config.params)
  if (reasons.length === 0) return
  throw new Rejected(
    `the target collection ${name} does not fit: ${reasons.join('; ')} (use collectionMapping or drop it)`,
  )
}

interface Making {
  shape: Shape
  live: CollectionInfo | undefined
  position: MigrationPosition
}

/** Each step may be repeated. */
async function makeTarget(
  name: string,
  { shape, live, position }: Making,
  work: Work,
): Promise<void> {
  const { target, tools } = work
  const { collections } = target
  const { config } = shape.info
  const made = position.indexingThreshold === undefined ? config : withoutIndexing(config)
  if (live === undefined) await createTarget(name, made, work)
  await addShardKeys(name, shape, work)
  const fanOut = fanOutBody(shape.info.config)
  if (fanOut !== undefined) {
    await paced(work, () => collections.patchCollection(name, fanOut, tools.signal))
  }
  for (const [field, { data_type: dataType, params }] of Object.entries(
    shape.info.payload_schema,
  )) {
    const body = recreateIndex(field, { dataType, ...(params != null && { params }) })
    await paced(work, () => collections.putIndex(name, body, tools.signal))
  }
}

async function createTarget(name: string, config: CollectionConfig, work: Work): Promise<void> {
  const { order, target, tools } = work
  const { params } = config
  // Under custom sharding it is the number of shards of each key.
  const ofSource = methodOf(params) === 'custom' ? params['shard_number'] : undefined
  const { shardNumber = ofSource, replicationFactor, writeConsistencyFactor } = order.target ?? {}
  const wished: Plain = {
    shard_number: shardNumber,
    replication_factor: replicationFactor,
    write_consistency_factor: writeConsistencyFactor,
  }
  const body = recreateBody(config, wished)
  tools.log.info({ collection: name }, `creates collection ${name} as it is at the source`)
  await paced(work, async () => {
    try {
      await target.collections.createCollection(name, body, tools.signal)
    } catch (error) {
      // It was made by the call whose answer was lost.
      if (!(error instanceof EngineError) || error.status !== 409) throw error
    }
  })
}

/** Makes those that the target lacks. */
export async function addShardKeys(name: string, { keys }: Shape, work: Work): Promise<void> {
  if (keys.length === 0) return
  const { order, target, tools } = work
  const there = await paced(work, () => target.points.shardKeys(name, tools.signal))
  const missing = keys.filter(({ key }) => !there.some((other) => other.key === key))
  if (missing.length > 0 && !order.createMissing) {
    throw new Rejected(
      `Collection missing on target and createMissing is false: ${name} has no shard key ${names(missing)}`,
    )
  }
  for (const { key, shards } of missing) {
    const wanted = {
      key,
      shards: order.target?.shardNumber ?? shards,
      copies: order.target?.replicationFactor,
    }
    await paced(work, () => target.recovery.createShardKey(name, wanted, tools.signal))
  }
}

function names(keys: readonly { key: ShardKey }[]): string {
  return keys.map(({ key }) => JSON.stringify(key)).join(', ')
}
