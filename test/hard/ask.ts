/** Calls on one node of an engine, with a limit of time. */

/** The engine refused, with this status. */
export class EngineError extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

const TIMEOUT_MS = 15_000

/** The `result` of the answer. Throws when the node refuses or does not answer in time. */
export async function ask(
  url: string,
  method: string,
  path: string,
  body?: object,
  timeoutMs = TIMEOUT_MS,
): Promise<unknown> {
  const response = await fetch(url + path, {
    method,
    signal: AbortSignal.timeout(timeoutMs),
    // The engine closes idle connections at any moment; a new one for each call is never stale.
    headers: { 'content-type': 'application/json', connection: 'close' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  }).catch((error: unknown) => {
    throw new Error(`${url}: no answer to ${method} ${path}`, { cause: error })
  })
  const text = await response.text()
  if (!response.ok) {
    throw new EngineError(response.status, `${method} ${path} answered ${response.status}: ${text}`)
  }
  return (JSON.parse(text) as { result: unknown }).result
}

const RESTART_TIMEOUT_MS = 90_000
const POLL_MS = 500

/** Asks a node until it answers or refuses: it may be restarting. Not for calls that must not be repeated. */
export async function askUntilAnswered(
  url: string,
  method: string,
  path: string,
  body?: object,
): Promise<unknown> {
  const end = Date.now() + RESTART_TIMEOUT_MS
  for (;;) {
    try {
      return await ask(url, method, path, body)
    } catch (error) {
      const isRefused = error instanceof EngineError && error.status < 500
      if (isRefused) throw error
      if (Date.now() > end) {
        throw new Error(`${url}: no answer to ${method} ${path}`, { cause: error })
      }
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
}

/**
 * Repeats a change that the engine has not proposed, because its nodes were electing a leader, or not committed in time, or
 * to which it has not answered: on a busy machine that can happen in a cluster that has just been ready.
 */
export async function onceElected(change: () => Promise<unknown>): Promise<void> {
  const end = Date.now() + RESTART_TIMEOUT_MS
  let mayBeDone = false
  for (;;) {
    try {
      await change()
      return
    } catch (error) {
      const { status, message } = error as Partial<EngineError> & Error
      if (mayBeDone && message.includes('already exists')) return
      const isLate =
        !(error instanceof EngineError) ||
        status === 408 ||
        message.includes('Waiting for consensus operation commit failed')
      const isElecting = message.includes('leader is not established')
      if (!(isLate || isElecting) || Date.now() > end) throw error
      mayBeDone ||= isLate
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
}

export function pathOf(collection: string): string {
  return `/collections/${encodeURIComponent(collection)}`
}
