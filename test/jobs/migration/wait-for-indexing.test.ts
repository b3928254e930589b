/** Waiting until a collection has built its indexes, for about ten minutes at most. */
import t from 'tap'
import type { RunContext } from '../../../jobs/migration/context.ts'
import { waitForIndexing } from '../../../jobs/migration/source-collection.ts'
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
      time: { now: () => new Date(now), sleep: async (ms: number) => void (now += ms) },
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
