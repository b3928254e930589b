/** Partitions of `migration run`: which are read concurrently, and how each resumes. */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import type { MigrationCheckpoint } from '../../../crds/contract/migration-job.ts'
import { ANNOTATIONS, API_VERSION } from '../../../crds/contract/names.ts'
import type { EngineRequest } from '../../doubles/engine/answers.ts'
import { integerText } from '../../doubles/engine/json.ts'
import { TOO_MANY } from '../../doubles/engine/misbehaviour.ts'
import { matchWhole } from '../../match-whole.ts'
import { instantClock, laterClock } from '../job-world.ts'
import {
  SMALL,
  createCollection,
  isScroll,
  isUpsert,
  manyPoints,
  mixedPoints,
  startEnginePair,
  type EnginePair,
  runToDone,
} from './engine-pair.ts'

/** Enough for every lane there may be, in pages of ten. */
const MANY = 720
const SPEC = { batchSize: 10 }
const MAX_PARTITIONS = 4

/** The most concurrent calls of an endpoint; each takes this long. */
function watched(node: EnginePair['source']['node'], isMeant: typeof isScroll, delayMs: number) {
  const seen = { now: 0, most: 0, calls: 0, keys: new Set<unknown>(), keysAtOnce: 0 }
  const under = new Map<unknown, number>()
  node.misbehave((request) => {
    if (!isMeant(request)) return undefined
    const { shard_key: key } = (request.body ?? {}) as { shard_key?: unknown }
    seen.calls += 1
    seen.most = Math.max(seen.most, (seen.now += 1))
    under.set(key, (under.get(key) ?? 0) + 1)
    seen.keysAtOnce = Math.max(seen.keysAtOnce, [...under.values()].filter((n) => n > 0).length)
    // Over before it is answered: the next one may come at once.
    const until = sleep(delayMs).then(() => {
      seen.now -= 1
      under.set(key, (under.get(key) ?? 0) - 1)
    })
    return { until }
  })
  return seen
}

/** Points in all bodies of upserts. */
function pointsOf(requests: readonly EngineRequest[]): number {
  return requests.reduce((sum, { body }) => sum + (body as { points: unknown[] }).points.length, 0)
}

t.test('ids are read in several ranges at once, within a bound, and none twice', async (t) => {
  const { source, target, world } = await startEnginePair(t, { spec: SPEC })
  await createCollection(source, 'docs', mixedPoints(MANY))
  const reads = watched(source.node, isScroll, 40)
  const upserts: EngineRequest[] = []
  let writing = 0
  let mostWrites = 0
  target.node.misbehave((request) => {
    if (!isUpsert(request)) return undefined
    upserts.push(request)
    mostWrites = Math.max(mostWrites, (writing += 1))
    return { until: sleep(5).then(() => (writing -= 1)) }
  })
  await runToDone(t, world)
  t.equal(reads.most, MAX_PARTITIONS)
  t.equal(mostWrites, 2, 'what is written at once is bounded for all together')
  t.equal(pointsOf(upserts), MANY)
  t.equal(await target.points('docs'), await source.points('docs'))
  matchWhole(t, await world.result(), {
    pointsCopied: MANY,
    collections: [{ proof: new RegExp(`^${MANY} points on both sides, each equal;`) }],
  })
})

async function withKeys(side: EnginePair['source'], keys: (string | number)[], points: number) {
  await createCollection(side, 'docs', [], { ...SMALL, sharding_method: 'custom', shard_number: 1 })
  for (const key of keys) {
    await side.call('PUT', '/collections/docs/shards', { shard_key: key, shards_number: 1 })
    const body = { points: manyPoints(points), shard_key: key }
    await side.call('PUT', '/collections/docs/points', body)
  }
}

t.test('pages are scrolled per shard key, several keys at once within the bound', async (t) => {
  const { source, target, world } = await startEnginePair(t, { spec: SPEC })
  const keys = ['a', 'b', 'c', 'd', 7, '7']
  await withKeys(source, keys, 40)
  const reads = watched(source.node, isScroll, 40)
  await runToDone(t, world)
  t.equal(reads.keysAtOnce, MAX_PARTITIONS)
  t.equal(reads.most, MAX_PARTITIONS)
  for (const key of keys) {
    t.equal(await target.points('docs', key), await source.points('docs', key), String(key))
  }
})

