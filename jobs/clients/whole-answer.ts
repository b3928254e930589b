/**
 * Calls whose answers are read as a whole. They do without the streams that undici's own `request`
 * makes: those survive V8's young generation, four KiB a call, and a service whose every hook calls
 * would stop for a collection of its whole heap each thousand hooks.
 */
import { Readable } from 'node:stream'
import { getGlobalDispatcher, type Dispatcher } from 'undici'
import { ANSWER_BYTES, ByteCount, type ByteBudget } from './byte-limit.ts'
import { endedBy, retryAfterOf } from './call.ts'

export interface Answer {
  status: number
  text: string
  /** From the header Retry-After. */
  retryAfterSeconds?: number | undefined
  /** The header Date: the time of the server. */
  date?: string | undefined
}

interface WholeCall {
  method: Dispatcher.HttpMethod
  headers: Record<string, string>
  body?: string | Readable | undefined
  timeoutMs: number
  /** The answer is not read past so many bytes: the call fails with `AnswerTooLong`. */
  maxBytes?: number | undefined
  /** Shared with other calls. */
  budget?: ByteBudget | undefined
  signal?: AbortSignal | undefined
  dispatcher?: Dispatcher | undefined
}

/** Rejects with the reason of the signal, or once the time is over. */
export async function ask(
  url: string,
  { method, headers, body, timeoutMs, signal, ...call }: WholeCall,
): Promise<Answer> {
  signal?.throwIfAborted()
  const { maxBytes = ANSWER_BYTES, budget, dispatcher = getGlobalDispatcher() } = call
  const { origin, pathname, search } = new URL(url)
  const count = new ByteCount(maxBytes, budget)
  const incoming = new Incoming(count)
  const clear = endedBy(timeoutMs, signal, (reason) => incoming.end(reason))
  try {
    const path = pathname + search
    dispatcher.dispatch({ origin, path, method, headers, body: body ?? null }, incoming)
    return await incoming.answer
  } catch (error) {
    // What is not sent any more is not read any more.
    if (body instanceof Readable) body.on('error', () => undefined).destroy()
    throw error
  } finally {
    clear()
    count.end()
  }
}

/** An answer while it comes. */
class Incoming implements Dispatcher.DispatchHandler {
  readonly #settle = Promise.withResolvers<Answer>()
  readonly #chunks: Buffer[] = []
  readonly #count: ByteCount
  #controller: Dispatcher.DispatchController | undefined
  #ended: Error | undefined
  #status = 0
  #retryAfter: string | string[] | undefined
  #date: string | string[] | undefined

  constructor(count: ByteCount) {
    this.#count = count
  }

  get answer(): Promise<Answer> {
    return this.#settle.promise
  }

  /** A call that waits for a connection ends at once, and is not made when there is one. */
  end(reason: Error): void {
    this.#ended = reason
    this.#chunks.length = 0
    this.#controller?.abort(reason)
    this.#settle.reject(reason)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#ended !== undefined) controller.abort(this.#ended)
  }

  onResponseStart(
    _: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    this.#status = status
    this.#retryAfter = headers['retry-after']
    this.#date = headers['date']
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#ended !== undefined) return
    const error = this.#count.add(chunk.length)
    if (error === undefined) this.#chunks.push(chunk)
    else this.end(error)
  }

  onResponseEnd(): void {
    const [first] = this.#chunks
    const whole = this.#chunks.length === 1 ? first : Buffer.concat(this.#chunks)
    this.#settle.resolve({
      status: this.#status,
      text: whole?.toString() ?? '',
      retryAfterSeconds: retryAfterOf(this.#retryAfter),
      ...(typeof this.#date === 'string' && { date: this.#date }),
    })
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    this.#settle.reject(error)
  }
}
