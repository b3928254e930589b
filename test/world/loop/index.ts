/**
 * Replaces Metacontroller: runs CompositeControllers against an API server, embedded or real.
 * What it must do is written in test/contract/metacontroller, which holds it to the real one.
 */
import type { ApiClient } from '../client.ts'
import type { Clock } from '../clock.ts'
import { words } from './children.ts'
import { checkController, type CompositeController } from './composite.ts'
import { Controller } from './controller.ts'
import { Discovery } from './discovery.ts'
import { SyncErrors } from './events.ts'
import { Informers } from './informer.ts'
import type { Surroundings } from './parts.ts'

const FIRST_RETRY_MS = 5
const LONGEST_RETRY_MS = 1_000_000

export interface LoopOptions {
  api: ApiClient
  /** Plain objects of metacontroller.k8s.io/v1alpha1. */
  controllers: readonly object[]
  clock: Clock
  /** Where the URL of a hook is reached from here; asked at every call. */
  resolve?: (url: string) => string
  log?: (line: string) => void
}

export interface Loop {
  stop(): Promise<void>
  /** Nothing is in progress: no hook call, no pass, no watch event. Only time or the API can change that. */
  idle(): boolean
  /** Why the loop ended, as the real process would have; undefined while it runs. */
  failure(): Error | undefined
}

export function startLoop(options: LoopOptions): Loop {
  return new RunningLoop(options)
}

class RunningLoop implements Loop {
  readonly #around: Surroundings
  readonly #controllers: Controller[]
  readonly #stop = new AbortController()
  readonly #starts: Promise<void>[]
  #failure: Error | undefined

  constructor({
    api,
    controllers,
    clock,
    resolve = (url) => url,
    log = () => undefined,
  }: LoopOptions) {
    const discovery = new Discovery(api)
    this.#around = {
      api,
      clock,
      discovery,
      informers: new Informers(api, discovery, clock),
      events: new SyncErrors(api, clock),
      hooks: { api, clock, resolve, stopped: this.#stop.signal },
      log,
      crash: (error) => this.#crash(error),
    }
    const checked: CompositeController[] = controllers.map(checkController)
    this.#controllers = checked.map((controller) => new Controller(controller, this.#around))
    this.#starts = this.#controllers.map((controller) => this.#start(controller))
  }

  idle(): boolean {
    const { informers } = this.#around
    return !informers.busy && this.#controllers.every((controller) => !controller.busy)
  }

  failure(): Error | undefined {
    return this.#failure
  }

  async stop(): Promise<void> {
    this.#stop.abort()
    const { informers, events } = this.#around
    await Promise.all([informers.stop(), ...this.#starts])
    await Promise.all(this.#controllers.map((controller) => controller.stop()))
    await events.flushed()
  }

  /** A kind that does not exist yet is tried again; no event announces it. */
  async #start(controller: Controller): Promise<void> {
    for (let wait = FIRST_RETRY_MS; !this.#stop.signal.aborted; wait *= 2) {
      try {
        await controller.start()
        return
      } catch (error) {
        this.#around.log(`a controller does not start: ${words(error)}`)
        await this.#pause(Math.min(wait, LONGEST_RETRY_MS))
      }
    }
  }

  async #pause(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<undefined>()
    const end = () => resolve(undefined)
    const cancel = this.#around.clock.setTimeout(end, ms)
    this.#stop.signal.addEventListener('abort', end, { once: true })
    await promise
    cancel()
  }

  #crash(error: Error): void {
    this.#failure ??= error
    this.#around.log(`the loop ends: ${error.message}`)
    void this.stop()
  }
}
