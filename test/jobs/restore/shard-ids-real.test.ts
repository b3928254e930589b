/**
 * Keys that came and went on a real engine, which ENGINE_BIN names: what is left has high ids of shards. It
 * comes back by either method, without a shard for each id that is no longer in use.
 */
import t, { type Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { systemClock } from '../../../jobs/clock.ts'
import { realSubject } from '../../contract/engine/real.ts'
import { startBucketServer } from '../../doubles/bucket/server.ts'
import { ask, readCollectionState } from './collection-state.ts'
import { restoreWorld } from './restore-world.ts'

const bin = process.env['ENGINE_BIN'] ?? ''
/** Ids of shards that keys had which are gone. */
const OLD = Number(process.env['OLD_SHARDS'] ?? 200)
const AT_ONCE = 20

if (bin === '') {
  t.pass('ENGINE_BIN names no engine: nothing to restore into', { skip: true })
} else {
  t.setTimeout(900_000)
  for (const method of ['Node', 'Shard'] as const) {
    t.test(`by ${method}: keys behind ${OLD} old ids`, async (t) => comesBack(t, method))
  }
}

interface Portrait {
  shards: { shard_id: number; shard_key?: string | number }[]
}

async function comesBack(t: Test, method: 'Node' | 'Shard') {
  const engine = await realSubject(bin, { size: 'three', service: {} }, { nodes: 2 })
  t.teardown(() => engine.close())
  const s3 = await startBucketServer()
  t.teardown(() => s3.close())
  const { urls } = engine
  const [url = ''] = urls
  await makeKeyed(url)
  const before = (await readCollectionState(urls, 'keyed')) as Portrait
  const last = Math.max(...before.shards.map(({ shard_id }) => shard_id))
  t.ok(last > OLD, `the highest id is ${last}`)
  const ports = urls.map((one) => Number(new URL(one).port))
  const world = await restoreWorld(t, { ports, endpoint: s3.url, method })
  const backup = await world.run({}, { time: systemClock })
  t.equal(backup.code, EXIT.done, backup.code === EXIT.done ? 'backed up' : backup.log)
  await ask(url, 'DELETE', '/collections/keyed?timeout=60')
  const begun = Date.now()
  const { code, log } = await (await world.restore()).run({ time: systemClock })
  t.equal(code, EXIT.done, code === EXIT.done ? 'restored' : log)
  t.comment(`restored in ${Date.now() - begun} ms`)
  const after = (await readCollectionState(urls, 'keyed')) as Portrait
  if (method === 'Node') t.strictSame(after, before)
  else {
    t.strictSame({ ...after, shards: [] }, { ...before, shards: [] })
    t.strictSame(byKey(after), [
      ['a', [2]],
      ['pair', [4, 5]],
      ['z', [1]],
    ])
  }
  // Written again, each point is where it was: none is there twice.
  await fill(url)
  t.strictSame(await readCollectionState(urls, 'keyed'), after)
  // A second time it is restored over.
  const again = await (await world.restore()).run({ time: systemClock })
  t.equal(again.code, EXIT.done, again.code === EXIT.done ? 'restored over' : again.log)
  t.strictSame(await readCollectionState(urls, 'keyed'), after)
}

function byKey({ shards }: Portrait): [string, number[]][] {
  const keys = Map.groupBy(shards, ({ shard_key }) => String(shard_key))
  return [...keys]
    .map(([key, all]): [string, number[]] => [key, all.map(({ shard_id }) => shard_id).sort()])
    .sort()
}

/** `z` gets the first id, `pair` two low ones, and `a` one behind all that are gone. */
async function makeKeyed(url: string) {
  await ask(url, 'PUT', '/collections/keyed?timeout=60', {
    vectors: { size: 2, distance: 'Dot' },
    sharding_method: 'custom',
    shard_number: 1,
    replication_factor: 1,
  })
  for (const [key, count] of [
    ['z', 1],
    ['old 0', 2],
    ['pair', 2],
  ] as const) {
    await create(url, key, count)
  }
  for (let skipped = 0, last = 'old 0'; skipped < OLD; skipped += AT_ONCE) {
    const key = `old ${skipped + 1}`
    await create(url, key, AT_ONCE)
    await drop(url, last)
    last = key
    if (skipped + AT_ONCE < OLD) continue
    await create(url, 'a', 1)
    await drop(url, last)
  }
  await fill(url)
}

async function fill(url: string) {
  for (const shard_key of ['z', 'pair', 'a']) {
    const points = Array.from({ length: 300 }, (_, id) => ({
      ...{ id, vector: [id, 1], payload: { of: shard_key } },
    }))
    await ask(url, 'PUT', '/collections/keyed/points?wait=true', { shard_key, points })
  }
}

function create(url: string, shard_key: string, shards_number: number) {
  return ask(url, 'PUT', '/collections/keyed/shards?timeout=60', { shard_key, shards_number })
}

function drop(url: string, shard_key: string) {
  return ask(url, 'POST', '/collections/keyed/shards/delete?timeout=60', { shard_key })
}
