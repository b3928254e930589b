/**
 * The embedded world: a whole cluster with the operator in it, in this process and in seconds. Only
 * Jobs are processes of their own. Time is the world's and moves in `until` and `pass` alone.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { AnyObject } from '../../crds/kubernetes.ts'
import { PLURALS } from '../../metacontroller/controllers.ts'
import { ROLE_RECORDINGS, type RoleRecording } from '../chart/golden.ts'
import { startApi, type EmbeddedApi } from './api/server.ts'
import type { Buckets } from './buckets/buckets.ts'
import { openEmbeddedBuckets } from './buckets/embedded.ts'
import { applyObject } from './apply.ts'
import { chartRoles, METACONTROLLER_ACCOUNT, SERVICE_ACCOUNT } from './chart-roles.ts'
import { ApiClient, type ApiObject } from './client.ts'
import { ManualClock } from './clock.ts'
import { startControllers, type Controllers } from './controllers/index.ts'
import { callEngine } from './engine-call.ts'
import { WorldObjects, timeoutError } from './objects.ts'
import { Operator } from './operator.ts'
import { ClockDriver } from './clock-driver.ts'
import {
  NotSupported,
  type PassingState,
  type Reference,
  type User,
  type World,
  type WorldBucket,
} from './world.ts'

export interface EmbeddedOptions {
  /** Release of the operator. */
  version?: string
  /** Plurals of the kinds that are served; default: all, as in the chart. */
  kinds?: readonly string[]
  /** The installation, by its recorded Roles: for all namespaces (default), or for some that exist then. */
  roles?: RoleRecording
  /** Environment that every Job process gets in addition to its own. */
  env?: Record<string, string>
  /** Seconds that pass in the world and in its processes for each second in which these run; default 1. */
  speed?: number
}

/** What only this world has. */
export interface EmbeddedWorld extends World {
  readonly clock: ManualClock
  readonly api: EmbeddedApi
  readonly client: ApiClient
  readonly controllers: Controllers
  /** Calls a hook of the service with any body. */
  callHook(path: string, body: unknown): Promise<{ status: number; text: string }>
  /** Lines of the service and the loop since this was last asked. */
  newLogLines(): string[]
}

const HELM = fileURLToPath(new URL('../doubles/helm', import.meta.url))
const WAIT_SECONDS = 120
/** Delay of each of several calls of one hook; all of them together are below its limit. */
const SLOW_CALL_MS = 300

