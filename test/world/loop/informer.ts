/**
 * A cache of all objects of one kind, kept by list and watch, that notifies subscribers of changes.
 * It may lag behind the API, but it only ever moves forward.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { ApiError, type ApiClient, type ApiObject, type WatchEvent } from '../client.ts'
import type { Clock } from '../clock.ts'
import type { Discovery, ResourceKind } from './discovery.ts'
import { keyOf } from './object.ts'

/** Every cache is replayed to its subscribers at this interval. */
export const REPLAY_MS = 30 * 60_000
/** Real time, because a connection that broke is not part of the world's time. */
const RECONNECT_MS = 200

/** `updated` with one and the same object twice is a replay. */
export interface Subscriber {
  added(object: ApiObject): Promise<void> | void
  updated(old: ApiObject, current: ApiObject): Promise<void> | void
  deleted(object: ApiObject): Promise<void> | void
}

export class Informer {
  readonly kind: ResourceKind
  readonly #api: ApiClient
  readonly #subscribers = new Set<Subscriber>()
  readonly #stop = new AbortController()
  readonly #firstList = Promise.withResolvers<undefined>()
  #objects = new Map<string, ApiObject>()
  #synced = false
  #resourceVersion = ''
  /** Notices are delivered one after another, however long a subscriber takes. */
  #notices: Promise<void> = Promise.resolve()
  #pending = 0
  #running: Promise<void> | undefined

  constructor(api: ApiClient, kind: ResourceKind) {
    this.#api = api
    this.kind = kind
  }

  get synced(): boolean {
    return this.#synced
  }

  /** The first list is not there yet, or a subscriber has not heard of everything. */
  get busy(): boolean {
    return (this.#running !== undefined && !this.#synced) || this.#pending > 0
  }

  start(): void {
    this.#running ??= this.#run()
  }

  async stop(): Promise<void> {
    this.#stop.abort()
    this.#firstList.resolve(undefined)
    await this.#running
  }

  /** Answers once the first list is there, or the informer was stopped. */
  async whenSynced(): Promise<void> {
    await this.#firstList.promise
  }

  /** What is there already is shown to the subscriber as a replay. */
  subscribe(subscriber: Subscriber): void {
    this.#subscribers.add(subscriber)
    this.replay(subscriber)
  }

  replay(subscriber: Subscriber): void {
    for (const object of this.#objects.values()) {
      this.#notify(() => subscriber.updated(object, object))
    }
  }

  replayAll(): void {
    for (const subscriber of this.#subscribers) this.replay(subscriber)
  }

  get(key: string): ApiObject | undefined {
    return this.#objects.get(key)
  }

  /** Objects of one namespace, or of all. */
  list(namespace = ''): ApiObject[] {
    const all = [...this.#objects.values()]
    return namespace === '' ? all : all.filter(({ metadata }) => metadata.namespace === namespace)
  }

  async #run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      try {
        if (this.#resourceVersion === '') await this.#list()
        await this.#watch()
      } catch (error) {
        // Gone: the version is too old to go on from. Other errors are a connection that broke.
        if (error instanceof ApiError && error.status === 410) this.#resourceVersion = ''
        else await this.#pause()
      }
    }
  }

  async #list(): Promise<void> {
    const { apiVersion, kind } = this.kind
    const { items, resourceVersion } = await this.#api.list(apiVersion, kind)
    const before = this.#objects
    this.#objects = new Map(items.map((item) => [keyOf(item), item]))
    for (const [key, object] of before) if (!this.#objects.has(key)) this.#deleted(object)
    for (const [key, object] of this.#objects) this.#changed(before.get(key), object)
    this.#resourceVersion = resourceVersion
    this.#synced = true
    this.#firstList.resolve(undefined)
  }

  async #watch(): Promise<void> {
    const { apiVersion, kind } = this.kind
    const from = { resourceVersion: this.#resourceVersion, signal: this.#stop.signal }
    for await (const event of this.#api.watch(apiVersion, kind, from)) this.#take(event)
  }

  #take({ type, object }: WatchEvent): void {
    this.#resourceVersion = object.metadata.resourceVersion ?? this.#resourceVersion
    if (type === 'BOOKMARK') return
    const key = keyOf(object)
    const before = this.#objects.get(key)
    if (type === 'DELETED') {
      this.#objects.delete(key)
      this.#deleted(object)
      return
    }
    this.#objects.set(key, object)
    this.#changed(before, object)
  }

  #changed(before: ApiObject | undefined, object: ApiObject): void {
    for (const subscriber of this.#subscribers) {
      if (before === undefined) this.#notify(() => subscriber.added(object))
      else this.#notify(() => subscriber.updated(before, object))
    }
  }

  #deleted(object: ApiObject): void {
    for (const subscriber of this.#subscribers) this.#notify(() => subscriber.deleted(object))
  }

  #notify(notice: () => Promise<void> | void): void {
    this.#pending += 1
    this.#notices = this.#notices.then(notice).finally(() => (this.#pending -= 1))
  }

  async #pause(): Promise<void> {
    const aborted = () => undefined
    await delay(RECONNECT_MS, undefined, { signal: this.#stop.signal }).catch(aborted)
  }
}

/** One informer for each kind, shared by all controllers: each is a cache of the whole cluster. */
export class Informers {
  readonly #api: ApiClient
  readonly #discovery: Discovery
  readonly #informers = new Map<string, Informer>()
  readonly #clock: Clock
  #stopped = false
  #cancelReplay: () => void = () => undefined

  constructor(api: ApiClient, discovery: Discovery, clock: Clock) {
    this.#api = api
    this.#discovery = discovery
    this.#clock = clock
    this.#scheduleReplay()
  }

  get busy(): boolean {
    return [...this.#informers.values()].some((informer) => informer.busy)
  }

  /** The informer of a resource, which starts on first use. */
  async of(apiVersion: string, resource: string): Promise<Informer> {
    const kind = await this.#discovery.resource(apiVersion, resource)
    const key = `${apiVersion}/${resource}`
    const informer = this.#informers.get(key) ?? new Informer(this.#api, kind)
    this.#informers.set(key, informer)
    // A controller that was about to start when all was stopped finds it stopped.
    if (this.#stopped) await informer.stop()
    else informer.start()
    return informer
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancelReplay()
    await Promise.all([...this.#informers.values()].map((informer) => informer.stop()))
  }

  #scheduleReplay(): void {
    this.#cancelReplay = this.#clock.setTimeout(() => {
      for (const informer of this.#informers.values()) informer.replayAll()
      this.#scheduleReplay()
    }, REPLAY_MS)
  }
}
