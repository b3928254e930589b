/** When a recovery is repeated, and when it must not be because its outcome is unknown. */
import { pino } from 'pino'
import t from 'tap'
import { EngineError } from '../../../crds/contract/errors.ts'
import type { RunContext } from '../../../jobs/restore/context.ts'
import { retryRecovery } from '../../../jobs/restore/retry-recovery.ts'
import { RetryBudget } from '../../../jobs/retry.ts'

const LOST = new EngineError('POST on vec-a-1.ns: connection lost')

/** A run whose nodes do not answer, with a clock that only its pauses advance. */
function contextOf(mayBeRunning: boolean): RunContext {
  let now = 0
  const engine = {
    call: async () => {
      throw new EngineError('GET /telemetry on vec-a-1.ns: connection lost')
    },
  }
  return {
    plan: { cluster: { replicas: 3 } },
    retryBudget: new RetryBudget(),
    progress: {
      mayBeRunning: () => mayBeRunning,
      recoveryEnded: () => undefined,
      report: () => undefined,
      reported: async () => undefined,
    },
    tools: {
      engineForPod: () => engine,
      log: pino({ level: 'silent' }),
      reporter: { verifyOwnership: async () => undefined },
      signal: new AbortController().signal,
      time: {
        now: () => new Date(now),
        monotonicMs: () => now,
        sleep: async (ms: number) => void (now += ms),
      },
    },
  } as unknown as RunContext
}

/** Attempts whose response is lost; returns how many were made and the error at the end. */
async function recover(context: RunContext) {
  let attempts = 0
  const run = async () => {
    attempts += 1
    throw LOST
  }
  const attempt = { collection: 'docs', node: 1, bytes: 1, run, isDone: async () => false }
  const error: unknown = await retryRecovery(attempt, context).catch((cause: unknown) => cause)
  return { attempts, message: (error as Error).message }
}

t.test('a recovery that the engine cannot be working on is repeated three times', async (t) => {
  t.strictSame(await recover(contextOf(false)), { attempts: 4, message: LOST.message })
})

t.test('a recovery whose outcome stays unknown is not repeated', async (t) => {
  t.strictSame(await recover(contextOf(true)), {
    attempts: 1,
    message: 'GET /telemetry on vec-a-1.ns: connection lost',
  })
})
