/** Which failures of an engine a migration waits out, and for how long. */
import { pino } from 'pino'
import t from 'tap'
import { EngineError } from '../../../crds/contract/errors.ts'
import { isRateLimited, isTooLarge, withBackoff } from '../../../jobs/migration/backoff.ts'
import { RetryBudget } from '../../../jobs/retry.ts'
import { matchWhole } from '../../match-whole.ts'

const MIB = 2 ** 20

function engineError(status?: number, message = 'no', retryAfterSeconds?: number): EngineError {
  return new EngineError(message, {
    ...(status !== undefined && { status }),
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  })
}

/** Requests that fail so often with this error; the pauses in seconds, and how they ended. */
async function outcome(error: unknown, failures: number, maxRateLimits?: number) {
  let now = 0
  const pauses: number[] = []
  const reported: string[] = []
  let requests = 0
  const context = {
    retryBudget: new RetryBudget(),
    progress: {
      reportUnreachable: (reason: string) => void reported.push(reason),
      check: () => undefined,
    },
    tools: {
      log: pino({ level: 'silent' }),
      signal: new AbortController().signal,
      time: {
        now: () => new Date(now),
        monotonicMs: () => now,
        sleep: async (ms: number) => {
          now += ms
          pauses.push(ms / 1000)
        },
      },
    },
  } as unknown as Parameters<typeof withBackoff>[0]
  const request = async () => {
    requests += 1
    if (requests <= failures) throw error
    return 'answer'
  }
  const end: unknown = await withBackoff(context, request, maxRateLimits).catch(
    (cause: unknown) => cause,
  )
  return { end, pauses, reported }
}

t.test('an engine that is busy is asked again after pauses that double up to 30 s', async (t) => {
  t.strictSame(await outcome(engineError(503), 9), {
    end: 'answer',
    pauses: [0.5, 1, 2, 4, 8, 16, 30, 30, 30],
    reported: Array<string>(9).fill('no'),
  })
})

t.test('an engine that limits its rate names the pause, of a second to the limit', async (t) => {
  t.strictSame((await outcome(engineError(429, 'no', 7), 2)).pauses, [7, 7])
  t.strictSame((await outcome(engineError(429, 'no', 0), 1)).pauses, [1])
  t.strictSame((await outcome(engineError(429, 'no', 1e6), 1)).pauses, [300])
})

t.test(
  'the limited number of rate limits is waited for, and the next one is an error',
  async (t) => {
    const error = engineError(429, 'no', 7)
    matchWhole(t, await outcome(error, 3, 3), { end: 'answer', pauses: [7, 7, 7] })
    t.strictSame(await outcome(error, 4, 3), {
      end: error,
      pauses: [7, 7, 7],
      reported: ['no', 'no', 'no'],
    })
  },
)

for (const [what, error] of [
  ['a missing collection', engineError(404)],
  ['a request that is too large', engineError(413)],
  ['a rejected request', engineError(400)],
  ['another error', new Error('a defect')],
] as const) {
  t.test(`${what} is not asked for again`, async (t) => {
    t.strictSame(await outcome(error, 1), { end: error, pauses: [], reported: [] })
  })
}

const TOO_LARGE: [string, unknown, number, boolean][] = [
  ['413', engineError(413), 0, true],
  ['400 of a body', engineError(400, 'JSON payload (9 bytes) is larger than allowed'), 0, true],
  ['429 of a batch', engineError(429, 'Rate limit exceeded, split your request'), 0, true],
  ['400 of something else', engineError(400, 'Wrong input'), 9 * MIB, false],
  ['500 in the same words', engineError(500, 'is larger than allowed'), 0, false],
  ['a connection that breaks on 9 MiB', engineError(undefined, 'write EPIPE'), 9 * MIB, true],
  ['a connection that is reset on 9 MiB', engineError(undefined, 'ECONNRESET'), 9 * MIB, true],
  ['a connection that breaks on 8 MiB', engineError(undefined, 'write EPIPE'), 8 * MIB, false],
  ['a time limit on 9 MiB', engineError(undefined, 'no answer in 60 s'), 9 * MIB, false],
  ['a full disk', engineError(413, 'No space left on device'), 0, false],
  ['another error', new Error('EPIPE'), 9 * MIB, false],
]

for (const [what, error, bytes, expected] of TOO_LARGE) {
  t.test(`${what} ${expected ? 'is' : 'is not'} for the size of the request`, async (t) => {
    t.equal(isTooLarge(error, bytes), expected)
  })
}

t.test('a rate limit is an answer of 429', async (t) => {
  t.equal(isRateLimited(engineError(429)), true)
  t.equal(isRateLimited(engineError(503)), false)
  t.equal(isRateLimited(engineError()), false)
  t.equal(isRateLimited(new Error('429')), false)
})
