/**
 * A small cluster without processes, ports or a real clock: the real kind hooks and clients on objects in
 * memory, called as Metacontroller calls them. The answer of a hook is applied to the objects and validated
 * by the API server; every answer is checked against the promises that hold for all answers.
 */
import type { FastifyInstance } from 'fastify'
import { pino } from 'pino'
import { customResourceDefinition, RESOURCES, type Resource } from '../../crds/crd.ts'
import type { HookRequest } from '../../hooks/protocol.ts'
import { buildServer } from '../../hooks/server.ts'
import { EngineConnections } from '../../jobs/clients/engine/transport.ts'
import { createKindHooks } from '../../metacontroller/hooks.ts'
import { serviceMetrics } from '../../metacontroller/metrics/index.ts'
import { settings } from '../builders.ts'
import { Resources } from '../world/api/resources.ts'
import type { ApiObject } from '../world/client.ts'
import { ManualClock } from '../world/clock.ts'
import { CustomizeAnswer, readAnswer, type SyncAnswer } from '../world/loop/answer.ts'
import { Loop } from './loop.ts'
import type { HookName } from '../world/loop/in-memory.ts'
import type { AskEngine } from '../doubles/engine/without-server.ts'
import { PlainKubernetes } from './plain-kubernetes.ts'
import { Broken, judged, type Answer, type HookCall, type Judged } from './promises.ts'

/** Long enough for an answer that is there, short for a pass that waits for the clock. */
const INLINE_MS = 5

/** Of a time, whatever its fractions are. */
const SECOND = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/g

const VERSION = settings.version

/** What a pass came to. Where it changed no object, and said what the one before it said, the next one will too. */
export type Passed = 'gone' | 'changed' | 'unchanged'

/** Objects as they were at some time. */
export interface Remembered {
  /** Milliseconds since 1970. */
  at: number
  text: string
}

export class Stage {
  readonly clock = new ManualClock(new Date('2026-03-01T12:00:00Z'))
  readonly resources = new Resources(this.clock)
  /** Answers for every pod. */
  engine: AskEngine = async () => undefined
  readonly #server: FastifyInstance
  #loop = this.#newLoop()
  /** What the hook broke in the current pass. */
  readonly #broken: Error[] = []
  readonly #connections = new EngineConnections()
  #said: Record<string, unknown>[] = []
  /** Text of the last decision. */
  lastAnswer = ''
  /** After how many seconds the last pass asked to be repeated. */
  resyncSeconds: number | undefined
  /** How many answers were late, and asked for once more. */
  askedAgain = 0

  constructor() {
    const { clock } = this
    const now = () => clock.now()
    const log = pino(
      { level: 'info' },
      { write: (line) => void this.#said.push(JSON.parse(line) as Record<string, unknown>) },
    )
    const metrics = serviceMetrics(VERSION, now)
    const kubernetes = new PlainKubernetes(this.resources, (call) => this.engine(call))
    const kindHooks = createKindHooks({
      ...{ kubernetes, connections: this.#connections, engineRoute: 'proxy', namespaces: [] },
      jobKeys: () => [],
      ...{ now, timers: clock, metrics, log, inlineMs: INLINE_MS },
    })
    const tokens = () => []
    this.#server = buildServer({ hooks: kindHooks, tokens, log, now, settings, metrics })
    for (const resource of RESOURCES) this.put(customResourceDefinition(resource, VERSION))
  }

  /** Makes an object, with the status it has; throws the refusal of the API server. */
  put(object: ApiObject): ApiObject {
    const { resources } = this
    const kind = resources.kinds.of(object.apiVersion, object.kind)
    const { namespace = '', name } = object.metadata
    if (kind.namespaced) this.#putNamespace(namespace)
    const made = resources.create(kind, namespace, object)
    if (object.status === undefined || !kind.status) return made
    const { status } = object
    return resources.update(kind, { namespace, name }, (old) => ({ ...old, status }), 'status')
  }

  find({ apiVersion, kind, metadata }: ApiObject): ApiObject | undefined {
    const known = this.resources.kinds.of(apiVersion, kind)
    return this.resources.find(known, metadata.namespace ?? '', metadata.name)
  }

  /** Phase of a parent, for messages. */
  phaseOf(parent: ApiObject): string {
    const { phase = 'gone' } = (this.find(parent)?.status ?? {}) as { phase?: string }
    return phase
  }

  /** Changes an object as a user or a controller would. */
  change(object: ApiObject, to: (old: ApiObject) => ApiObject, part?: 'status'): void {
    const { apiVersion, kind, metadata } = object
    const { namespace = '', name } = metadata
    this.resources.update(this.resources.kinds.of(apiVersion, kind), { namespace, name }, to, part)
  }

  /** One pass over a parent, as Metacontroller makes it. */
  async pass(resource: Resource, parent: ApiObject): Promise<Passed> {
    const live = this.find(parent)
    if (live === undefined) return 'gone'
    const { store } = this.resources
    const before = store.revision
    const text = this.lastAnswer
    this.#broken.length = 0
    try {
      this.resyncSeconds = await this.#loop.pass(resource, live)
    } catch (error) {
      const [broken] = this.#broken
      throw broken ?? new Broken(error instanceof Error ? error.message : String(error))
    }
    return store.revision === before && text === this.lastAnswer ? 'unchanged' : 'changed'
  }

  /** What Metacontroller would send now; undefined when the parent is gone. */
  async request(
    resource: Resource,
    parent: ApiObject,
  ): Promise<HookRequest<ApiObject> | undefined> {
    const live = this.find(parent)
    return live === undefined ? undefined : this.#loop.request(resource, live)
  }

  /** Calls a hook; throws `Broken` where the answer breaks a promise. */
  async ask(call: HookCall): Promise<Judged> {
    const asked = await judged(call, () => this.#answer(call))
    if (asked.isAskedAgain) this.askedAgain += 1
    return asked
  }

  async #answer({ resource, hook, body }: HookCall): Promise<Answer> {
    this.#said = []
    const began = performance.now()
    const cpuBefore = process.cpuUsage()
    const response = await this.#server.inject({
      method: 'POST',
      url: `/${resource.plural}/${hook}`,
      headers: { 'content-type': 'application/json' },
      payload: JSON.stringify(body),
    })
    const seconds = (performance.now() - began) / 1000
    const { user, system } = process.cpuUsage(cpuBefore)
    const cpuSeconds = (user + system) / 1e6
    return {
      ...{ status: response.statusCode, text: response.body, seconds, cpuSeconds },
      said: this.#said,
    }
  }

