/** What all collections of a cluster share: responses for ten seconds, and a limit of concurrent passes. */
import { getEventListeners } from 'node:events'
import t, { type Test } from 'tap'
import { EngineError } from '../../../crds/contract/errors.ts'
import type { CollectionEngine } from '../../../hooks/collection/ports.ts'
import { EngineCache, EngineCaches } from '../../../hooks/collection/engine-cache.ts'
import { NOW } from '../../builders.ts'

/** A shared engine with a manual clock; `answer` is its response to every request. */
function stage(answer: () => Promise<unknown> = async () => 'answer') {
  let time = NOW.getTime()
  const asked: string[] = []
  const says = (question: string) => async () => {
    asked.push(question)
    return answer()
  }
  const engine = {
    notReadyReason: says('readyz'),
    version: says('version'),
    aliases: says('aliases'),
  }
  const now = () => new Date(time)
  return {
    shared: new EngineCache(engine as unknown as CollectionEngine, now),
    asked,
    now,
    later: (milliseconds: number) => void (time += milliseconds),
  }
}

const signal = new AbortController().signal

/** Runs everything that is ready. */
const nextTick = () => new Promise<void>((resolve) => setImmediate(resolve))

t.test('each request is sent once in ten seconds for all passes', async (t) => {
  const { shared, asked, later } = stage()
  await Promise.all([shared.version(signal), shared.version(signal)])
  t.equal(await shared.version(signal), 'answer')
  await shared.aliases(signal)
  await shared.notReadyReason(signal)
  t.strictSame(asked, ['version', 'aliases', 'readyz'])
  later(9_999)
  await shared.version(signal)
  t.equal(asked.length, 3)
  later(1)
  await shared.version(signal)
  t.equal(asked.length, 4)
})

t.test('aliases are read again before a change', async (t) => {
  const { shared, asked } = stage()
  await shared.aliases(signal)
  await shared.version(signal)
  shared.invalidateAliases()
  await shared.aliases(signal)
  await shared.version(signal)
  t.strictSame(asked, ['aliases', 'version', 'aliases'])
})

t.test('a failure is not remembered', async (t) => {
  let answers = 0
  const { shared, asked } = stage(async () => {
    answers += 1
    if (answers === 1) throw new Error('no answer')
    return 'answer'
  })
  await t.rejects(shared.version(signal), { message: 'no answer' })
  t.equal(await shared.version(signal), 'answer')
  t.equal(asked.length, 2)
})

t.test('a failure of an older request does not remove a newer response', async (t) => {
  const fails: ((error: Error) => void)[] = []
  const { shared, asked } = stage(() => new Promise((_resolve, reject) => void fails.push(reject)))
  const first = shared.aliases(signal)
  shared.invalidateAliases()
  const second = shared.aliases(signal)
  fails[0]?.(new Error('late'))
  await t.rejects(first, { message: 'late' })
  const third = shared.aliases(signal)
  t.equal(asked.length, 2, 'the second request is still in progress')
  fails[1]?.(new Error('too'))
  await t.rejects(second, { message: 'too' })
  await t.rejects(third, { message: 'too' })
})

t.test('an engine that did not answer gets no request for 30 s', async (t) => {
  const { shared, asked, later } = stage(async () => undefined)
  shared.backOff(unanswered(new Error('connect ECONNREFUSED 10.0.0.1:6333')))
  later(29_999)
  t.equal(
    await shared.notReadyReason(signal),
    'a recent call got no answer: connect ECONNREFUSED 10.0.0.1:6333',
    'the cause alone: a collection of another tenant is not named',
  )
  t.strictSame(asked, [])
  later(1)
  t.equal(await shared.notReadyReason(signal), undefined)
  for (const cause of [new AggregateError([]), 'closed']) {
    shared.backOff(unanswered(cause))
    t.equal(await shared.notReadyReason(signal), 'a recent call got no answer')
  }
})

function unanswered(cause: unknown): EngineError {
  return new EngineError('PUT /collections/private got no answer', { cause })
}

t.test('aborting one pass does not abort the request for the others', async (t) => {
  let say: (answer: string) => void = () => undefined
  const { shared, asked } = stage(() => new Promise((resolve) => void (say = resolve)))
  const ended = new AbortController()
  const [one, other] = [shared.version(ended.signal), shared.version(signal)]
  ended.abort()
  await t.rejects(one, { message: 'the reconcile was aborted' })
  await t.rejects(shared.version(AbortSignal.abort()), { message: 'the reconcile was aborted' })
  say('1.18.3')
  t.equal(await other, '1.18.3')
  t.equal(asked.length, 1)
})

t.test('a cached response is returned immediately, also to an aborted pass', async (t) => {
  const { shared, asked } = stage()
  await shared.version(signal)
  t.equal(await shared.version(AbortSignal.abort()), 'answer')
  t.equal(asked.length, 1)
})

t.test('a pass with its response no longer listens for its abort', async (t) => {
  const { shared } = stage()
  const pass = new AbortController()
  const answer = shared.version(pass.signal)
  t.equal(getEventListeners(pass.signal, 'abort').length, 1)
  await answer
  await nextTick()
  t.strictSame(getEventListeners(pass.signal, 'abort'), [])
})

/** Work that the test ends by number. */
function works(shared: EngineCache, count: number, signals: AbortSignal[] = []) {
  const begun: number[] = []
  const end: (() => void)[] = []
  const done = Array.from({ length: count }, (_, index) =>
    shared.runLimited(() => {
      begun.push(index)
      return new Promise<number>((resolve) => void (end[index] = () => resolve(index)))
    }, signals[index] ?? signal),
  )
  return { begun, end, done }
}

