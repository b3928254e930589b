/** A single point that the target does not take: the error names it. */
import { pino } from 'pino'
import t from 'tap'
import { EngineError } from '../../../crds/contract/errors.ts'
import { Semaphore, writePoints, type CopyContext } from '../../../jobs/migration/batch-writer.ts'
import { TargetUuidWatch } from '../../../jobs/migration/deleted-collections.ts'
import { ByteBudget, PageSizer } from '../../../jobs/migration/page-reader.ts'
import { UnansweredUpserts } from '../../../jobs/migration/unanswered-upserts.ts'
import { RetryBudget } from '../../../jobs/retry.ts'
import { instantClock } from '../job-world.ts'

async function failureOf(points: string, count: number, cause: EngineError): Promise<unknown> {
  const context = {
    retryBudget: new RetryBudget(),
    targetWatch: new TargetUuidWatch(),
    unansweredUpserts: new UnansweredUpserts(instantClock()),
    progress: {
      addWritten: () => undefined,
      reportUnreachable: () => undefined,
      check: () => undefined,
    },
    target: { points: { upsert: async () => Promise.reject(cause) } },
    tools: {
      reporter: { verifyRecentOwnership: async () => undefined },
      log: pino({ level: 'silent' }),
      signal: new AbortController().signal,
      time: instantClock(),
    },
  }
  const shared = {
    ...{ context, wait: true, writeSlots: new Semaphore() },
    ...{ size: new PageSizer(10), budget: new ByteBudget() },
  } as unknown as CopyContext
  const bytes = Buffer.from(points)
  const page = { points: [bytes], count, bytes: bytes.length }
  const scope = { name: 'docs', targetName: 'docs' }
  return writePoints(page, scope, shared).catch((error: unknown) => error)
}

const TOO_LARGE = new EngineError('the JSON payload is larger than allowed', { status: 400 })

t.test('a point is named by its number or its UUID, with its size and the answer', async (t) => {
  const uuid = '"5c56c793-69f3-4fbf-87e6-c4bf54c28c26"'
  for (const [point, id] of [
    ['{"id":77,"payload":{}}', '77'],
    [`{"id":${uuid},"payload":{}}`, uuid],
    ['{"payload":{}}', 'unknown'],
  ] as const) {
    const error = await failureOf(`[${point}]`, 1, TOO_LARGE)
    t.match(error, {
      ...{ code: 'EngineError', status: 400, cause: TOO_LARGE },
      message: `the point ${id} has ${point.length + 2} bytes, more than the target takes at once (${TOO_LARGE.message})`,
    })
  }
})

t.test('of several points each is tried alone, and the first that fails is named', async (t) => {
  const [first, second] = ['{"id":1}', '{"id":2}']
  t.match(await failureOf(`[${first},${second}]`, 2, TOO_LARGE), {
    message: `the point 1 has ${first.length} bytes, more than the target takes at once (${TOO_LARGE.message})`,
  })
})

t.test('a connection that closes on a large body counts as 413', async (t) => {
  const large = `[{"id":1,"payload":"${'x'.repeat(33 * 1024 * 1024)}"}]`
  const closed = new EngineError('PUT points got no answer: write ECONNRESET')
  t.match(await failureOf(large, 1, closed), {
    ...{ status: 413, cause: closed },
    message: /^the point 1 has \d+ bytes, more than the target takes at once/,
  })
})
