/** The shapes of the engine's answers: an envelope, an error in one, or plain text. */

export interface EngineRequest {
  method: string
  /** Parts of the path, decoded. */
  path: string[]
  query: Record<string, string>
  body: unknown
}

export interface EngineAnswer {
  status: number
  /** JSON, or plain text when it is a string. */
  body: unknown
}

export function ok(result: unknown): EngineAnswer {
  return { status: 200, body: { result, status: 'ok', time: 0.000012 } }
}

export function failed(status: number, error: string): EngineAnswer {
  return { status, body: { status: { error }, time: 0 } }
}

export function text(status: number, body: string): EngineAnswer {
  return { status, body }
}

/** A route this version does not know. */
export const UNKNOWN_ROUTE: EngineAnswer = { status: 404, body: '' }
