/** What every call to the outside has: an end in time, and words for what went wrong. */
import type { Readable } from 'node:stream'
import { LONG_CALL_SECONDS } from '../../crds/limits.ts'

/** The least throughput that is waited for: 1 MiB/s on average. */
const LEAST_BYTES_PER_MS = 1024
/** A timer cannot be set to more. */
export const LONGEST_MS = 2 ** 31 - 1

/** The time limit of a call that moves so many bytes: an hour, and what they take at the least throughput. */
export function longCallMs(bytes = 0): number {
  return Math.min(LONG_CALL_SECONDS * 1000 + Math.ceil(bytes / LEAST_BYTES_PER_MS), LONGEST_MS)
}

/** A call's end, which is put off for ever once the call has been answered. */
export interface Deadline {
  signal: AbortSignal
  clear(): void
}

/**
 * The signal ends a call, and so does its time. AbortSignal.timeout would keep each call's remains in
 * memory until that time has come, AbortSignal.any until they are collected, and a service makes many
 * calls in half a minute.
 */
export function deadline(timeoutMs: number, signal?: AbortSignal): Deadline {
  const over = new AbortController()
  const clear = endedBy(timeoutMs, signal, (reason) => over.abort(reason))
  return { signal: over.signal, clear }
}

/** Ends a call with the reason of the signal, or when its time is over; what it returns puts that off. */
export function endedBy(
  timeoutMs: number,
  signal: AbortSignal | undefined,
  end: (reason: Error) => void,
): () => void {
  const abort = () => end(signal?.reason as Error)
  if (signal?.aborted === true) abort()
  signal?.addEventListener('abort', abort, { once: true })
  const timer = setTimeout(() => {
    end(new DOMException('The operation was aborted due to timeout', 'TimeoutError'))
  }, timeoutMs).unref()
  return () => {
    clearTimeout(timer)
    signal?.removeEventListener('abort', abort)
  }
}

/** Seconds that an answer's Retry-After asks for, given as a number or as a date. */
export function retryAfterOf(
  header: string | string[] | undefined,
  now = new Date(),
): number | undefined {
  const text = String(header ?? '').trim()
  if (text === '') return undefined
  const seconds = /^\d+$/.test(text) ? Number(text) : (Date.parse(text) - now.getTime()) / 1000
  return Number.isFinite(seconds) ? Math.max(0, Math.ceil(seconds)) : undefined
}

/** An answer whose body is still to be read. */
export interface StreamAnswer {
  status: number
  body: Readable
  /** Bytes of the body, where they are told ahead. */
  length?: number | undefined
  /** From the header Retry-After. */
  retryAfterSeconds?: number | undefined
}

type Headers = Record<string, string | string[] | undefined>

export function streamAnswerOf({
  statusCode,
  headers,
  body,
}: {
  statusCode: number
  headers: Headers
  body: Readable
}): StreamAnswer {
  return {
    status: statusCode,
    body,
    length: lengthOf(headers['content-length']),
    retryAfterSeconds: retryAfterOf(headers['retry-after']),
  }
}

/** What went wrong, down to the socket: undici wraps the words that matter. */
export function wordsOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') {
    return error.errors.map(wordsOf).join('; ')
  }
  return error instanceof Error ? error.message : String(error)
}

function lengthOf(header: Headers[string]): number | undefined {
  return header === undefined ? undefined : Number(header)
}
