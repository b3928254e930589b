/** Waiting until a collection has built its indexes, or shows all of its points. */
import t from 'tap'
import type { RunContext } from '../../../jobs/migration/context.ts'
import {
  waitForIndexing,
  waitForReadablePoints,
} from '../../../jobs/migration/source-collection.ts'
import { RetryBudget } from '../../../jobs/retry.ts'

/** A collection with these states, one after the other; the last one stays. */
async function waited(...states: (string | undefined)[]) {
  let now = 0
  let checks = 0
  const reported: string[] = []
  const context = {
    retryBudget: new RetryBudget(),
    progress: {
      check: () => (checks += 1),
      reportWaiting: (message: string) => void reported.push(message),
    },
    tools: {
      signal: new AbortController().signal,
      time: {
        now: () => new Date(now),
        monotonicMs: () => now,
        sleep: async (ms: number) => void (now += ms),
      },
    },
  } as unknown as RunContext
  const collections = {
    collectionInfo: async () => {
      const status = states.length > 1 ? states.shift() : states[0]
      return status === undefined ? undefined : { status }
    },
  }
  await waitForIndexing({ collections } as never, 'docs', context)
  return { seconds: now / 1000, reports: reported.length, checks, last: reported.at(-1) }
}

const WAITING = 'waiting until docs is indexed: not all of its points are visible'

t.test('a collection that is indexed, or gone, is not waited for', async (t) => {
  t.match(await waited('green'), { reports: 0 })
  t.match(await waited('grey'), { reports: 0 })
  t.match(await waited(undefined), { reports: 0 })
})

t.test('a collection that builds its indexes is waited for, and the report says so', async (t) => {
  const { seconds: pause } = await waited('green')
  t.strictSame(await waited('yellow', 'yellow', 'green'), {
    ...{ seconds: 3 * pause, reports: 2, checks: 3, last: WAITING },
  })
})

t.test('after about ten minutes the wait ends without an error', async (t) => {
  const { seconds, last } = await waited('yellow')
  t.ok(seconds >= 590 && seconds <= 610, `${seconds} s`)
  t.equal(last, WAITING)
})

/** What is reported while a collection with these update queues, one after the other, hides points. */
async function hidden(role: 'source' | 'target', ...queues: object[]): Promise<string[]> {
  const reported: string[] = []
  let now = 0
  const context = {
    retryBudget: new RetryBudget(),
    progress: {
      check: () => undefined,
      reportWaiting: (message: string) => void reported.push(message),
    },
    tools: {
      signal: new AbortController().signal,
      log: { info: () => undefined },
      time: {
        now: () => new Date(now),
        monotonicMs: () => now,
        sleep: async (ms: number) => void (now += ms),
      },
    },
  } as unknown as RunContext
  const config = { optimizer_config: { prevent_unoptimized: true } }
  const collectionInfo = async () => ({
    config,
    points_count: 90,
    update_queue: queues.length > 1 ? queues.shift() : queues[0],
  })
  await waitForReadablePoints(
    { role, nodes: [], collections: { collectionInfo } } as never,
    'docs',
    context,
  )
  return reported
}

t.test('at the target, updates in its queue hide points as well', async (t) => {
  const queues = [{ deferred_points: 3, length: 4 }, { deferred_points: 0, length: 4 }, {}]
  const at = (count: number, role: string) =>
    `waiting for ${count} of about 90 points of docs at the ${role}, which cannot be read until they are indexed`
  t.strictSame(await hidden('target', ...queues), [at(7, 'target'), at(4, 'target')])
  t.strictSame(await hidden('source', ...queues), [at(3, 'source')])
})
