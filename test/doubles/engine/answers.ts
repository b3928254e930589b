/** The shapes of the engine's answers: an envelope, an error in one, or plain text. */
import type { Access } from './access.ts'

export interface EngineRequest {
  method: string
  /** Parts of the path, decoded. */
  path: string[]
  query: Record<string, string>
  body: unknown
  /** What the credential allows; absent where everything is open. */
  access?: Access
}

export interface EngineAnswer {
  status: number
  /** JSON, or plain text when it is a string. */
  body: unknown
  headers?: Record<string, string>
}

/** Ends a call with an answer, from anywhere below its route. */
export class EngineFailure extends Error {
  readonly answer: EngineAnswer

  constructor(answer: EngineAnswer) {
    super(`refused with ${answer.status}`)
    this.answer = answer
  }
}

export function ok(result: unknown): EngineAnswer {
  return { status: 200, body: { result, status: 'ok', time: 0.000012 } }
}

export function failed(status: number, error: string): EngineAnswer {
  return { status, body: { status: { error }, time: 0 } }
}

export function refuse(status: number, error: string): never {
  throw new EngineFailure(failed(status, error))
}

/** Shards are folders and threads to the engine, and memory to the double: this many are too many for both. */
const MAX_SHARDS = 100_000

export function refuseTooMany(shards: unknown): void {
  if (Number(shards ?? 1) > MAX_SHARDS) {
    refuse(500, `Service internal error: no space for ${String(shards)} shards`)
  }
}

export function text(status: number, body: string): EngineAnswer {
  return { status, body }
}

/** Refusals of the authentication carry no envelope, and no type either. */
export function bare(status: number, body: string): EngineAnswer {
  return { status, body, headers: {} }
}

/** A route this version does not know. */
export const UNKNOWN_ROUTE: EngineAnswer = bare(404, '')
