/** An upsert without an answer may reach the target later: no collection is Completed before that is over. */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { TOO_MANY } from '../../doubles/engine/misbehaviour.ts'
import { matchWhole } from '../../match-whole.ts'
import { instantClock } from '../job-world.ts'
import {
  createCollection,
  isUpsert,
  manyPoints,
  runToDone,
  startEnginePair,
  type EnginePair,
} from './engine-pair.ts'

const LATE = { n: 'late' }

/** A clock that applies an upsert `afterMs` after `send` was called, with an older payload of the first point. */
function lateUpsert({ target }: Pick<EnginePair, 'target'>, afterMs: number) {
  let sentAt: number | undefined
  let isApplied = false
  const time = instantClock(() => {
    const [first] = target.engine.find('docs')?.points ?? []
    if (sentAt === undefined || isApplied || time.monotonicMs() < sentAt + afterMs) return
    isApplied = true
    if (first !== undefined) first.payload = LATE
  })
  return {
    time,
    send: () => (sentAt = time.monotonicMs()),
    isApplied: () => isApplied,
  }
}

/** Overwrites a point of the source once all are copied; returns whether that has happened. */
function overwriteWhenCopied({ source, target }: EnginePair): () => boolean {
  let isCopied = false
  source.node.misbehave(({ method, path }) => {
    const [first] = source.engine.find('docs')?.points ?? []
    const isInfo = method === 'GET' && path.length === 2
    if (!isCopied && isInfo && target.engine.find('docs')?.points.length === 20) {
      isCopied = true
      if (first !== undefined) first.payload = { n: 'newer' }
    }
    return undefined
  })
  return () => isCopied
}

/** Once all points are copied, and one is overwritten; returns the number of upserts since. */
function cutEverySecondUpsert(
  scene: EnginePair,
  onCut: (upserts: number) => void = () => undefined,
): () => number {
  const isCopied = overwriteWhenCopied(scene)
  let upserts = 0
  scene.target.node.misbehave((request) => {
    if (!isCopied() || !isUpsert(request)) return undefined
    upserts += 1
    if (upserts % 2 === 1) return undefined
    onCut(upserts)
    return { cut: 'before' }
  })
  return () => upserts
}

for (const [what, isLost] of [
  ['a connection that breaks', { cut: 'before' }],
  ['500', { status: 500, body: '{"status":{"error":"timeout"},"time":0}' }],
] as const) {
  t.test(`after ${what} the comparison waits until the upsert has arrived`, async (t) => {
    const scene = await startEnginePair(t)
    const { source, target, world } = scene
    await createCollection(source, 'docs', manyPoints(20))
    const late = lateUpsert(scene, 100_000)
    let upserts = 0
    target.node.misbehave((request) => {
      if (!isUpsert(request) || (upserts += 1) > 1) return undefined
      late.send()
      return isLost
    })
    const log = await runToDone(t, world, { time: late.time })
    t.equal(late.isApplied(), true, 'before the migration was completed')
    t.match(log, /waiting for unanswered upserts/)
    t.equal(await target.points('docs'), await source.points('docs'))
    matchWhole(t, (await world.result()).collections, [{ proof: /; 1 differed at first/ }])
  })
}

t.test('an upsert of the comparison that is not answered is waited for as well', async (t) => {
  const scene = await startEnginePair(t)
  const { source, target, world } = scene
  await createCollection(source, 'docs', manyPoints(20))
  const late = lateUpsert(scene, 100_000)
  const isCopied = overwriteWhenCopied(scene)
  let upserts = 0
  target.node.misbehave((request) => {
    // The first one copies the difference that was found, the second one is that of the check after it.
    if (!isCopied() || !isUpsert(request) || (upserts += 1) !== 2) return undefined
    late.send()
    return { cut: 'before' }
  })
  await runToDone(t, world, { time: late.time })
  t.equal(late.isApplied(), true, 'before the migration was completed')
  t.equal(await target.points('docs'), await source.points('docs'))
})

t.test(
  'points that are equal after an upsert without an answer are not copied again',
  async (t) => {
    const scene = await startEnginePair(t)
    const { source, target, world } = scene
    await createCollection(source, 'docs', manyPoints(20))
    const upserts = cutEverySecondUpsert(scene)
    await runToDone(t, world, { time: instantClock() })
    t.equal(upserts(), 3, 'one that copies, one without an answer, and its repetition')
    t.equal(await target.points('docs'), await source.points('docs'))
  },
)

t.test('upserts of the comparison that always need a repetition fail it', async (t) => {
  const scene = await startEnginePair(t)
  const { source, world } = scene
  await createCollection(source, 'docs', manyPoints(20))
  cutEverySecondUpsert(scene, (upserts) => {
    const [first] = source.engine.find('docs')?.points ?? []
    if (first !== undefined) first.payload = { n: `newer ${upserts}` }
  })
  t.equal((await world.run({ time: instantClock() })).code, EXIT.failed)
  t.match((await world.result()).error, /^docs: the target did not answer upserts in each of 5/)
})

t.test('a pod that replaces another one waits for the upserts of that pod', async (t) => {
  const scene = await startEnginePair(t)
  const { source, target, world } = scene
  await createCollection(source, 'docs', manyPoints(20))
  const stop = new AbortController()
  target.node.misbehave((request) => {
    if (isUpsert(request)) stop.abort(new Error('SIGTERM'))
    return undefined
  })
  t.equal((await world.run({ signal: stop.signal, time: instantClock() })).code, EXIT.crash)
  target.node.misbehave()
  const late = lateUpsert(scene, 170_000)
  late.send()
  await runToDone(t, world, { time: late.time, pod: 'pod-2' })
  t.equal(late.isApplied(), true, 'before the migration was completed')
  t.equal(await target.points('docs'), await source.points('docs'))
})

t.test('upserts that the target rejects are not waited for', async (t) => {
  const { source, target, world } = await startEnginePair(t)
  await createCollection(source, 'docs', manyPoints(20))
  let upserts = 0
  target.node.misbehave((request) =>
    isUpsert(request) && (upserts += 1) === 1 ? TOO_MANY : undefined,
  )
  const log = await runToDone(t, world, { time: instantClock() })
  t.notMatch(log, /waiting for unanswered upserts/)
})
