/**
 * As fast as both engines let us: one that is busy or restarted is waited for, one that limits its
 * rate is asked again when it says so, and a request that is too large is told apart from the rest.
 */
import { EngineError } from '../../crds/errors.ts'
import { MAX_RETRY_AFTER_SECONDS } from '../../crds/limits.ts'
import { isFull, isPassing } from '../patience.ts'
import type { Work } from './work.ts'

const FIRST_PAUSE_MS = 500
const MAX_PAUSE_MS = 30_000
/** A rate that is limited lets something through every minute; so often one call is held up. */
const MAX_HELD_UP = 120
/** Below this nothing in between refuses a body, whatever cut the connection. */
const LARGE_BYTES = 8 * 1024 * 1024

/** Calls until there is an answer, within bounds; held up by a limited rate no more often than that. */
export async function paced<Result>(
  { tools, patience, tally }: Pick<Work, 'tools' | 'patience' | 'tally'>,
  ask: () => Promise<Result>,
  maxHeldUp = MAX_HELD_UP,
): Promise<Result> {
  const { log, time, signal } = tools
  const limit = patience.share()
  let waited = 0
  let heldUp = 0
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, MAX_PAUSE_MS)) {
    try {
      return await ask()
    } catch (error) {
      signal.throwIfAborted()
      const asked = retryAfterOf(error)
      heldUp += asked === undefined ? 0 : 1
      const isOver = asked === undefined ? waited >= limit : heldUp > maxHeldUp
      if (!isPassing(error) || isTooLarge(error) || error.status === 404 || isOver) throw error
      const ms = asked ?? pause
      log.info({ reason: error.message, seconds: ms / 1000 }, 'waits for the engine')
      tally.waits(error.message)
      await time.sleep(ms, signal)
      // A rate that is limited is not an engine that stays away.
      if (asked === undefined) patience.spend(ms, time.now())
      waited += ms
      tally.check()
    }
  }
}

/** The request is more than this engine ever takes at once: half of it may do. */
export function isTooLarge(error: unknown, bytes = 0): boolean {
  if (!(error instanceof EngineError) || isFull(error.message)) return false
  const { status, message } = error
  // The engine closes the connection on a body above its limit, and its answer may be lost (facts 0).
  if (status === undefined) return bytes > LARGE_BYTES && /EPIPE|ECONNRESET|closed/i.test(message)
  if (status === 413) return true
  return [400, 429].includes(status) && TOO_LARGE.test(message)
}

/** Held up by a limited rate: what is asked for at once may be more than ever has room. */
export function isHeldUp(error: unknown): boolean {
  return error instanceof EngineError && error.status === 429
}

const TOO_LARGE = /larger than allowed|exceeded limit|split your request|limit exceeded \d/i

function retryAfterOf(error: unknown): number | undefined {
  if (!(error instanceof EngineError) || error.retryAfterSeconds === undefined) return undefined
  return 1000 * Math.min(Math.max(error.retryAfterSeconds, 1), MAX_RETRY_AFTER_SECONDS)
}
