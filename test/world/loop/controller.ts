/**
 * One CompositeController: watches its parents and their children, and brings each parent in turn
 * through a pass of finalizer, claim, customize, hook, timer, children and status.
 */
import type { ApiClient, ApiObject } from '../client.ts'
import type { Clock } from '../clock.ts'
import { CustomizeAnswer, SyncAnswer } from './answer.ts'
import { Children, desiredChildren, wantedChildren, words } from './children.ts'
import { claimChildren } from './claim.ts'
import type { CompositeController } from './composite.ts'
import { Customize, NotSynced } from './customize.ts'
import type { Discovery } from './discovery.ts'
import type { SyncErrors } from './events.ts'
import { Finalizer } from './finalizer.ts'
import { Hook, TooManyRequests, type HookSurroundings } from './hooks.ts'
import { REPLAY_MS, type Informer, type Informers } from './informer.ts'
import { describe, groupOf, isDeleting, keyOf, ownerOf, same, type ObjectMap } from './object.ts'
import { WorkQueue } from './queue.ts'
import { childSelector, matcher } from './selector.ts'
import { writeStatus } from './status.ts'

const WORKERS = 5

/** What ends the whole process of Metacontroller, whatever else it is doing. */
export class Crash extends Error {}

export interface Surroundings {
  api: ApiClient
  clock: Clock
  discovery: Discovery
  informers: Informers
  events: SyncErrors
  hooks: HookSurroundings
  log: (line: string) => void
  crash: (error: Crash) => void
}

/** What a controller has once everything it needs is there. */
interface Parts {
  parents: Informer
  children: Informer[]
  childManagement: Children
  customize: Customize
  sync: Hook<typeof SyncAnswer>
  finalize: Hook<typeof SyncAnswer> | undefined
  hooks: { close(): Promise<void> }[]
}

