/**
 * A backup by shard of a real engine of three nodes, which ENGINE_BIN names, taken while it is written
 * to, and restored into one, two, five and three nodes: compared point by point on each node.
 */
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import type { RestoreSpec } from '../../../crds/restore.ts'
import { systemClock } from '../../../jobs/clock.ts'
import { realSubject } from '../../contract/engine/real.ts'
import { startBucketServer, type BucketServer } from '../../doubles/bucket/server.ts'
import { NAMES, fill } from './collections.ts'
import { ask, placement, readCollectionState } from './collection-state.ts'
import { restoreWorld, type RestoreWorld } from './restore-world.ts'
import { Writer } from './writer.ts'

const bin = process.env['ENGINE_BIN']
const real = { time: systemClock }
const ALL = [...NAMES, 'tenants']

if (bin === undefined) {
  t.pass('ENGINE_BIN names no engine: nothing to restore into', { skip: true })
} else {
  t.setTimeout(1_800_000)
  t.test('a backup of three nodes', { timeout: 1_780_000 }, async (t) => examine(t, bin))
}

interface Source {
  s3: BucketServer
  /** uid of the backup. */
  uid: string
  /** Each collection as one of the nodes reported it. */
  before: Map<string, object>
  writer: Writer
}

async function examine(t: Test, bin: string) {
  const s3 = await startBucketServer()
  t.teardown(() => s3.close())
  const source = await backedUp(t, bin, s3)
  const targets: [number, Partial<RestoreSpec>][] = [
    [1, {}],
    [2, {}],
    [5, { replicationFactor: 3 }],
    [3, {}],
  ]
  for (const [nodes, spec] of targets) {
    await t.test(`into ${nodes} nodes ${JSON.stringify(spec)}`, async (t) => {
      const engine = await realSubject(bin, { size: 'three', service: {} }, { nodes })
      t.teardown(() => engine.close())
      const world = await worldOf(t, engine.urls, s3)
      await comesBack(t, { ...source, urls: engine.urls, world, spec })
      if (nodes === 2) await goesOn(t, { ...source, urls: engine.urls, world, spec })
      if (nodes === 3) await isSent(t, { ...source, urls: engine.urls, world, spec })
    })
  }
  await t.test('into a node that runs alone', async (t) => {
    const engine = await realSubject(bin, { size: 'alone', service: {} })
    t.teardown(() => engine.close())
    const world = await worldOf(t, engine.urls, s3)
    const spec = { collections: ['auto', 'my docs%', 'empty'] }
    await comesBack(t, { ...source, urls: engine.urls, world, spec })
  })
}

function worldOf(t: Test, urls: string[], s3: BucketServer): Promise<RestoreWorld> {
  const ports = urls.map((url) => Number(new URL(url).port))
  return restoreWorld(t, { ports, endpoint: s3.url, method: 'Shard' })
}

/** One collection is written to all the time; the others are unchanged. */
async function backedUp(t: Test, bin: string, s3: BucketServer): Promise<Source> {
  const engine = await realSubject(bin, { size: 'three', service: {} })
  try {
    const { urls } = engine
    await fill(urls)
    await fillTenants(urls)
    const writer = await Writer.create(urls[1] ?? '', 'busy')
    const world = await worldOf(t, urls, s3)
    writer.start()
    const { code, log } = await world.run({}, real)
    await writer.stop()
    t.equal(code, EXIT.done, code === EXIT.done ? 'backed up' : log)
    const before = new Map<string, object>()
    for (const name of ALL) before.set(name, await readCollectionState(urls.slice(0, 1), name))
    return { s3, uid: world.uid, before, writer }
  } finally {
    await engine.close()
  }
}

interface Target extends Source {
  urls: string[]
  world: RestoreWorld
  spec: Partial<RestoreSpec>
}

async function comesBack(t: Test, target: Target) {
  const { urls, spec, writer } = target
  const restore = await restoreOf(target)
  const { code, log } = await restore.run(real)
  t.equal(code, EXIT.done, code === EXIT.done ? 'restored' : log)
  for (const name of spec.collections ?? ALL) await isSame(t, target, name)
  if (spec.collections === undefined) await writer.compare(t, urls)
  t.notMatch(log, /X-Amz-Signature|secretsecret/)
}

