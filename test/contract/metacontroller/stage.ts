/**
 * Where one case plays: a namespace and a hook service of its own, and a controller under
 * examination. What a case notes is compared with what the real Metacontroller did.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { ApiObject } from '../../world/client.ts'
import { ApiError } from '../../world/client.ts'
import { HookServer, type HookBody } from './hook-server.ts'
import { API_VERSION, CONFIG_MAP, JOB, PARENT, PART, SECRET, SERVICE_ACCOUNT } from './kinds.ts'
import { controllerOf, type Setting } from './setting.ts'
import { learnUids, normal } from './normal.ts'
import type { Running, Subject } from './subject.ts'

const QUIET_SECONDS = 0.6
const LOOKS = 25
const LOOK_MS = 4

export class Stage {
  readonly subject: Subject
  readonly namespace: string
  readonly hooks: HookServer
  readonly notes: Record<string, unknown> = {}
  /** Of the case that plays here. */
  readonly setting: Setting
  readonly #names: Map<string, string>
  #running: Running | undefined

  private constructor(subject: Subject, namespace: string, hooks: HookServer, setting: Setting) {
    this.subject = subject
    this.setting = setting
    this.namespace = namespace
    this.hooks = hooks
    this.#names = new Map([
      [namespace, 'here'],
      [hooks.url, '<hooks>'],
    ])
  }

  static async open(subject: Subject, namespace: string, setting: Setting = {}): Promise<Stage> {
    await subject.api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
    const hooks = await HookServer.start(() => subject.now())
    return new Stage(subject, namespace, hooks, setting)
  }

  async start(setting: Setting): Promise<void> {
    this.#running = await this.subject.run(controllerOf(setting, this.hooks.url))
  }

  get crashed(): boolean {
    return this.#running?.crashed() ?? false
  }

  async close(): Promise<void> {
    await this.#running?.stop()
    await this.#removeParents()
    await this.deleteNamespace(this.namespace)
    await this.hooks.close()
  }

  // What a case does.

  async thing(spec: object = {}, metadata: object = {}): Promise<ApiObject> {
    return this.create({
      apiVersion: API_VERSION,
      kind: PARENT.kind,
      metadata: { name: 'alpha', ...metadata },
      spec,
    })
  }

  async create(object: object): Promise<ApiObject> {
    const { metadata } = object as ApiObject
    const made = await this.subject.api.create({
      ...object,
      metadata: { namespace: this.namespace, ...metadata },
    })
    learnUids(made, this.#names)
    return made
  }

  async patch(kind: string, name: string, patch: object): Promise<ApiObject> {
    return this.subject.api.patch(this.#reference(kind, name), patch)
  }

  /** A change by a user that does not change the spec. */
  async touch(mark: string): Promise<void> {
    await this.patch('Thing', 'alpha', { metadata: { annotations: { touched: mark } } })
  }

  async delete(
    kind: string,
    name: string,
    propagation: 'Background' | 'Foreground' | 'Orphan' = 'Background',
  ): Promise<void> {
    await this.subject.api.delete(this.#reference(kind, name), { propagation })
  }

  async get(kind: string, name: string, namespace = this.namespace) {
    return this.subject.api.get({ ...this.#reference(kind, name), namespace })
  }

  // Waiting.

  async until(what: string, condition: () => Promise<unknown>, seconds = 30): Promise<void> {
    const end = this.subject.now() + seconds * 1000
    // What needs no time to pass is there in a moment, and may be over when time has passed.
    for (let looks = 0; looks < LOOKS; looks += 1) {
      if (await condition()) return
      await delay(LOOK_MS)
    }
    while (!(await condition())) {
      if (this.subject.now() > end) {
        const calls = this.hooks.calls.map(({ hook }) => hook).join(' ')
        throw new Error(`not within ${seconds} s: ${what}; calls so far: ${calls}`)
      }
      await this.subject.pass(0.05)
    }
  }

  async untilGone(kind: string, name: string): Promise<void> {
    await this.until(`${kind} ${name} is gone`, async () => {
      return (await this.get(kind, name)) === undefined
    })
  }

  async untilThere(kind: string, name: string, namespace = this.namespace): Promise<ApiObject> {
    let found: ApiObject | undefined
    await this.until(`${kind} ${name} is there`, async () => {
      found = await this.get(kind, name, namespace)
      return found !== undefined
    })
    if (found === undefined) throw new Error('not reached: until throws')
    return found
  }

  async untilCalls(hook: 'sync' | 'finalize' | 'customize', count: number): Promise<void> {
    await this.until(`${count} calls of ${hook}`, async () => this.hooks.of(hook).length >= count)
  }

  /** Until no hook is called any more. */
  async quiet(): Promise<void> {
    for (let before = -1; before !== this.hooks.calls.length;) {
      before = this.hooks.calls.length
      await this.subject.pass(QUIET_SECONDS)
    }
  }

  // What a case notes.

  note(what: string, value: unknown): void {
    learnUids(value, this.#names)
    this.notes[what] = normal(value, this.#names)
  }

  /** The live object, whole; `null` where there is none. */
  async noteObject(what: string, kind: string, name: string, namespace?: string): Promise<void> {
    this.note(what, (await this.get(kind, name, namespace)) ?? null)
  }

  /** The request of a hook, without the controller, which is the same every time. */
  noteRequest(what: string, body: HookBody | undefined): void {
    if (body === undefined) throw new Error(`${what}: the hook was not called`)
    const { parent, children, related, finalizing } = body
    this.note(what, { parent, children, related, finalizing })
  }

  async events(): Promise<ApiObject[]> {
    return (await this.subject.api.list('v1', 'Event', { namespace: this.namespace })).items
  }

  /** `made` resolves once such an object exists, though it may be deleted soon after. */
  async watchFor(kind: string, namespace: string, name: string): Promise<{ made: Promise<void> }> {
    const { api } = this.subject
    const { apiVersion } = this.#reference(kind, name)
    const { resourceVersion } = await api.list(apiVersion, kind, { namespace })
    const stop = new AbortController()
    const options = { namespace, resourceVersion, signal: stop.signal }
    const wait = async () => {
      for await (const { type, object } of api.watch(apiVersion, kind, options)) {
        if (type === 'ADDED' && object.metadata.name === name) break
      }
      stop.abort()
    }
    return { made: wait() }
  }

  async deleteNamespace(name: string): Promise<void> {
    const reference = { apiVersion: 'v1', kind: 'Namespace', namespace: '', name }
    await this.subject.api.delete(reference).catch(ignoreMissing)
  }

  /** Reasons of the events about the parent, each once. */
  async noteEvents(what: string): Promise<void> {
    // Events are written after the pass that they report.
    await this.subject.pass(0.3)
    const reasons = (await this.events()).map(
      (event) => `${String(event['type'])} ${String(event['reason'])}`,
    )
    this.note(what, [...new Set(reasons)].sort())
  }

  /** Which hooks were called, in order; repetitions in a row count once. */
  noteCalls(what: string, from = 0): void {
    const hooks = this.hooks.calls.slice(from).map(({ hook }) => hook)
    this.note(
      what,
      hooks.filter((hook, index) => hook !== hooks[index - 1]),
    )
  }

  /** Waits for a hook request that satisfies the condition. */
  async waitForCall(
    hook: 'sync' | 'finalize',
    what: string,
    condition: (body: HookBody) => boolean,
  ) {
    await this.until(`${hook} receives ${what}`, async () =>
      this.hooks.of(hook).some(({ body }) => condition(body)),
    )
    const call = this.hooks.of(hook).find(({ body }) => condition(body))
    if (call === undefined) throw new Error('not reached: until throws')
    return call
  }

  #reference(kind: string, name: string) {
    const known = [PARENT, PART, CONFIG_MAP, SECRET, JOB, SERVICE_ACCOUNT]
    const found = known.find((candidate) => candidate.kind === kind)
    if (found === undefined) throw new Error(`the contract has no kind ${kind}`)
    return { apiVersion: found.apiVersion, kind, namespace: this.namespace, name }
  }

  /** Parents would outlive their finalizers' owner, and the next controller would see them. */
  async #removeParents(): Promise<void> {
    const { api } = this.subject
    const { items } = await api.list(API_VERSION, PARENT.kind)
    for (const { metadata } of items) {
      const reference = {
        ...this.#reference('Thing', metadata.name),
        namespace: metadata.namespace ?? '',
      }
      await api.delete(reference, { propagation: 'Background' }).catch(ignoreMissing)
      await api.patch(reference, { metadata: { finalizers: null } }).catch(ignoreMissing)
    }
  }
}

function ignoreMissing(error: unknown): void {
  if (!(error instanceof ApiError) || error.status !== 404) throw error
}