export class Controller {
  readonly #controller: CompositeController
  readonly #around: Surroundings
  readonly #queue: WorkQueue
  readonly #finalizer: Finalizer
  readonly #selected: (parent: ApiObject) => boolean
  #workers: Promise<void>[] = []
  #hooks: { close(): Promise<void> }[] = []
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
      const parts = await this.#open()
      this.#hooks = parts.hooks
      this.#subscribe(parts)
      await Promise.all([parts.parents, ...parts.children].map((informer) => informer.whenSynced()))
      this.#workers = Array.from({ length: WORKERS }, () => this.#work(parts))
    } finally {
      this.#starting = false
    }
  }

  async stop(): Promise<void> {
    this.#cancelResync()
    this.#queue.close()
    await Promise.all(this.#workers)
    await Promise.all(this.#hooks.map((hook) => hook.close()))
  }

  async #open(): Promise<Parts> {
    const { api, clock, discovery, informers, hooks } = this.#around
    const { spec } = this.#controller
    const { apiVersion, resource } = spec.parentResource
    await requireStatus(api, apiVersion, resource)
    const childManagement = new Children(api, discovery)
    await childManagement.learnMethods(this.#controller)
    const open = async <Schema extends typeof SyncAnswer | typeof CustomizeAnswer>(
      name: 'sync' | 'finalize' | 'customize',
      schema: Schema,
    ) => {
      const hook = spec.hooks[name]
      return hook === undefined ? undefined : Hook.open(hook.webhook, schema, hooks)
    }
    const sync = await Hook.open(spec.hooks.sync.webhook, SyncAnswer, hooks)
    const finalize = await open('finalize', SyncAnswer)
    const customizeHook = await open('customize', CustomizeAnswer)
    const parents = await informers.of(apiVersion, resource)
    const children: Informer[] = []
    for (const child of spec.childResources ?? []) {
      children.push(await informers.of(child.apiVersion, child.resource))
    }
    const customize = new Customize({
      controller: this.#controller,
      hook: customizeHook,
      parents,
      informers,
      namespaces: await informers.of('v1', 'namespaces'),
      clock,
      enqueue: (parent) => this.#enqueue(parent),
    })
    const opened = [sync, finalize, customizeHook].filter((hook) => hook !== undefined)
    return { parents, children, childManagement, customize, sync, finalize, hooks: opened }
  }

  #subscribe({ parents, children }: Parts): void {
    const parentEvents = {
      added: (parent: ApiObject) => this.#enqueue(parent),
      updated: (old: ApiObject, parent: ApiObject) => {
        if (!this.#ignores(old, parent)) this.#enqueue(parent)
      },
      deleted: (parent: ApiObject) => this.#enqueue(parent),
    }
    parents.subscribe(parentEvents)
    this.#resync(() => parents.replay(parentEvents))
    for (const informer of children) {
      informer.subscribe({
        added: (child) => this.#childChanged(parents, child),
        updated: (old, child) => {
          const replayed = old.metadata.resourceVersion === child.metadata.resourceVersion
          if (!replayed) this.#childChanged(parents, child)
        },
        deleted: (child) => this.#enqueueOwner(parents, child),
      })
    }
  }

  /** A period that is not shorter than the replay of every cache has no effect of its own. */
  #resync(replay: () => void): void {
    const seconds = this.#controller.spec.resyncPeriodSeconds
    if (seconds === undefined) return
    const period = Math.max(1, seconds) * 1000
    if (period >= REPLAY_MS) return
    const again = () => {
      this.#cancelResync = this.#around.clock.setTimeout(() => {
        replay()
        again()
      }, period)
    }
    again()
  }

  #enqueue(parent: ApiObject): void {
    if (this.#concerns(parent)) this.#queue.add(keyOf(parent))
  }

  /** A parent that is not selected any more is still ours while it has our finalizer. */
  #concerns(parent: ApiObject): boolean {
    return this.#finalizer.on(parent) || this.#selected(parent)
  }

  /** Where status changes are ignored, only what a person can change counts. A replay always does. */
  #ignores(old: ApiObject, parent: ApiObject): boolean {
    return (
      this.#controller.spec.parentResource.ignoreStatusChanges === true &&
      old !== parent &&
      old.metadata.generation === parent.metadata.generation &&
      same(old.metadata.labels, parent.metadata.labels) &&
      same(old.metadata.annotations, parent.metadata.annotations) &&
      !isDeleting(parent)
    )
  }

  #childChanged(parents: Informer, child: ApiObject): void {
    if (isDeleting(child) || ownerOf(child) !== undefined) {
      this.#enqueueOwner(parents, child)
      return
    }
    // An orphan: every parent it matches may want it.
    for (const parent of parents.list(parents.kind.namespaced ? child.metadata.namespace : '')) {
      if (this.#wouldAdopt(parent, child)) this.#enqueue(parent)
    }
  }

  #wouldAdopt(parent: ApiObject, child: ApiObject): boolean {
    try {
      return childSelector(this.#controller, parent)(child.metadata.labels)
    } catch {
      return false
    }
  }

  #enqueueOwner(parents: Informer, child: ApiObject): void {
    const owner = ownerOf(child)
    const { kind, apiVersion, namespaced } = parents.kind
    if (owner?.kind !== kind || groupOf(owner.apiVersion) !== groupOf(apiVersion)) return
    const { namespace = '' } = child.metadata
    const parent = parents.get(
      namespaced && namespace !== '' ? `${namespace}/${owner.name}` : owner.name,
    )
    if (parent?.metadata.uid === owner.uid) this.#enqueue(parent)
  }

  async #work(parts: Parts): Promise<void> {
    for (;;) {
      const key = await this.#queue.take()
      if (key === undefined) return
      await this.#process(parts, key)
      this.#queue.done(key)
    }
  }

  async #process(parts: Parts, key: string): Promise<void> {
    const parent = parts.parents.get(key)
    try {
      if (parent !== undefined) await this.#pass(parts, parent)
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
    if (this.#around.hooks.stopped.aborted) return
    this.#around.log(`${this.#controller.metadata.name} ${key}: ${words(error)}`)
    this.#around.events.report(parent, words(error))
  }

  async #pass(parts: Parts, cached: ApiObject): Promise<void> {
    const { api } = this.#around
    if (!this.#concerns(cached)) return
    let parent = await this.#settleFinalizer(cached)
    if (!this.#concerns(parent)) return
    const matches = childSelector(this.#controller, parent)
    const observed = await claimChildren({ api, parent, matches, children: parts.children })
    const answer = await this.#ask(parts, parent, observed)
    const wanted = wantedChildren(parent, childrenOf(answer, parent))

    const after = answer.resyncAfterSeconds ?? 0
    if (after > 0) this.#queue.addAfter(keyOf(parent), after * 1000)
    if (answer.finalized === true) parent = await this.#finalizer.remove(parent)

    // A wrong label ends the pass before anything is written.
    const desired = desiredChildren(this.#controller, parent, wanted, matches)
    const error = await this.#manage(parts, parent, observed, desired)
    // The status tells of children that could not be made, too. Given up, it takes the error with it.
    const written = await writeStatus(api, parent, answer.status).catch((failure: unknown) => {
      throw new Error(`can't update status for ${describe(parent)}: ${words(failure)}`)
    })
    if (written && error !== undefined) throw error
  }

  async #settleFinalizer(parent: ApiObject): Promise<ApiObject> {
    return this.#finalizer.settle(parent).catch((error: unknown) => {
      throw new Error(`can't sync finalizer for ${describe(parent)}: ${words(error)}`)
    })
  }

  async #ask(parts: Parts, parent: ApiObject, children: ObjectMap): Promise<SyncAnswer> {
    const related = await parts.customize.relatedOf(parent)
    const ending = isDeleting(parent) || !this.#selected(parent)
    const hook = ending && parts.finalize !== undefined ? parts.finalize : parts.sync
    const finalizing = hook === parts.finalize
    const controller = this.#controller
    try {
      return await hook.call({ controller, parent, children, related, finalizing })
    } catch (error) {
      if (error instanceof TooManyRequests) throw error
      throw new Error(`${finalizing ? 'finalize' : 'sync'} hook failed: ${words(error)}`)
    }
  }

  /** Answers the error instead of throwing it: status comes first. */
  async #manage(parts: Parts, parent: ApiObject, observed: ObjectMap, desired: ObjectMap) {
    if (isDeleting(parent) && !this.#finalizer.governs(parent)) return undefined
    try {
      await parts.childManagement.manage(parent, observed, desired)
      return undefined
    } catch (error) {
      return new Error(`can't reconcile children for ${describe(parent)}: ${words(error)}`)
    }
  }
}

/** A null among the children is dereferenced by the real one, which ends its process. */
function childrenOf({ children }: SyncAnswer, parent: ApiObject): ApiObject[] {
  const found = children ?? []
  if (found.includes(null)) {
    throw new Crash(`a hook answered a null child for ${describe(parent)}`)
  }
  return found
    .filter((child) => child !== null)
    .map((child) => ({ apiVersion: '', ...child, metadata: { name: '', ...child.metadata } }))
}

/** A parent must be a custom resource whose status is written apart from the rest. */
async function requireStatus(api: ApiClient, apiVersion: string, resource: string): Promise<void> {
  const [group, version] = apiVersion.split('/')
  const name = `${resource}.${group ?? ''}`
  const kind = { apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition' }
  const crd = await api.get({ ...kind, namespace: '', name })
  const { versions = [] } = (crd?.spec ?? {}) as {
    versions?: { name: string; subresources?: { status?: object } }[]
  }
  const found = versions.find((candidate) => candidate.name === version)
  if (found?.subresources?.status === undefined) {
    throw new Error(`parent ${name} is no CRD with a status subresource in ${apiVersion}`)
  }
}