/** The same; one has left the queue because its pass was aborted. */
async function worksBut(t: Test, left: number, count: number) {
  const ended = new AbortController()
  const signals: AbortSignal[] = []
  signals[left] = ended.signal
  const { done, ...rest } = works(stage().shared, count, signals)
  ended.abort()
  await t.rejects(done[left] as Promise<number>, { name: 'AbortError' })
  return { ...rest, done: done.toSpliced(left, 1) }
}

t.test('at most eight passes run; the others follow in order', async (t) => {
  const { shared } = stage()
  const { begun, end, done } = works(shared, 11)
  await nextTick()
  t.strictSame(begun, [0, 1, 2, 3, 4, 5, 6, 7])
  end[3]?.()
  t.equal(await done[3], 3)
  await nextTick()
  t.equal(begun.at(-1), 8)
  end[0]?.()
  end[1]?.()
  await nextTick()
  t.strictSame(begun.slice(8), [8, 9, 10])
  for (const index of [2, 4, 5, 6, 7, 8, 9, 10]) end[index]?.()
  await Promise.all(done)
  const again = works(shared, 9)
  await nextTick()
  t.equal(again.begun.length, 8, 'eight are free again, and no more')
  again.end.forEach((one) => one())
  await nextTick()
  again.end[8]?.()
  await Promise.all(again.done)
})

t.test('a pass that fails frees its slot', async (t) => {
  const { shared } = stage()
  const fails = Array.from({ length: 8 }, () =>
    shared.runLimited(async () => {
      await nextTick()
      throw new Error('no')
    }, signal),
  )
  const next = shared.runLimited(async () => 'done', signal)
  for (const one of fails) await t.rejects(one, { message: 'no' })
  t.equal(await next, 'done')
})

t.test('a pass that is aborted while it waits leaves the queue', async (t) => {
  const { begun, end, done } = await worksBut(t, 8, 10)
  end[0]?.()
  await nextTick()
  t.strictSame(begun, [0, 1, 2, 3, 4, 5, 6, 7, 9])
  for (const index of [1, 2, 3, 4, 5, 6, 7, 9]) end[index]?.()
  await Promise.all(done)
})

t.test('a pass that leaves the middle of the queue frees no additional slot', async (t) => {
  const { begun, end, done } = await worksBut(t, 9, 11)
  await nextTick()
  t.equal(begun.length, 8)
  for (const index of [0, 1]) end[index]?.()
  await nextTick()
  if (!t.strictSame(begun.slice(8), [8, 10])) return
  for (const index of [2, 3, 4, 5, 6, 7, 8, 10]) end[index]?.()
  await Promise.all(done)
})

t.test(
  'a slot that is granted while its pass is aborted goes to the next in the queue',
  async (t) => {
    let lost = 0
    for (let steps = 0; steps < 12; steps += 1) {
      const { shared } = stage()
      const ended = new AbortController()
      const signals: AbortSignal[] = []
      signals[8] = ended.signal
      const { begun, end, done } = works(shared, 10, signals)
      const fate = done[8]?.catch(() => (lost += 1))
      end[0]?.()
      for (let step = 0; step < steps; step += 1) await Promise.resolve()
      ended.abort()
      await nextTick()
      end[8]?.()
      await fate
      await nextTick()
      // Else the rest of this would wait for ever.
      if (!t.equal(begun.at(-1), 9, `ended after ${steps} steps`)) return
      for (const index of [1, 2, 3, 4, 5, 6, 7, 9]) end[index]?.()
      await Promise.all(done.toSpliced(8, 1))
      const again = works(shared, 9)
      await nextTick()
      t.equal(again.begun.length, 8, 'eight are free again, and no more')
      again.end.forEach((one) => one())
      await nextTick()
      again.end[8]?.()
      await Promise.all(again.done)
    }
    t.ok(lost > 0 && lost < 12, 'some were ended before their turn, some after')
  },
)

t.test('an engine is cached by its connection, until ten minutes after its last use', async (t) => {
  const { now, later } = stage()
  const engines = new EngineCaches(now)
  let made = 0
  const engine = () => {
    made += 1
    return {} as CollectionEngine
  }
  const one = engines.get('a', engine)
  t.equal(engines.get('a', engine), one)
  t.not(engines.get('b', engine), one)
  t.equal(made, 2)
  later(600_000)
  t.equal(engines.get('a', engine), one)
  later(600_000)
  t.equal(engines.get('a', engine), one, 'each use counts')
  later(600_001)
  t.not(engines.get('a', engine), one)
  t.equal(made, 3)
})

t.test('at most a thousand engines are cached: those that were used last', async (t) => {
  const engines = new EngineCaches(stage().now)
  const get = (key: string) => engines.get(key, () => ({}) as CollectionEngine)
  const first = get('0')
  const second = get('1')
  for (let at = 2; at < 1000; at += 1) get(String(at))
  t.equal(get('0'), first, 'all have a place')
  const last = get('1000')
  t.equal(get('0'), first, 'it was used after the second')
  t.equal(get('1000'), last)
  t.not(get('1'), second, 'its place is taken')
})

t.test('a clock that is set back extends neither a response nor a back-off', async (t) => {
  const { shared, asked, later } = stage()
  await shared.version(signal)
  shared.backOff(unanswered(new Error('closed')))
  later(-3_600_000)
  await shared.version(signal)
  t.strictSame(asked, ['version', 'version'])
  t.equal(await shared.notReadyReason(signal), 'answer')
})
