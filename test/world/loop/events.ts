/** Warning events on a parent whose sync failed: a burst for each object, then one in five minutes. */
import { createHash } from 'node:crypto'
import { ApiError, type ApiClient, type ApiObject } from '../client.ts'
import type { Clock } from '../clock.ts'
import { isNotFound } from './update.ts'

const BURST = 25
const REFILL_MS = 300_000

interface Written {
  name: string
  count: number
}

export class SyncErrors {
  readonly #api: ApiClient
  readonly #clock: Clock
  /** Events that may still be sent about an object, by its uid. */
  readonly #allowance = new Map<string, { tokens: number; at: number }>()
  readonly #written = new Map<string, Written>()
  #last: Promise<void> = Promise.resolve()

  constructor(api: ApiClient, clock: Clock) {
    this.#api = api
    this.#clock = clock
  }

  /** Writes in the background: an event that cannot be written fails nothing. */
  report(parent: ApiObject, message: string): void {
    if (!this.#allowed(parent)) return
    this.#last = this.#last.then(() => this.#write(parent, message)).catch(() => undefined)
  }

  /** Answers once everything reported so far is written. */
  async flushed(): Promise<void> {
    await this.#last
  }

  #allowed({ metadata }: ApiObject): boolean {
    const now = this.#clock.now().getTime()
    const uid = metadata.uid ?? ''
    const { tokens, at } = this.#allowance.get(uid) ?? { tokens: BURST, at: now }
    const available = Math.min(BURST, tokens + (now - at) / REFILL_MS)
    const allowed = available >= 1
    this.#allowance.set(uid, { tokens: allowed ? available - 1 : available, at: now })
    return allowed
  }

  async #write(parent: ApiObject, message: string): Promise<void> {
    const key = createHash('sha256')
      .update(`${parent.metadata.uid ?? ''}\0${message}`)
      .digest('hex')
    const before = this.#written.get(key)
    const at = this.#clock
      .now()
      .toISOString()
      .replace(/\.\d+Z$/, 'Z')
    if (before !== undefined && (await this.#countUp(parent, before, at))) return
    const name = `${parent.metadata.name}.${key.slice(0, 16)}`
    const event = eventOf(parent, { name, message, at })
    try {
      await this.#api.create(event)
    } catch (error) {
      if (!(error instanceof ApiError) || error.reason !== 'AlreadyExists') throw error
    }
    this.#written.set(key, { name, count: 1 })
  }

  /** The same event again is one more on its count; false when it is gone meanwhile. */
  async #countUp({ metadata }: ApiObject, written: Written, at: string): Promise<boolean> {
    const namespace = metadata.namespace ?? 'default'
    const reference = { apiVersion: 'v1', kind: 'Event', namespace, name: written.name }
    try {
      await this.#api.patch(reference, { count: written.count + 1, lastTimestamp: at })
      written.count += 1
      return true
    } catch (error) {
      if (isNotFound(error)) return false
      throw error
    }
  }
}

function eventOf(
  parent: ApiObject,
  { name, message, at }: Record<'name' | 'message' | 'at', string>,
) {
  const { apiVersion, kind, metadata } = parent
  const namespace = metadata.namespace ?? 'default'
  return {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name, namespace },
    involvedObject: {
      apiVersion,
      kind,
      name: metadata.name,
      namespace: metadata.namespace ?? '',
      uid: metadata.uid ?? '',
      resourceVersion: metadata.resourceVersion ?? '',
    },
    type: 'Warning',
    reason: 'SyncError',
    message: `Sync error: ${message}`,
    source: { component: 'metacontroller' },
    firstTimestamp: at,
    lastTimestamp: at,
    count: 1,
  }
}