  /** Time passes, and what waits for it goes on. */
  async later(seconds: number): Promise<void> {
    this.clock.advance(seconds * 1000)
    await new Promise(setImmediate)
  }

  /** Forgets every object but the definitions; what the service remembers has grown old. */
  clear(): void {
    const { kinds, store } = this.resources
    for (const kind of kinds.all()) {
      if (kind.kind !== 'CustomResourceDefinition') store.empty(kind)
    }
    this.#loop = this.#newLoop()
    this.clock.advance(3_600_000)
  }

  /** All objects but the definitions. */
  remember(): Remembered {
    const { kinds, store } = this.resources
    const objects = kinds
      .all()
      .filter(({ kind }) => kind !== 'CustomResourceDefinition')
      .flatMap((kind) => store.list(kind))
    return { at: this.clock.now().getTime(), text: JSON.stringify(objects) }
  }

  /** Puts them in the place of what is there, as if all that had happened until now. */
  recall({ at, text }: Remembered): void {
    this.clear()
    const { kinds, store } = this.resources
    const laterMs = this.clock.now().getTime() - at
    const moved = text.replace(SECOND, (second) =>
      new Date(Date.parse(`${second}Z`) + laterMs).toISOString().slice(0, second.length),
    )
    for (const object of JSON.parse(moved) as ApiObject[]) {
      store.put(kinds.of(object.apiVersion, object.kind), object)
    }
  }

  async close(): Promise<void> {
    await this.#server.close()
    await this.#connections.close()
  }

  #newLoop(): Loop {
    return new Loop(this.resources, this.clock, async (resource, hook, body) => {
      try {
        return await this.#decide(resource, hook, body)
      } catch (error) {
        this.#broken.push(error instanceof Error ? error : new Error(String(error)))
        throw error
      }
    })
  }

  async #decide(
    resource: Resource,
    hook: HookName,
    body: object,
  ): Promise<SyncAnswer | CustomizeAnswer> {
    const { answer, decision } = await this.ask({
      ...{ resource, hook },
      body: JSON.parse(JSON.stringify(body)) as unknown,
    })
    const { status, text } = answer
    if (hook === 'customize' && status === 200) return readAnswer(text, CustomizeAnswer, true)
    if (decision === undefined) throw new Broken(`${hook} answered ${status}: ${text}`)
    this.lastAnswer = text
    return decision
  }

  #putNamespace(name: string): void {
    const { resources } = this
    const kind = resources.kinds.of('v1', 'Namespace')
    if (resources.find(kind, '', name) !== undefined) return
    resources.create(kind, '', { apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
  }
}
