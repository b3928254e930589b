/**
 * A small cluster without processes, ports or time of its own: the real rooms and clients on objects in
 * memory, called as Metacontroller calls them. What an answer says is done to the objects, and the API
 * server judges it; every answer is held to what all answers promise.
 */
import type { FastifyInstance } from 'fastify'
import { pino } from 'pino'
import { definitionOf } from '../../crds/definition.ts'
import { RESOURCES, type Resource } from '../../crds/resources.ts'
import type { HookRequest } from '../../hooks/protocol.ts'
import { buildServer } from '../../hooks/server.ts'
import { EngineConnections } from '../../jobs/clients/engine-route.ts'
import { serviceMetrics } from '../../metacontroller/metrics.ts'
import { roomsOf } from '../../metacontroller/rooms.ts'
import { settings } from '../builders.ts'
import { Resources } from '../world/api/resources.ts'
import type { ApiObject } from '../world/client.ts'
import { MovableClock } from '../world/clock.ts'
import { Broken, checkAnswer, type HookCall } from './promises.ts'
import { PlainKubernetes, type AskEngine } from './plain-kubernetes.ts'
import { Composites } from './composites.ts'

/** Long enough for an answer that is there, short for a pass that waits for the clock. */
const INLINE_MS = 5

const VERSION = settings.version

export class Stage {
  readonly clock = new MovableClock(new Date('2026-03-01T12:00:00Z'))
  readonly resources = new Resources(this.clock)
  /** Answers for every pod. */
  engine: AskEngine = async () => undefined
  readonly #server: FastifyInstance
  readonly #composites = new Composites(this.resources)
  readonly #connections = new EngineConnections()
  #said: Record<string, unknown>[] = []

  constructor() {
    const { clock } = this
    const now = () => clock.now()
    const log = pino(
      { level: 'info' },
      { write: (line) => void this.#said.push(JSON.parse(line) as Record<string, unknown>) },
    )
    const metrics = serviceMetrics(VERSION, now)
    const kubernetes = new PlainKubernetes(this.resources, (call) => this.engine(call))
    const rooms = roomsOf({
      ...{ kubernetes, connections: this.#connections, engineRoute: 'proxy', namespaces: [] },
      ...{ now, timers: clock, metrics, log, inlineMs: INLINE_MS },
    })
    const tokens = () => []
    this.#server = buildServer({ rooms, tokens, log, now, settings, metrics })
    for (const resource of RESOURCES) this.put(definitionOf(resource, VERSION))
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

  /** Phase of a parent, for people. */
  phaseOf(parent: ApiObject): string {
    const { phase = 'gone' } = (this.find(parent)?.status ?? {}) as { phase?: string }
    return phase
  }

  /** Changes an object as a person or a controller would. */
  change(object: ApiObject, to: (old: ApiObject) => ApiObject, part?: 'status'): void {
    const { apiVersion, kind, metadata } = object
    const { namespace = '', name } = metadata
    this.resources.update(this.resources.kinds.of(apiVersion, kind), { namespace, name }, to, part)
  }

  /** One pass over a parent, as Metacontroller makes it; false when it is gone. */
  async pass(resource: Resource, parent: ApiObject): Promise<boolean> {
    const request = await this.request(resource, parent)
    if (request === undefined) return false
    const hook = request.finalizing ? 'finalize' : 'sync'
    const answer = await this.ask({ resource, hook, body: request })
    if (answer.status !== 200) throw new Broken(`${hook} answered ${answer.status}: ${answer.text}`)
    this.#composites.apply(resource, request, answer.text)
    return true
  }

  /** What Metacontroller would send now; undefined when the parent is gone. */
  async request(
    resource: Resource,
    parent: ApiObject,
  ): Promise<HookRequest<ApiObject> | undefined> {
    const live = this.find(parent)
    if (live === undefined) return undefined
    const rules = await this.ask({ resource, hook: 'customize', body: { parent: live } })
    return this.#composites.request(resource, live, rules.text)
  }

  /** Calls a hook; throws `Broken` where the answer breaks a promise. */
  async ask(call: Omit<HookCall, 'said'>): Promise<{ status: number; text: string }> {
    this.#said = []
    const began = performance.now()
    const response = await this.#server.inject({
      method: 'POST',
      url: `/${call.resource.plural}/${call.hook}`,
      headers: { 'content-type': 'application/json' },
      payload: JSON.stringify(call.body),
    })
    const answer = { status: response.statusCode, text: response.body }
    const seconds = (performance.now() - began) / 1000
    checkAnswer({ ...call, said: this.#said }, { ...answer, seconds })
    return answer
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
      if (kind.kind === 'CustomResourceDefinition') continue
      for (const object of store.list(kind)) store.remove(kind, object)
    }
    this.clock.advance(3_600_000)
  }

  async close(): Promise<void> {
    await this.#server.close()
    await this.#connections.close()
  }

  #putNamespace(name: string): void {
    const { resources } = this
    const kind = resources.kinds.of('v1', 'Namespace')
    if (resources.find(kind, '', name) !== undefined) return
    resources.create(kind, '', { apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
  }
}
