/** One CompositeController: a queue of its parents, and the workers that bring them forward. */
import type { ApiObject } from '../client.ts'
import { words } from './children.ts'
import type { CompositeController } from './composite.ts'
import { NotSynced } from './customize.ts'
import { Finalizer } from './finalizer.ts'
import { TooManyRequests } from './hooks.ts'
import { keyOf } from './object.ts'
import { openParts, type Parts, type Surroundings } from './parts.ts'
import { Crash, runPass, type PassOptions } from './pass.ts'
import { WorkQueue } from './queue.ts'
import { matcher } from './selector.ts'
import { watchParentsAndChildren } from './triggers.ts'

const WORKERS = 5

export class Controller {
  readonly #controller: CompositeController
  readonly #around: Surroundings
  readonly #queue: WorkQueue
  readonly #finalizer: Finalizer
  readonly #selected: (parent: ApiObject) => boolean
  #workers: Promise<void>[] = []
  #parts: Parts | undefined
  #cancelResync: () => void = () => undefined
  #starting = true

  constructor(controller: CompositeController, around: Surroundings) {
    const { metadata, spec } = controller
    this.#controller = controller
    this.#around = around
    this.#queue = new WorkQueue(around.clock)
    this.#finalizer = new Finalizer(around.api, metadata.name, spec.hooks.finalize !== undefined)
    const matches = matcher(spec.parentResource.labelSelector)
    this.#selected = (parent) => matches(parent.metadata.labels)
  }

  get busy(): boolean {
    return this.#starting || this.#queue.busy
  }

  /** Throws when something it needs is not there (yet); it can then be started again. */
  async start(): Promise<void> {
    this.#starting = true
    try {
      const enqueue = (parent: ApiObject) => this.#enqueue(parent)
      const parts = await openParts(this.#controller, this.#around, enqueue)
      this.#parts = parts
      const { parents, children } = parts
      const { clock } = this.#around
      const controller = this.#controller
      this.#cancelResync = watchParentsAndChildren({
        controller,
        parents,
        children,
        clock,
        enqueue,
      })
      await Promise.all([parents, ...children].map((informer) => informer.whenSynced()))
      const options = this.#passOptions(parts)
      this.#workers = Array.from({ length: WORKERS }, () => this.#work(options))
    } finally {
      this.#starting = false
    }
  }

  async stop(): Promise<void> {
    this.#cancelResync()
    this.#queue.close()
    await Promise.all(this.#workers)
    await this.#parts?.close()
  }

  /** A parent that is not selected any more is still ours while it has our finalizer. */
  #enqueue(parent: ApiObject): void {
    if (this.#finalizer.on(parent) || this.#selected(parent)) this.#queue.add(keyOf(parent))
  }

  #passOptions(parts: Parts): PassOptions {
    return {
      api: this.#around.api,
      controller: this.#controller,
      parts,
      finalizer: this.#finalizer,
      selected: this.#selected,
      resync: (parent, ms) => this.#queue.addAfter(keyOf(parent), ms),
    }
  }

  async #work(options: PassOptions): Promise<void> {
    for (;;) {
      const key = await this.#queue.take()
      if (key === undefined) return
      await this.#process(options, key)
      this.#queue.done(key)
    }
  }

  async #process(options: PassOptions, key: string): Promise<void> {
    const parent = options.parts.parents.get(key)
    try {
      if (parent !== undefined) await runPass(options, parent)
      this.#queue.forget(key)
    } catch (error) {
      if (error instanceof Crash) this.#around.crash(error)
      else if (error instanceof TooManyRequests) this.#queue.addAfter(key, error.seconds * 1000)
      else this.#failed(key, parent, error)
    }
  }

  #failed(key: string, parent: ApiObject | undefined, error: unknown): void {
    this.#queue.addRateLimited(key)
    if (error instanceof NotSynced || parent === undefined) return
    // What was cut off by our own end is no failure.
    if (this.#around.hooks.stopped.aborted) return
    this.#around.log(`${this.#controller.metadata.name} ${key}: ${words(error)}`)
    this.#around.events.report(parent, words(error))
  }
}
