/** Ids of random points, from a source that may allow fewer at a time. */
import { pino } from 'pino'
import t from 'tap'
import { EngineError } from '../../../crds/contract/errors.ts'
import type { RunContext } from '../../../jobs/migration/context.ts'
import type { CopyScope } from '../../../jobs/migration/page-reader.ts'
import { planPartitions, sampleIds } from '../../../jobs/migration/partitions.ts'
import { RetryBudget } from '../../../jobs/retry.ts'
import { instantClock } from '../job-world.ts'

const SCOPE = { name: 'docs', shardKey: 'eu' } as CopyScope

type Requests = [string, number, unknown][]

/** With a source that answers as `answer` does to a limit. */
function contextOf(answer: (limit: number) => string[], requests: Requests = []): RunContext {
  return {
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
      time: instantClock(),
    },
  } as unknown as RunContext
}

/** The limits that were requested, and how it ended. */
async function sampled(answer: (limit: number) => string[]) {
  const requests: Requests = []
  const context = contextOf(answer, requests)
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

t.test(
  'ids are split evenly by a sample of 50 or more, and not by fewer or by other texts',
  async (t) => {
    const input = { scopes: [SCOPE], points: 100_000, pageSize: 10, wait: true }
    const planned = async (ids: string[]) => {
      const { active } = await planPartitions(
        input,
        contextOf(() => ids),
      )
      return active.map(({ offset, until }) => [offset, until])
    }
    const ids = Array.from({ length: 50 }, (_, n) => String(n))
    t.strictSame(await planned(ids), [
      [undefined, '12'],
      ['12', '25'],
      ['25', '37'],
      ['37', undefined],
    ])
    t.strictSame(await planned(ids.slice(1)), [[undefined, undefined]])
    t.strictSame(await planned([...ids, '{"id":1}']), [[undefined, undefined]])
  },
)
