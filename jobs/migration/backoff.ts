/**
 * As fast as both engines let us: one that is busy or restarted is waited for, one that limits its
 * rate is asked again when it says so, and a request that is too large is told apart from the rest.
 */
import { EngineError } from '../../crds/contract/errors.ts'
import { MAX_RETRY_AFTER_SECONDS } from '../../crds/contract/limits.ts'
import { isDiskFull, isTransient } from '../retry.ts'
import type { RunContext } from './context.ts'

const INITIAL_DELAY_MS = 500
const MAX_DELAY_MS = 30_000
/** A rate that is limited lets something through every minute; so often one call is held up. */
const MAX_RATE_LIMITS = 120
/** Below this nothing in between refuses a body, whatever cut the connection. */
const LARGE_BYTES = 8 * 1024 * 1024

/** Calls until there is an answer, within bounds; held up by a limited rate no more often than that. */
export async function withBackoff<Result>(
  { tools, patience, progress }: Pick<RunContext, 'tools' | 'patience' | 'progress'>,
  request: () => Promise<Result>,
  maxRateLimits = MAX_RATE_LIMITS,
): Promise<Result> {
  const { log, time, signal } = tools
  const limit = patience.nextLimitMs()
  let waitedMs = 0
  let rateLimits = 0
  for (let delayMs = INITIAL_DELAY_MS; ; delayMs = Math.min(2 * delayMs, MAX_DELAY_MS)) {
    try {
      return await request()
    } catch (error) {
      signal.throwIfAborted()
      const retryAfterMs = parseRetryAfter(error)
      rateLimits += retryAfterMs === undefined ? 0 : 1
      const isExhausted =
        retryAfterMs === undefined ? waitedMs >= limit : rateLimits > maxRateLimits
      if (!isTransient(error) || isTooLarge(error) || error.status === 404 || isExhausted)
        throw error
      const sleepMs = retryAfterMs ?? delayMs
      log.info({ reason: error.message, seconds: sleepMs / 1000 }, 'waits for the engine')
      progress.reportUnreachable(error.message)
      await time.sleep(sleepMs, signal)
      // A rate that is limited is not an engine that stays away.
      if (retryAfterMs === undefined) patience.consume(sleepMs, time.now())
      waitedMs += sleepMs
      progress.check()
    }
  }
}

/** The request is more than this engine ever takes at once: half of it may do. */
export function isTooLarge(error: unknown, bytes = 0): boolean {
  if (!(error instanceof EngineError) || isDiskFull(error.message)) return false
  const { status, message } = error
  // The engine closes the connection on a body above its limit, and its answer may be lost (facts 0).
  if (status === undefined) return bytes > LARGE_BYTES && /EPIPE|ECONNRESET|closed/i.test(message)
  if (status === 413) return true
  return [400, 429].includes(status) && TOO_LARGE.test(message)
}

/** Held up by a limited rate: what is asked for at once may be more than ever has room. */
export function isRateLimited(error: unknown): boolean {
  return error instanceof EngineError && error.status === 429
}

const TOO_LARGE = /larger than allowed|exceeded limit|split your request|limit exceeded \d/i

function parseRetryAfter(error: unknown): number | undefined {
  if (!(error instanceof EngineError) || error.retryAfterSeconds === undefined) return undefined
  return 1000 * Math.min(Math.max(error.retryAfterSeconds, 1), MAX_RETRY_AFTER_SECONDS)
}
