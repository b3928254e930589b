/** When a recovery is repeated, and when it must not be because its outcome is unknown. */
import { pino } from 'pino'
import t from 'tap'
import { EngineError } from '../../../crds/contract/errors.ts'
import { longCallTimeoutMs } from '../../../jobs/clients/http/request.ts'
import type { RunContext } from '../../../jobs/restore/context.ts'
import { retryRecovery, waitForEarlierRecoveries } from '../../../jobs/restore/retry-recovery.ts'
import { RetryBudget } from '../../../jobs/retry.ts'

const LOST = new EngineError('POST on vec-a-1.ns: connection lost')

/**
 * A run with a clock that only its pauses advance. Its nodes do not answer, or report how many recoveries they run, by
 * the seconds that have passed.
 */
function runOf(mayBeRunning: boolean, recoveries?: (seconds: number) => number) {
  let now = 0
  const engine = {
    call: async () => {
      if (recoveries === undefined)
        throw new EngineError('GET /telemetry on vec-a-1.ns: connection lost')
      const running_snapshot_recovery = recoveries(now / 1000)
      return { app: {}, collections: { snapshots: [{ id: 'docs', running_snapshot_recovery }] } }
    },
  }
  const context = {
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
  return { context, seconds: () => now / 1000 }
}

function contextOf(mayBeRunning: boolean): RunContext {
  return runOf(mayBeRunning).context
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

const TIB = 2 ** 40
const HOUR_SECONDS = 3_600

/** A recovery of a TiB whose response is lost. */
function largeRecovery() {
  const made = { attempts: 0 }
  const run = async () => {
    made.attempts += 1
    throw LOST
  }
  return {
    made,
    attempt: { collection: 'docs', node: 1, bytes: TIB, run, isDone: async () => true },
  }
}

t.test('a large recovery without a response is waited for, and not repeated', async (t) => {
  const { context, seconds } = runOf(true, (at) => (at < 10 * HOUR_SECONDS ? 1 : 0))
  const { attempt, made } = largeRecovery()
  await retryRecovery(attempt, context)
  t.equal(made.attempts, 1)
  t.equal(seconds(), 10 * HOUR_SECONDS)
})

t.test('a recovery that runs for longer than its bytes need is an error', async (t) => {
  const limitSeconds = longCallTimeoutMs(TIB) / 1000 + 120
  const { context, seconds } = runOf(true, () => 1)
  const { attempt, made } = largeRecovery()
  await t.rejects(retryRecovery(attempt, context), {
    status: 409,
    message: `node 1 has been recovering a snapshot of docs for ${Math.round(limitSeconds / HOUR_SECONDS)} h: restart the pod, which ends the recovery, and create the VecRestore again`,
  })
  t.equal(made.attempts, 1)
  t.ok(seconds() >= limitSeconds && seconds() < limitSeconds + 5, `${seconds()} s`)
})

t.test('an earlier pod’s recovery is waited for as long as its bytes need', async (t) => {
  const item = { name: 'docs', method: 'Shard', source: { snapshots: [{ sizeBytes: TIB }] } }
  const running = [{ node: 1, shard: 0 }]
  const ends = runOf(true, (at) => (at < 10 * HOUR_SECONDS ? 1 : 0))
  await waitForEarlierRecoveries(item as never, { running }, ends.context)
  t.ok(ends.seconds() >= 10 * HOUR_SECONDS, `${ends.seconds()} s`)
  const stays = runOf(true, () => 1)
  await t.rejects(waitForEarlierRecoveries(item as never, { running }, stays.context), {
    message: /^node 1 has been recovering a snapshot of docs for 29\d h: /,
  })
})