t.test('fewer shard keys than lanes are each read in ranges of their ids', async (t) => {
  const { source, target, world } = await startEnginePair(t, { spec: SPEC })
  await withKeys(source, ['a', 'b'], MANY)
  const reads = watched(source.node, isScroll, 40)
  await runToDone(t, world)
  t.equal(reads.most, MAX_PARTITIONS)
  t.equal(reads.keysAtOnce, 2)
  t.match(await world.result(), { pointsCopied: 2 * MANY })
  for (const key of ['a', 'b']) {
    t.equal(await target.points('docs', key), await source.points('docs', key))
  }
})

/** A second for each upsert, so that each report is due; the pod is ended at one of them. */
async function endedAt(
  { target, world }: EnginePair,
  upsert: number,
): Promise<MigrationCheckpoint> {
  const stop = new AbortController()
  let upserts = 0
  target.node.misbehave((request) => {
    upserts += isUpsert(request) ? 1 : 0
    if (upserts === upsert) stop.abort(new Error('SIGTERM'))
    return undefined
  })
  const time = laterClock(() => 1000 * upserts)
  await world.run({ time, signal: stop.signal })
  target.node.misbehave()
  const { position } = await world.result()
  if (position === undefined) throw new Error('nothing was reported')
  return position
}

/** What the next pod copies: which pages it reads until it compares, and how many points it writes. */
async function goneOnWith({ source, target, world }: EnginePair) {
  const asked = new Set<string>()
  const upserts: EngineRequest[] = []
  let isComparing = false
  source.node.misbehave((request) => {
    if (!isScroll(request) || isComparing) return undefined
    const { offset, shard_key: key } = request.body as { offset?: unknown; shard_key?: unknown }
    const id = integerText(offset) ?? (offset === undefined ? 'start' : JSON.stringify(offset))
    asked.add(`${String(key)} ${id}`)
    return undefined
  })
  target.node.misbehave((request) => {
    if (isUpsert(request)) upserts.push(request)
    isComparing ||= isScroll(request)
    return undefined
  })
  const { code, log } = await world.run({ pod: 'pod-2' })
  source.node.misbehave()
  target.node.misbehave()
  return { code, log, asked: [...asked], upserts: pointsOf(upserts) }
}

t.test('a killed Job continues in every lane where it was', async (t) => {
  const scene = await startEnginePair(t, { spec: SPEC })
  const { source, target, world } = scene
  await createCollection(source, 'docs', mixedPoints(MANY))
  const { lanes = [], copied } = await endedAt(scene, 50)
  t.equal(lanes.length, MAX_PARTITIONS)
  t.ok(copied > 100 && copied < MANY, `${copied} points are reported`)
  const { code, log, asked, upserts } = await goneOnWith(scene)
  t.equal(code, EXIT.done, log)
  t.strictSame(
    asked.slice(0, MAX_PARTITIONS).toSorted(),
    lanes.map(({ offset }) => `undefined ${String(offset)}`).toSorted(),
  )
  t.equal(upserts, MANY - copied, 'reported points are not copied again')
  t.match(await world.result(), { pointsCopied: MANY })
  t.equal(await target.points('docs'), await source.points('docs'))
})

t.test('the report of a hundred shard keys stays small', async (t) => {
  const scene = await startEnginePair(t, { spec: SPEC })
  const { source, target } = scene
  const keys = Array.from({ length: 100 }, (_, n) => `tenant-${String(n).padStart(3, '0')}`)
  await withKeys(source, keys, 2)
  const position = await endedAt(scene, 70)
  t.ok(JSON.stringify(position).length < 512, JSON.stringify(position))
  t.match(position, { begun: /^tenant-/ })
  const { code, log, upserts } = await goneOnWith(scene)
  t.equal(code, EXIT.done, log)
  t.equal(upserts, 200 - position.copied, 'keys at their end are not copied again')
  const last = keys.at(-1)
  t.equal(await target.points('docs', last), await source.points('docs', last))
})

