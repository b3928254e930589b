/** Ids of random points, from a source that may allow fewer at a time. */
import { pino } from 'pino'
import t from 'tap'
import { EngineError } from '../../../crds/contract/errors.ts'
import type { RunContext } from '../../../jobs/migration/context.ts'
import type { CopyScope } from '../../../jobs/migration/page-reader.ts'
import { sampleIds } from '../../../jobs/migration/partitions.ts'
import { RetryBudget } from '../../../jobs/retry.ts'

const SCOPE = { name: 'docs', shardKey: 'eu' } as CopyScope

/** A source that answers as `answer` does to a limit; returns the limits that were requested. */
async function sampled(answer: (limit: number) => string[]) {
  const requests: [string, number, unknown][] = []
  const context = {
    retryBudget: new RetryBudget(),
    progress: { reportUnreachable: () => undefined, check: () => undefined },
    source: {
      points: {
        sampleIds: async (name: string, limit: number, shardKey: unknown) => {
          requests.push([name, limit, shardKey])
          return answer(limit)
        },
      },
    },
    tools: {
      log: pino({ level: 'silent' }),
      signal: new AbortController().signal,
      time: { now: () => new Date(0), sleep: async () => undefined },
    },
  } as unknown as RunContext
  const end: unknown = await sampleIds(SCOPE, 100, context).catch((error: unknown) => error)
  return { end, requests }
}

function tooLarge(): never {
  throw new EngineError('Limit exceeded 100 > 30 for "limit"', { status: 400 })
}

t.test('as many ids as asked for are requested within the scope', async (t) => {
  t.strictSame(await sampled(() => ['1']), { end: ['1'], requests: [['docs', 100, 'eu']] })
})

t.test('a source that allows fewer is asked for half, until it answers', async (t) => {
  const { end, requests } = await sampled((limit) => (limit > 30 ? tooLarge() : ['1', '2']))
  t.strictSame(end, ['1', '2'])
  t.strictSame(
    requests.map(([, limit]) => limit),
    [100, 50, 25],
  )
})

t.test('a source that allows none fails with its error', async (t) => {
  const { end, requests } = await sampled(tooLarge)
  t.match(end, { message: /Limit exceeded/ })
  t.strictSame(
    requests.map(([, limit]) => limit),
    [100, 50, 25, 12, 6, 3, 1],
  )
})

t.test('another error is not answered by fewer ids', async (t) => {
  const { end, requests } = await sampled(() => {
    throw new EngineError('Wrong input', { status: 400 })
  })
  t.match(end, { message: 'Wrong input' })
  t.equal(requests.length, 1)
})