export async function startEmbeddedWorld(options: EmbeddedOptions = {}): Promise<EmbeddedWorld> {
  const { version = '0.1.0', kinds = PLURALS, roles = 'roles', speed = 1 } = options
  const env = { EMBEDDED_TIME_FACTOR: String(speed), ...options.env }
  const namespaces = ROLE_RECORDINGS[roles]
  const folder = mkdtempSync(join(tmpdir(), 'vec-world-'))
  const clock = new ManualClock(new Date())
  const api = await startApi(clock)
  const client = new ApiClient({ server: api.url, token: api.token })
  const controllers = startControllers({ api, clock, helm: HELM, env })
  const buckets = await openEmbeddedBuckets(client, clock)
  const tokens = { service: api.serviceToken, loop: api.loopToken }
  const parts = { api: client, tokens, clock, folder }
  const operator = new Operator({ ...parts, version, kinds, namespaces })
  const close = async () => {
    await operator.close()
    await controllers.close()
    await buckets.close()
    await client.close()
    await api.close()
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    // Every account may do what the chart permits, and nothing else.
    for (const name of ['default', SERVICE_ACCOUNT.namespace, ...namespaces])
      await applyObject(client, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
    for (const role of chartRoles(roles)) await applyObject(client, role)
    api.enforceRbac({ service: SERVICE_ACCOUNT, loop: METACONTROLLER_ACCOUNT })
    await operator.start()
    // Kubernetes counts in seconds: what is made from now on is made after the operator's start.
    clock.advance(1_000)
  } catch (error) {
    await close()
    throw error
  }
  return new RunningWorld({ clock, speed, api, client, controllers, operator, buckets, close })
}

interface RunningWorldOptions {
  clock: ManualClock
  speed: number
  api: EmbeddedApi
  client: ApiClient
  controllers: Controllers
  operator: Operator
  buckets: Buckets
  close: () => Promise<void>
}

class RunningWorld extends WorldObjects implements EmbeddedWorld {
  readonly kind = 'embedded'
  readonly components = [
    'API server, controllers, kubelet: embedded in this process',
    'Metacontroller: our loop',
    'helm and the chart: our double, a process',
    'engine: our double, a server for each pod; S3: our double, a server',
    'hook service: the real one, in this process; Jobs: the real ones, processes',
  ]
  readonly versions = { older: '1.18.2', newer: '1.18.3' }
  readonly clock: ManualClock
  readonly api: EmbeddedApi
  readonly controllers: Controllers
  readonly faults: World['faults']
  readonly #operator: Operator
  readonly #buckets: Buckets
  readonly #driver: ClockDriver
  readonly #close: () => Promise<void>
  readonly #users: ApiClient[] = []
  #namespaces = 0

  constructor(options: RunningWorldOptions) {
    const { clock, speed, api, client, controllers, operator, buckets, close } = options
    super(client)
    this.clock = clock
    this.api = api
    this.controllers = controllers
    this.#operator = operator
    this.#buckets = buckets
    this.#close = close
    const activity = {
      busy: () => api.inFlight() > 0 || controllers.busy() || operator.busy(),
      processes: () => controllers.kubelet.processes(),
      lastActivityAt: () =>
        Math.max(api.podCallAt(), buckets.heardAt(), controllers.kubelet.startedAt()),
      revision: () => api.resources.store.revision,
    }
    this.#driver = new ClockDriver(clock, activity, { speed })
    this.faults = {
      killJobPod: (namespace, job) => this.#killJobPod(namespace, job),
      prepareFreeze: async () => {
        throw new NotSupported('a process that is stopped is seen on a real cluster only')
      },
      stopService: () => operator.stopService(),
      startService: () => operator.startService(),
      upgradeService: (version) => operator.upgrade(version),
      restartControllers: async () => controllers.restart(),
      rotateToken: () => operator.rotateToken(),
      degradeApi: async (hindrance) =>
        api.hinder(hindrance === 'slow' ? { slowMs: SLOW_CALL_MS } : hindrance),
      breakPod: async (namespace, pod) => controllers.kubelet.setReady(namespace, pod, false),
      healPod: async (namespace, pod) => controllers.kubelet.setReady(namespace, pod, true),
    }
  }

  async namespace(purpose: string): Promise<string> {
    this.#namespaces += 1
    const name = `${purpose}-${this.#namespaces}`
    await this.client.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
    return name
  }

  async bucket(namespace: string): Promise<WorldBucket> {
    return this.#buckets.open(namespace)
  }

  async waitFor(
    reference: Reference,
    what: string,
    isReached: (object: AnyObject | undefined) => boolean,
    seconds = WAIT_SECONDS,
  ): Promise<AnyObject | undefined> {
    return this.waitForPassing(reference, { what, isReached, seconds }, async () => undefined)
  }

  async waitForPassing(
    reference: Reference,
    { what, isReached, seconds = WAIT_SECONDS }: PassingState,
    action: () => Promise<unknown>,
  ): Promise<AnyObject | undefined> {
    const { store } = this.api.resources
    let last = this.#read(reference)
    let isMet = isReached(last)
    // Every state is judged, also one that lasts for a moment.
    const unsubscribe = store.subscribe(({ object }) => {
      if (isMet || !matchesReference(object, reference)) return
      last = this.#read(reference)
      isMet = isReached(last)
    })
    try {
      await action()
      const isOver = () => isMet || this.#operator.failure() !== undefined
      const inTime = await this.#driver.wait(isOver, seconds * 1000)
      const failure = this.#operator.failure()
      if (failure !== undefined) throw failure
      if (inTime) return last
      throw timeoutError(reference, what, { seconds, last })
    } finally {
      unsubscribe()
    }
  }

  async tenant(namespace: string): Promise<User> {
    const user = new ApiClient({ server: this.api.url, token: this.api.admit(namespace) })
    this.#users.push(user)
    return user
  }

  async user(): Promise<User> {
    throw new NotSupported('the embedded API server knows no rights within a namespace')
  }

  now(): Date {
    return this.clock.now()
  }

  async advance(seconds: number): Promise<void> {
    await this.#driver.wait(() => false, seconds * 1000)
  }

  async logs(namespace: string, job: string): Promise<string> {
    const pods = await this.#podsOf(namespace, job)
    const logs = pods.map(({ metadata }) => this.controllers.kubelet.log(namespace, metadata.name))
    return logs.join('')
  }

  async writes(namespace: string): Promise<string[]> {
    return this.api.writes(namespace)
  }

  async serviceLog(): Promise<string> {
    return this.#operator.log()
  }

  newLogLines(): string[] {
    return this.#operator.newLogLines()
  }

  async engine(
    { namespace, name }: { namespace: string; name: string },
    method: string,
    path: string,
    body?: object,
    key?: string,
  ): Promise<unknown> {
    return callEngine(this.api, { namespace, name }, { method, path, body, key })
  }

  callHook(path: string, body: unknown): Promise<{ status: number; text: string }> {
    return this.#operator.callHook(path, body)
  }

  async close(): Promise<void> {
    this.#driver.stop()
    for (const user of this.#users) await user.close()
    await this.#close()
    // A real API server drops such a field and says so in a header that no client here reads.
    if (this.api.warnings.length > 0) throw new Error(this.api.warnings.join('\n'))
  }

  #read({ apiVersion, kind, namespace, name }: Reference): ApiObject | undefined {
    const { kinds } = this.api.resources
    const resourceType = kinds
      .all()
      .find(
        (first) =>
          first.kind === kind &&
          apiVersion === [first.group, first.version].filter(Boolean).join('/'),
      )
    return (
      resourceType &&
      this.api.resources.find(resourceType, resourceType.namespaced ? namespace : '', name)
    )
  }

  async #podsOf(namespace: string, job: string): Promise<ApiObject[]> {
    const labelSelector = `job-name=${job}`
    const { items } = await this.client.list('v1', 'Pod', { namespace, labelSelector })
    return items.toSorted((first, second) =>
      creationOrder(first).localeCompare(creationOrder(second)),
    )
  }

  /** The controller of volumes does it. */
  async resizeVolumes(): Promise<void> {}

  async #killJobPod(namespace: string, job: string): Promise<void> {
    for (const { metadata } of await this.#podsOf(namespace, job)) {
      this.controllers.kubelet.kill(namespace, metadata.name)
    }
  }
}

function matchesReference(object: ApiObject, { kind, namespace, name }: Reference): boolean {
  const { metadata } = object
  return object.kind === kind && metadata.name === name && (metadata.namespace ?? '') === namespace
}

function creationOrder({ metadata }: ApiObject): string {
  return `${metadata.creationTimestamp ?? ''} ${metadata.resourceVersion ?? ''}`
}
