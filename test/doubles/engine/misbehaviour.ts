/** Bad days of a node: what it does instead of answering as it should. */
import type { EngineRequest } from './answers.ts'

export type Misbehaviour =
  /** Answers as it should, but so much later. */
  | { delayMs: number }
  /** Answers as it should once this is settled. */
  | { until: Promise<unknown> }
  /** Another answer, such as 429 with Retry-After, or HTML from something in between. */
  | { status: number; body: string; headers?: Record<string, string> }
  /** The connection is cut before the answer, or in the middle of it. */
  | { cut: 'before' | 'within' }
  /** Half of the answer comes, and then nothing. */
  | { cut: 'silent' }
  /** Half of a stream comes, as if it were all of it. */
  | { cut: 'short' }
  /** What was asked is done, and the answer is lost. */
  | { cut: 'after' }
  /** The connection is cut once the request is there; what was asked is done all the same. */
  | { cut: 'meanwhile' }

/** Decides call by call; undefined lets it pass. */
export type Misbehave = (request: EngineRequest) => Misbehaviour | undefined

export const TOO_MANY: Misbehaviour = {
  status: 429,
  body: '{"status":{"error":"Rate limiting exceeded: Read rate limit exceeded, retry later"},"time":0}',
  headers: { 'retry-after': '60', 'content-type': 'application/json' },
}
export const UNAVAILABLE: Misbehaviour = {
  status: 503,
  body: '{"status":{"error":"Service unavailable: 1 of 1 shards unavailable"},"time":0}',
  headers: { 'content-type': 'application/json' },
}
export const HTML: Misbehaviour = {
  status: 502,
  body: '<html><body><h1>502 Bad Gateway</h1></body></html>',
  headers: { 'content-type': 'text/html' },
}
