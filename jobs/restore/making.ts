/**
 * The collection that snapshots are taken into: made at replication factor 1 as the backup recorded it,
 * with shard keys of the recorded ids and its payload indexes; or the one that is there, made ready.
 */
import { EngineError } from '../../crds/errors.ts'
import type { ShardKey } from '../../crds/manifest.ts'
import { recreateBody, recreateIndex } from '../../crds/rules/recreate.ts'
import { isPassing, patiently } from '../patience.ts'
import { untilIdle } from './attempts.ts'
import type { LiveCollection } from '../clients/engine-recovery-answers.ts'
import { alignConfig } from './config.ts'
import { lowerFactor } from './factor.ts'
import { existing } from './fitting.ts'
import { settled } from './settled.ts'
import { keyPlan, type KeyStep } from './shard-ids.ts'
import { firstCopies, type Sight } from './sight.ts'
import { collectionsOn, recoveryOn, type Work } from './work.ts'
import { bytesOf, type Wanted } from './wanted.ts'

/** Steps 1 to 4 of facts 6.4. What an earlier attempt had only begun to make is made anew. */
export async function makeReady(wanted: Wanted, work: Work, isOurs: boolean): Promise<void> {
  const { name } = wanted
  const { log } = work.tools
  if (isOurs) {
    log.info({ collection: name }, 'removes what an earlier attempt began to make')
    // A deletion waits for a recovery that runs, and every other change of the cluster for the deletion.
    await untilIdle(wanted, work)
    await patiently(work, () => collectionsOn(work, 0).deleteCollection(name, work.tools.signal))
  }
  const found = await patiently(work, () => existing(name, work))
  if (found === undefined) await make(wanted, work)
  else await prepare(wanted, found.live, work)
  await buildIndexes(wanted, work)
  refuseOtherShards(wanted, await settled(name, work))
}

/** Every recorded shard is there under its id and key, or nothing may be recovered. */
export function refuseOtherShards({ source, name }: Wanted, sight: Sight): void {
  const copies = firstCopies(sight)
  for (const { shardId, shardKey } of source.shards) {
    if (copies.has(shardId) && sight.keys.get(shardId) === shardKey) continue
    throw new EngineError(`collection ${name} was made without shard ${shardId} of the backup`)
  }
  const more = [...copies.keys()].filter(
    (id) => !source.shards.some(({ shardId }) => shardId === id),
  )
  if (more.length > 0) {
    throw new EngineError(
      `collection ${name} has shards that the backup has not: ${more.join(', ')}`,
    )
  }
}

async function make(wanted: Wanted, work: Work): Promise<void> {
  const { source, name } = wanted
  const { signal, log } = work.tools
  await work.tally.begun()
  log.info({ collection: name }, `makes collection ${name} with one copy of each shard`)
  const body = recreateBody(source.config, { replication_factor: 1 })
  await agreed(
    work,
    () => collectionsOn(work, 0).createCollection(name, body, signal),
    async () => (await existing(name, work)) !== undefined,
  )
  for (const step of keyPlan(wanted).steps) await takeStep(name, step, work)
}

async function takeStep(name: string, step: KeyStep, work: Work): Promise<void> {
  const { signal } = work.tools
  const engine = recoveryOn(work, 0)
  const isThere = async (key: ShardKey) => (await keysOf(name, work)).has(key)
  if ('drop' in step) {
    const { drop: key } = step
    work.tally.tell()
    await agreed(
      work,
      () => engine.deleteShardKey(name, key, signal),
      async () => !(await isThere(key)),
    )
    await work.tally.told()
    return
  }
  const { create: key, shards } = step
  await agreed(
    work,
    () => engine.createShardKey(name, { key, shards }, signal),
    () => isThere(key),
  )
}

async function keysOf(name: string, work: Work): Promise<Set<string | number>> {
  const placement = await recoveryOn(work, 0).placement(name, work.tools.signal)
  const shards = [...placement.local_shards, ...placement.remote_shards]
  return new Set(shards.flatMap(({ shard_key }) => (shard_key == null ? [] : [shard_key])))
}

/** One that is there gets the configuration of the backup, and one copy of each shard for now. */
async function prepare(wanted: Wanted, live: LiveCollection, work: Work): Promise<void> {
  const { name } = wanted
  const factor = Number(live.config.params['replication_factor'] ?? 1)
  const fields = { collection: name, factor }
  work.tools.log.info(fields, `collection ${name} is there: it is restored over`)
  await lowerFactor(name, work.factors.get(name) ?? factor, work)
  await alignConfig(wanted, live, work)
}

/** The engine shows the indexes of a snapshot, but knows only those that it was told of. */
async function buildIndexes({ name, source }: Wanted, work: Work): Promise<void> {
  // What is restored over may be as large as the backup, or larger.
  const bytes = bytesOf(source)
  for (const [field, index] of Object.entries(source.payloadIndexes)) {
    const { dataType, params } = index
    const body = recreateIndex(field, { dataType, ...(params !== undefined && { params }) })
    await patiently(work, () =>
      recoveryOn(work, 0).buildIndex(name, { body, bytes }, work.tools.signal),
    )
  }
}

/** A change that may have been made although the call failed: that is looked at before it is repeated. */
async function agreed(
  work: Work,
  change: () => Promise<void>,
  isMade: () => Promise<boolean>,
): Promise<void> {
  await patiently(work, async () => {
    try {
      await change()
    } catch (error) {
      if (!(error instanceof EngineError)) throw error
      const mayBeMade = [400, 409].includes(error.status ?? 0) || isPassing(error)
      if (!mayBeMade || !(await isMade())) throw error
    }
  })
}
