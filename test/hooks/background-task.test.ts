import t from 'tap'
import { BackgroundTasks } from '../../hooks/background-task.ts'
import { NOW } from '../builders.ts'

const later = (seconds: number) => new Date(NOW.getTime() + seconds * 1000)

/** A promise that a test settles. */
function pending<T>() {
  let settle: (value: T) => void = () => undefined
  const promise = new Promise<T>((resolve) => {
    settle = resolve
  })
  return { promise, settle }
}

t.test('a pass that ends within a second is answered inline', async (t) => {
  const passes = new BackgroundTasks<number>(10, 1000)
  t.strictSame(await passes.run('a', NOW, async () => 1), { value: 1 })
})

t.test('only the call that starts a pass waits for it', async (t) => {
  // Longer than any test: who waits that long never answers.
  const passes = new BackgroundTasks<number>(0, 10 ** 8)
  const slow = pending<number>()
  const first = passes.run('a', NOW, () => slow.promise)
  t.strictSame(await passes.run('a', NOW, () => slow.promise), { requeueAfterSeconds: 2 })
  t.strictSame(await passes.run('a', NOW, () => slow.promise), { requeueAfterSeconds: 4 })
  slow.settle(1)
  t.strictSame(await first, { value: 1 })
})

t.test(
  'no pass waits for an engine that was slow in another pass until it is fast again',
  async (t) => {
    const passes = new BackgroundTasks<number>(0, 50)
    const slow = pending<number>()
    const other = pending<number>()
    const look = (uid: string, work: Promise<number>, seconds = 0) =>
      passes.run(uid, later(seconds), () => work, { engine: 'one' })
    t.strictSame(await look('a', slow.promise), { requeueAfterSeconds: 2 }, 'waited for once')
    const tick = new Promise((resolve) => setImmediate(resolve, 'waits'))
    const atOnce = await Promise.race([look('b', other.promise), tick])
    t.strictSame(atOnce, { requeueAfterSeconds: 2 })
    await look('c', Promise.resolve(3))
    await new Promise((resolve) => setImmediate(resolve))
    t.strictSame(await look('d', Promise.resolve(4), 1), { value: 4 }, 'quick again: waited for')
    slow.settle(1)
    other.settle(1)
  },
)

t.test('a fresh result is not asked for again', async (t) => {
  const passes = new BackgroundTasks<number>(10, 1000)
  await passes.run('a', NOW, async () => 1)
  t.strictSame(await passes.run('a', later(9), async () => 2), { value: 1 })
  t.strictSame(await passes.run('a', later(10), async () => 2), { value: 2 })
})

t.test(
  'a longer pass continues in the background; the pause doubles from 2 s to 30 s',
  async (t) => {
    const passes = new BackgroundTasks<number>(0, 5)
    const slow = pending<number>()
    const pauses: unknown[] = []
    for (let look = 0; look < 6; look += 1) {
      pauses.push((await passes.run('a', later(look), () => slow.promise)).requeueAfterSeconds)
    }
    t.strictSame(pauses, [2, 4, 8, 16, 30, 30])
    slow.settle(7)
    await new Promise((resolve) => setImmediate(resolve))
    const next = pending<number>()
    t.match(await passes.run('a', later(60), () => next.promise), {
      value: 7,
      requeueAfterSeconds: 2,
    })
    next.settle(8)
  },
)

t.test('at most one pass runs per resource', async (t) => {
  const passes = new BackgroundTasks<number>(0, 5)
  let runs = 0
  const slow = pending<number>()
  const count = () => {
    runs += 1
    return slow.promise
  }
  await Promise.all([passes.run('a', NOW, count), passes.run('a', NOW, count)])
  t.equal(runs, 1)
  slow.settle(1)
})

t.test('a failed task is not run for 30 s, and the last result is returned', async (t) => {
  // Each of these passes ends at once, however slow the machine is.
  const passes = new BackgroundTasks<number>(0, 10 ** 8)
  await passes.run('a', NOW, async () => 1)
  const error = new Error('down')
  const failed = { value: 1, failure: { error } }
  t.strictSame(await passes.run('a', later(1), () => Promise.reject(error)), failed)
  t.strictSame(await passes.run('a', later(30), async () => 2), failed)
  t.strictSame(await passes.run('a', later(31), async () => 2), { value: 2 })
})

t.test('abort ends the pass of a resource and waits for it', async (t) => {
  const passes = new BackgroundTasks<number>(0, 5)
  let ended = false
  await passes.run('a', NOW, (signal) => {
    return new Promise<number>((_, reject) => {
      signal.addEventListener('abort', () => {
        ended = true
        reject(new Error('aborted'))
      })
    })
  })
  await passes.abort('a')
  t.ok(ended)
  t.strictSame(await passes.run('a', NOW, async () => 3), { value: 3 })
})

t.test('a clock that is set back delays no task', async (t) => {
  const tasks = new BackgroundTasks<number>(10)
  const run = (seconds: number, task: () => Promise<number>) => tasks.run('a', later(seconds), task)
  t.strictSame(await run(3600, async () => 1), { value: 1 })
  t.strictSame(await run(0, async () => 2), { value: 2 })
  t.strictSame(await run(9, async () => 3), { value: 2 }, 'as fresh as before')
  const error = new Error('no answer')
  await run(3600, () => Promise.reject(error))
  t.strictSame(await run(20, async () => 4), { value: 4 }, 'after a failure too')
})
