/** Bytes of `migration run` in memory: bounded over all lanes together, whatever the size of the points. */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { ByteBudget, MAX_BUFFERED_BYTES, PageSizer } from '../../../jobs/migration/page-reader.ts'
import {
  createCollection,
  SMALL,
  startEnginePair,
  type TestEngine,
  runToDone,
} from './engine-pair.ts'

const MIB = 1024 * 1024
const never = new AbortController().signal

t.test(
  'a request larger than the budget is granted alone, and later requests wait behind it',
  async (t) => {
    const inFlight = new ByteBudget()
    const entered: string[] = []
    const small = await inFlight.acquire(MIB, never)
    const large = inFlight
      .acquire(2 * MAX_BUFFERED_BYTES, never)
      .finally(() => entered.push('large'))
    const behind = inFlight.acquire(MIB, never).finally(() => entered.push('behind'))
    small.resize(MIB / 2)
    await Promise.resolve()
    t.strictSame(entered, [])
    small.release()
    const alone = await large
    t.strictSame(entered, ['large'])
    alone.resize(MIB)
    await behind
    t.strictSame(entered, ['large', 'behind'])
  },
)

t.test('at most 40 MiB are admitted at once', async (t) => {
  const inFlight = new ByteBudget()
  const taken = []
  for (let number = 0; number < 40; number += 1) taken.push(await inFlight.acquire(MIB, never))
  let isIn = false
  const waiting = inFlight.acquire(1, never).then(() => (isIn = true))
  await new Promise((resolve) => setImmediate(resolve))
  t.equal(isIn, false)
  taken[0]?.release()
  await waiting
  t.equal(isIn, true)
})

t.test('a wait for the budget ends with the Job', async (t) => {
  const inFlight = new ByteBudget()
  const stop = new AbortController()
  await inFlight.acquire(MAX_BUFFERED_BYTES, stop.signal)
  const waiting = inFlight.acquire(1, stop.signal)
  stop.abort(new Error('SIGTERM'))
  await t.rejects(waiting, { message: 'SIGTERM' })
  await t.rejects(inFlight.acquire(1, stop.signal), { message: 'SIGTERM' })
})

t.test(
  'a page that is too large is asked for with fewer points, one point with a larger budget',
  async (t) => {
    const size = new PageSizer(8)
    size.observe({ points: [], bytes: 10, count: 1 })
    const { limit } = size
    t.equal(limit, 4)
    t.ok(size.onTooLarge({ limit, byteLimit: size.byteLimit }))
    t.ok(size.onTooLarge({ limit, byteLimit: size.byteLimit }), 'in another lane')
    t.equal(size.limit, 2)
    t.ok(size.onTooLarge({ limit: 1, byteLimit: size.byteLimit }))
    t.equal(size.byteLimit, MAX_BUFFERED_BYTES)
    t.notOk(size.onTooLarge({ limit: 1, byteLimit: size.byteLimit }), 'there is nothing smaller')
  },
)

const KEYS = ['a', 'b', 'c', 'd']
const POINTS_OF_KEY = 2

async function withLargePoints(side: TestEngine, bytes: number): Promise<void> {
  await createCollection(side, 'docs', [], { ...SMALL, sharding_method: 'custom', shard_number: 1 })
  for (const shard_key of KEYS) {
    await side.call('PUT', '/collections/docs/shards', { shard_key, shards_number: 1 })
    for (let id = 0; id < POINTS_OF_KEY; id += 1) {
      const points = [{ id, vector: [1.5, id], payload: { text: 'x'.repeat(bytes) } }]
      await side.call('PUT', '/collections/docs/points?wait=true', { points, shard_key })
    }
  }
}

/** Pages that were asked for and are not written yet, at most; and those read at once to be compared. */
function watched({ source, target }: Awaited<ReturnType<typeof startEnginePair>>, delayMs: number) {
  const copied = { now: 0, most: 0 }
  const compared = { now: 0, most: 0 }
  let isComparing = false
  const read = () => {
    if (!isComparing) {
      copied.most = Math.max(copied.most, (copied.now += 1))
      return undefined
    }
    compared.most = Math.max(compared.most, (compared.now += 1))
    return { until: sleep(delayMs).then(() => (compared.now -= 1)) }
  }
  source.node.misbehave(({ path }) => (path[3] === 'scroll' ? read() : undefined))
  target.node.misbehave(({ method, path }) => {
    isComparing ||= path[3] === 'scroll'
    if (path[3] === 'scroll') return read()
    if (method !== 'PUT' || path[2] !== 'points') return undefined
    return { until: sleep(delayMs).then(() => (copied.now -= 1)) }
  })
  return { copied, compared }
}

t.test('copying and comparing several partitions hold at most 40 MiB of pages', async (t) => {
  const bytes = 7 * MIB
  const stood = await startEnginePair(t)
  await withLargePoints(stood.source, bytes)
  const { copied, compared } = watched(stood, 300)
  await runToDone(t, stood.world)
  t.ok(copied.most > 1, 'concurrently')
  for (const { most } of [copied, compared]) {
    t.ok(most * bytes <= 40 * MIB, `${most} pages at the same time`)
  }
  t.match(await stood.world.result(), { pointsCopied: KEYS.length * POINTS_OF_KEY })
})

t.test('a point that is larger than a page gets the whole budget', async (t) => {
  const { source, target, world } = await startEnginePair(t)
  const payload = { text: 'x'.repeat(24 * MIB) }
  await createCollection(source, 'docs', [{ id: 1, vector: [1.5, 2.5], payload }])
  await runToDone(t, world)
  t.ok((await target.points('docs')) === (await source.points('docs')), 'every byte')
})
