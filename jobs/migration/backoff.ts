/**
 * Retries engine requests: waits for an engine that is busy or restarting, repeats a rate-limited
 * request after the delay that the engine requests, and distinguishes requests that are too large
 * from other failures.
 */
import { EngineError } from '../../crds/contract/errors.ts'
import { MAX_RETRY_AFTER_SECONDS } from '../../crds/contract/limits.ts'
import { isDiskFull, isTransient, retry } from '../retry.ts'
import type { RunContext } from './context.ts'

const INITIAL_DELAY_MS = 500
const MAX_DELAY_MS = 30_000
/**
 * An engine that limits its rate accepts requests again within a minute. This is the maximum number
 * of waits for one request.
 */
const MAX_RATE_LIMITS = 120
/**
 * No engine or proxy rejects a smaller body for its size; a connection that breaks during one has
 * another cause.
 */
const LARGE_BYTES = 8 * 1024 * 1024

/**
 * Repeats a request until there is a response, within limits. Rate limits are counted separately:
 * they fail the request only after `maxRateLimits` waits.
 */
export async function withBackoff<Result>(
  { tools, retryBudget, progress }: Pick<RunContext, 'tools' | 'retryBudget' | 'progress'>,
  request: () => Promise<Result>,
  maxRateLimits = MAX_RATE_LIMITS,
): Promise<Result> {
  const { log, time, signal } = tools
  const limitMs = retryBudget.nextLimitMs()
  let rateLimits = 0
  let retriedAtMs: number | undefined
  // A rate-limited engine is reachable: these waits do not reduce the budget for an unavailable one.
  const consume = (ms: number, error: unknown) => {
    if (parseRetryAfter(error) === undefined) retryBudget.consume(ms, time.monotonicMs())
  }
  const pauseMs = (
    error: unknown,
    { retries, waitedMs }: { retries: number; waitedMs: number },
  ) => {
    signal.throwIfAborted()
    if (retriedAtMs !== undefined) consume(time.monotonicMs() - retriedAtMs, error)
    if (!isTransient(error) || isTooLarge(error) || error.status === 404) return undefined
    const retryAfterMs = parseRetryAfter(error)
    rateLimits += retryAfterMs === undefined ? 0 : 1
    const isExhausted =
      retryAfterMs === undefined ? waitedMs >= limitMs : rateLimits > maxRateLimits
    if (isExhausted) return undefined
    const pause = retryAfterMs ?? Math.min(INITIAL_DELAY_MS * 2 ** retries, MAX_DELAY_MS)
    log.info({ reason: error.message, seconds: pause / 1000 }, 'waiting for the engine')
    progress.reportUnreachable(error.message)
    return pause
  }
  const afterPause = (pause: number, error: unknown) => {
    consume(pause, error)
    retriedAtMs = time.monotonicMs()
    progress.check()
  }
  return retry({ time, signal, pauseMs, afterPause }, request)
}

/**
 * The same for a request that changes something: before each attempt it verifies that no other pod has replaced this
 * one, which may have happened during a pause.
 */
export async function changeWithBackoff<Result>(
  context: Pick<RunContext, 'tools' | 'retryBudget' | 'progress'>,
  change: () => Promise<Result>,
): Promise<Result> {
  return withBackoff(context, async () => {
    await context.tools.reporter.verifyOwnership()
    return change()
  })
}

/** Whether the request is larger than the engine ever accepts; half of it may succeed. */
export function isTooLarge(error: unknown, bytes = 0): boolean {
  if (!(error instanceof EngineError) || isDiskFull(error.message)) return false
  const { status, message } = error
  // The engine closes the connection on a body above its limit, and its response may be lost
  // (docs/engine-notes.md).
  if (status === undefined) return bytes > LARGE_BYTES && /EPIPE|ECONNRESET|closed/i.test(message)
  if (status === 413) return true
  return [400, 429].includes(status) && TOO_LARGE.test(message)
}

/**
 * Whether a rate limit rejected the request. One request may exceed what the limit ever allows; a
 * smaller one may succeed.
 */
export function isRateLimited(error: unknown): boolean {
  return error instanceof EngineError && error.status === 429
}

const TOO_LARGE = /larger than allowed|exceeded limit|split your request|limit exceeded \d/i

function parseRetryAfter(error: unknown): number | undefined {
  if (!(error instanceof EngineError) || error.retryAfterSeconds === undefined) return undefined
  return 1000 * Math.min(Math.max(error.retryAfterSeconds, 1), MAX_RETRY_AFTER_SECONDS)
}