/** A report as a release wrote it that copied key by key. */
async function reported(
  { world }: EnginePair,
  position: Partial<MigrationCheckpoint>,
): Promise<void> {
  const stood = { collection: 'docs', isOurs: true, before: 0, copied: 30, ...position }
  const progress = {
    ...{ uid: world.plan.uid, verb: 'run', run: 1, job: 'job-1', runner: 'pod-0', plan: 'hash-1' },
    ...{ at: '2030-01-01T00:00:00Z', startedAt: '2030-01-01T00:00:00Z', state: 'Started' },
    migration: {
      ...{ startedAt: '2030-01-01T00:00:00Z', total: 1, completed: 0, failed: 0 },
      ...{ pointsTotal: 60, pointsCopied: 30, collections: [], position: stood },
      unlisted: { completed: 0, failed: 0, pending: 0 },
    },
  }
  const metadata = { annotations: { [ANNOTATIONS.progress]: JSON.stringify(progress) } }
  const reference = { apiVersion: API_VERSION, kind: 'VecMigration', namespace: 'ns', name: 'm' }
  await world.api.patch(reference, { metadata })
}

t.test('a Job resumes from a report of an older form', async (t) => {
  const plain = await startEnginePair(t, { spec: SPEC })
  await createCollection(plain.source, 'docs', manyPoints(60))
  await createCollection(plain.target, 'docs', manyPoints(30))
  await reported(plain, { offset: '31' })
  const all = await goneOnWith(plain)
  t.equal(all.code, EXIT.done, all.log)
  t.equal(all.asked[0], 'undefined 31')
  t.equal(all.upserts, 30)

  const keyed = await startEnginePair(t, { spec: SPEC })
  for (const side of [keyed.source, keyed.target]) await withKeys(side, ['a', 'b', 'c'], 20)
  await reported(keyed, { shardKey: 'b', offset: '11' })
  const rest = await goneOnWith(keyed)
  t.equal(rest.code, EXIT.done, rest.log)
  t.strictSame(rest.asked.slice(0, 2), ['b 11', 'c start'])
  t.equal(rest.upserts, 30)
})

t.test('a limited rate fails no partition, and every point is copied', async (t) => {
  const { source, target, world } = await startEnginePair(t, { spec: SPEC })
  await createCollection(source, 'docs', mixedPoints(MANY))
  let calls = 0
  source.node.misbehave((request) =>
    isScroll(request) && (calls += 1) % 3 === 1 ? TOO_MANY : undefined,
  )
  await runToDone(t, world, { time: instantClock() })
  source.node.misbehave()
  t.equal(await target.points('docs'), await source.points('docs'))
})

t.test('a failure of one partition ends the others', async (t) => {
  const { source, target, world } = await startEnginePair(t, { spec: SPEC })
  await createCollection(source, 'docs', mixedPoints(MANY))
  let reads = 0
  source.node.misbehave((request) => {
    if (!isScroll(request) || (reads += 1) !== 20) return undefined
    return { status: 403, body: '{"status":{"error":"Forbidden"},"time":0}' }
  })
  t.equal((await world.run()).code, EXIT.failed)
  t.match((await world.result()).error, /points\/scroll.* answered 403: Forbidden/)
  t.ok(reads < 30, `${reads} pages`)
  t.ok((target.engine.find('docs')?.points.length ?? 0) < MANY / 2)
})

t.test('an id at which two ranges meet may be deleted meanwhile', async (t) => {
  const { source, target, world } = await startEnginePair(t, { spec: SPEC })
  await createCollection(source, 'docs', manyPoints(MANY))
  source.node.misbehave((request) => {
    const docs = source.engine.find('docs')
    if (isScroll(request) && docs !== undefined) {
      docs.points = docs.points.filter(({ id }) => Number(integerText(id)) % 10 === 0)
    }
    return undefined
  })
  await runToDone(t, world)
  t.equal(await target.points('docs'), await source.points('docs'))
  t.match(await world.result(), { pointsCopied: MANY / 10 })
})