function restoreOf({ world, spec, uid }: Target) {
  return world.restore(spec, { backup: { name: 'b', uid } })
}

/** A killed Job leaves the restored shards. */
async function goesOn(t: Test, target: Target) {
  const { urls, world, s3, uid } = target
  await ask(urls[0] ?? '', 'DELETE', '/collections/auto?timeout=60')
  const restore = await world.restore({ collections: ['auto'] }, { backup: { name: 'b', uid } })
  const fetched: string[] = []
  const third = Promise.withResolvers<undefined>()
  const hold = Promise.withResolvers<undefined>()
  s3.misbehave(({ operation, key }) => {
    if (operation !== 'GetObject' || !key.endsWith('.snapshot')) return undefined
    fetched.push(key)
    if (fetched.length < 3) return undefined
    third.resolve(undefined)
    return { after: hold.promise }
  })
  const { child } = restore.start()
  await third.promise
  child.kill('SIGKILL')
  await once(child, 'close')
  s3.misbehave()
  hold.resolve(undefined)
  const done = (await restore.result()).current?.shardsDone ?? []
  s3.calls.length = 0
  const { code, log } = await restore.run({ ...real, pod: 'pod-2' })
  t.equal(code, EXIT.done, code === EXIT.done ? 'resumed' : log)
  await isSame(t, target, 'auto')
  const again = s3.calls.filter(
    ({ operation, key }) =>
      operation === 'GetObject' && done.some((id) => key.includes(`/shard-${id}/`)),
  )
  t.ok(done.length > 0, 'some were restored')
  t.strictSame(again, [], 'completed work is not repeated')
}

/** Rejects reads by presigned address. */
async function isSent(t: Test, target: Target) {
  const { urls, s3 } = target
  for (const name of [...ALL, 'busy']) {
    await ask(urls[0] ?? '', 'DELETE', `/collections/${encodeURIComponent(name)}?timeout=60`)
  }
  s3.misbehave(({ query }) =>
    query.has('X-Amz-Signature') ? { status: 403, code: 'AccessDenied' } : undefined,
  )
  await comesBack(t, target)
  s3.misbehave()
}

/** Except for the replication factor, which the number of target nodes or the spec decides. */
async function isSame(t: Test, { urls, before, spec }: Target, name: string) {
  const expected = structuredClone(before.get(name)) as Portrait
  const recorded = expected.config.params.replication_factor
  const factor = Math.min(spec.replicationFactor ?? recorded, urls.length)
  expected.config.params.replication_factor = factor
  for (const [node, url] of urls.entries()) {
    const found = (await readCollectionState([url], name)) as Portrait
    t.strictSame(withoutIds(found), withoutIds(expected), `${name} on node ${node}`)
  }
  const copies = await placement(urls, name)
  const [first = []] = copies
  for (const view of copies) t.strictSame(view, first, 'the nodes agree on every copy')
  t.equal(first.length, factor * expected.shards.length, `${factor} copies of each shard`)
}

interface Portrait {
  config: { params: { replication_factor: number } }
  shards: { shard_key?: string | number }[]
}

/** A shard that has a key may have another id than in the backup, so the keys may be in another order. */
function withoutIds(found: Portrait): Portrait {
  const shards = found.shards.map((shard) =>
    shard.shard_key === undefined ? shard : { shard_key: shard.shard_key },
  )
  const byKey = ({ shard_key: key }: Portrait['shards'][number]) => JSON.stringify(key ?? null)
  return {
    ...found,
    shards: shards.toSorted((one, other) => byKey(one).localeCompare(byKey(other))),
  }
}

/** Custom sharding with one copy of each shard. */
async function fillTenants([url = '']: string[]) {
  await ask(url, 'PUT', '/collections/tenants?timeout=60', {
    vectors: { size: 2, distance: 'Dot' },
    sharding_method: 'custom',
    shard_number: 2,
    replication_factor: 1,
  })
  for (const shard_key of ['x', 3]) {
    await ask(url, 'PUT', '/collections/tenants/shards?timeout=60', { shard_key })
    const points = Array.from({ length: 400 }, (_, id) => ({
      ...{ id, vector: [id, 1], payload: { of: shard_key, id } },
    }))
    await ask(url, 'PUT', '/collections/tenants/points?wait=true', { shard_key, points })
  }
}
