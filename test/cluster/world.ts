/**
 * The real world for scenarios: a Kubernetes cluster with the operator installed by its own chart.
 * Time is the machine's, pods are pods, and faults are injected the way they happen.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { API_GROUP, API_KEY_SECRET_KEY, API_VERSION } from '../../crds/contract/names.ts'
import { customResourceDefinition, RESOURCES } from '../../crds/crd.ts'
import type { AnyObject, Secret } from '../../crds/kubernetes.ts'
import { writesIn } from '../audit/calls.ts'
import { openBuckets, type Buckets } from '../world/buckets/buckets.ts'
import { ApiError, type ApiClient, type ApiObject } from '../world/client.ts'
import { schemeOf, type EnginePod } from '../world/engine-call.ts'
import { timeoutError, WorldObjects } from '../world/objects.ts'
import {
  NotSupported,
  type PassingState,
  type Reference,
  type TenantRole,
  type User,
  type World,
  type WorldBucket,
} from '../world/world.ts'
import { ENGINE_VERSIONS } from './engines.ts'
import { openGround, type Ground } from './ground.ts'
import { ApiHindrance } from './hindrance.ts'
import { NAMESPACE, RELEASE } from './install.ts'
import { killPodsOf } from './job-pods.ts'
import { mayRepeat } from './repeat.ts'
import { states } from './states.ts'
import { resizeVolumes } from './storage.ts'

const POLL_MS = 500
const ENGINE_ATTEMPTS = 4
/** As strict as the pods of the engine's own chart allow: their init container runs as root. */
const BASELINE = { 'pod-security.kubernetes.io/enforce': 'baseline' }
/** A bound for what never comes, where a scenario gives none; a busy machine may take its time. */
const UNTIL_SECONDS = 600
/** No deadline is shorter: those of scenarios are also kept by a clock that does not advance while there is work. */
const LEAST_SECONDS = 300

/** Brings the ground up, puts the operator on it, and opens the world there. */
export async function startClusterWorld(
  log: (line: string) => void = () => undefined,
): Promise<ClusterWorld> {
  const ground = await openGround(process.env, log)
  try {
    await ground.defineKinds()
    await ground.install()
    return openClusterWorld(ground)
  } catch (error) {
    await ground.close()
    throw error
  }
}

/** The world on a cluster that has the operator. */
export function openClusterWorld(ground: Ground): ClusterWorld {
  return new OpenWorld(ground)
}

/** Seconds until a wait fails, from those that the scenario asks for. */
export function deadlineOf(asked?: number): number {
  return Math.max(asked ?? UNTIL_SECONDS, LEAST_SECONDS)
}

/** The world, and the client it works with. */
export type ClusterWorld = World & {
  readonly client: ApiClient
  /** Deletes every namespace that was opened, with all that is in it. */
  clear(): Promise<void>
}

/** The Deployment of the hook service. */
const SERVICE = { apiVersion: 'apps/v1', kind: 'Deployment', namespace: NAMESPACE, name: RELEASE }

class OpenWorld extends WorldObjects implements ClusterWorld {
  readonly kind = 'cluster'
  readonly components: string[]
  readonly versions = ENGINE_VERSIONS
  readonly faults: World['faults']
  readonly #ground: Ground
  readonly #namespaces: string[] = []
  readonly #users: ApiClient[] = []
  readonly #hindrance: ApiHindrance
  #buckets: Promise<Buckets> | undefined
  #closing = false
  /** Another run may have left namespaces that still end. */
  readonly #run = Date.now().toString(36)

  constructor(ground: Ground) {
    super(ground.api)
    this.#ground = ground
    this.#hindrance = new ApiHindrance(ground.api)
    this.components = ground.parts
    this.faults = {
      killJobPod: (namespace, job) => killPodsOf(ground.api, { namespace, job }),
      prepareFreeze: (namespace, pod) => ground.prepareFreeze(namespace, pod),
      stopService: async () => {
        this.#refuseLate()
        await this.#scaleService(0)
      },
      startService: () => this.#scaleService(1),
      upgradeService: (version) => this.#upgrade(version),
      restartControllers: () => ground.restartControllers(),
      rotateToken: () => ground.rotateToken(),
      degradeApi: (hindrance) => this.#hinderApi(hindrance),
      breakPod: (namespace, pod) => ground.freezePod(namespace, pod, true),
      healPod: (namespace, pod) => ground.freezePod(namespace, pod, false),
    }
  }

  async namespace(purpose: string): Promise<string> {
    this.#refuseLate()
    // Two scenarios may have one purpose in mind.
    const name = `${purpose}-${this.#run}-${this.#namespaces.length}`
    this.#namespaces.push(name)
    const metadata = { name, labels: BASELINE }
    await this.client.create({ apiVersion: 'v1', kind: 'Namespace', metadata })
    return name
  }

  async bucket(namespace: string): Promise<WorldBucket> {
    const { api, gateHost } = this.#ground
    const store = this.#ground.store()
    this.#buckets ??= openBuckets({ api, store, ...(gateHost !== undefined && { gateHost }) })
    return (await this.#buckets).open(namespace)
  }

  async waitFor(
    reference: Reference,
    what: string,
    isReached: (object: AnyObject | undefined) => boolean,
    seconds?: number,
  ): Promise<AnyObject | undefined> {
    const state = { what, isReached, ...(seconds !== undefined && { seconds }) }
    return this.waitForPassing(reference, state, async () => undefined)
  }

  async waitForPassing(
    reference: Reference,
    { what, isReached, seconds: asked }: PassingState,
    action: () => Promise<unknown>,
  ): Promise<AnyObject | undefined> {
    const seconds = deadlineOf(asked)
    const seen = states(this.client, reference, AbortSignal.timeout(seconds * 1000))
    let last: AnyObject | undefined
    try {
      // What comes after the first look is seen, however late it is read.
      let next = await seen.next()
      await action()
      for (; next.done !== true; next = await seen.next()) {
        last = next.value ?? undefined
        if (isReached(last)) return last
      }
      throw timeoutError(reference, what, { seconds, last })
    } finally {
      await seen.return()
    }
  }

  async tenant(namespace: string, role: TenantRole): Promise<User> {
    const name = `tenant-${role}`
    await this.apply({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { namespace, name } })
    for (const object of roleBindingsOf(namespace, name, role)) await this.apply(object)
    const user = await this.user({ namespace, name })
    // A new binding is known to the API server's authorizer a moment later.
    for (;;) {
      try {
        await user.list(API_VERSION, 'VecBackup', { namespace })
        return user
      } catch (error) {
        if (!(error instanceof ApiError) || error.status !== 403) throw error
        await sleep(POLL_MS)
      }
    }
  }

  async user({ namespace, name }: { namespace: string; name: string }): Promise<User> {
    const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`
    const request = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} }
    const answer = JSON.parse(await this.client.raw('POST', path, request)) as {
      status: { token: string }
    }
    const client = this.#ground.connect(answer.status.token)
    this.#users.push(client)
    return client
  }

  now(): Date {
    return new Date()
  }

  async advance(seconds: number): Promise<void> {
    await sleep(seconds * 1000)
  }

  resizeVolumes(namespace: string): Promise<void> {
    return resizeVolumes(this.client, namespace)
  }

  async logs(namespace: string, job: string): Promise<string> {
    return this.#logsOf(namespace, `job-name=${job}`)
  }

  async writes(namespace: string): Promise<string[]> {
    const { auditLog } = this.#ground
    if (auditLog === undefined)
      throw new NotSupported('the cluster is not ours: it shows no audit log')
    return writesIn(auditLog, namespace)
  }

  async serviceLog(): Promise<string> {
    return this.#logsOf(NAMESPACE, `app.kubernetes.io/name=${RELEASE}`)
  }

  async engine(
    { namespace, name }: { namespace: string; name: string },
    method: string,
    path: string,
    body?: object,
    given?: string,
  ): Promise<unknown> {
    const keySecret = name.replace(/-\d+$/, '-apikey')
    const core = { apiVersion: 'v1', namespace }
    const [secret, pod] = await Promise.all([
      this.client.get({ ...core, kind: 'Secret', name: keySecret }),
      this.client.get({ ...core, kind: 'Pod', name }),
    ])
    const encoded = (secret as Secret | undefined)?.data?.[API_KEY_SECRET_KEY]
    const key = given ?? (encoded && Buffer.from(encoded, 'base64').toString())
    const target = `${schemeOf(pod as EnginePod | undefined)}:${name}:6333`
    const proxy = `/api/v1/namespaces/${namespace}/pods/${target}/proxy${path}`
    const headers = key === undefined ? {} : { 'api-key': key }
    for (let attempt = 1; ; attempt += 1) {
      try {
        return JSON.parse(await this.client.raw(method, proxy, body, headers))
      } catch (error) {
        if (!mayRepeat(error, method, path) || attempt === ENGINE_ATTEMPTS) throw error
      }
    }
  }

  /** Also in the middle of a scenario: it gets nothing new any more. */
  async close(): Promise<void> {
    this.#closing = true
    try {
      await this.#bringBack()
      await this.clear()
    } finally {
      await (await this.#buckets)?.close()
      for (const user of this.#users) await user.close()
      await this.#ground.close()
    }
  }

  /** While the operator still runs: without it no finalizer would ever go. */
  async clear(): Promise<void> {
    const references = this.#namespaces.splice(0).map((name) => ({
      apiVersion: 'v1',
      kind: 'Namespace',
      namespace: '',
      name,
    }))
    for (const reference of references) {
      if ((await this.client.get(reference)) !== undefined) await this.client.delete(reference)
    }
    for (const reference of references) {
      await this.waitFor(reference, 'gone', (object) => object === undefined)
    }
  }

  async #logsOf(namespace: string, labelSelector: string): Promise<string> {
    const { items } = await this.client.list('v1', 'Pod', { namespace, labelSelector })
    const pods = items.toSorted((one, other) => created(one).localeCompare(created(other)))
    const logs: string[] = []
    for (const { metadata } of pods) {
      const path = `/api/v1/namespaces/${namespace}/pods/${metadata.name}/log`
      logs.push(await this.client.raw('GET', path).catch(nothingThere))
    }
    return logs.join('')
  }

  /** What a scenario that was broken off has taken away, if the operator is installed at all. */
  async #bringBack(): Promise<void> {
    if (this.#hindrance.acts) await this.#hindrance.end()
    const service = (await this.get(SERVICE)) as { spec?: { replicas?: number } } | undefined
    if (service?.spec?.replicas === 0) await this.#scaleService(1)
  }

  #refuseLate(): void {
    if (this.#closing) throw new Error('the world is being closed')
  }

  async #scaleService(replicas: number): Promise<void> {
    await this.client.patch(SERVICE, { spec: { replicas } })
    await this.waitFor(SERVICE, `${replicas} replicas`, (object) => readyIs(object, replicas))
    if (replicas > 0) return
    const labelSelector = `app.kubernetes.io/name=${RELEASE}`
    for (;;) {
      const { items } = await this.client.list('v1', 'Pod', { namespace: NAMESPACE, labelSelector })
      if (items.length === 0) return
      await sleep(POLL_MS)
    }
  }

  async #hinderApi(hindrance?: 'busy' | 'slow'): Promise<void> {
    if (hindrance === 'slow')
      throw new NotSupported('a slow API server is shown in the embedded world')
    await (hindrance === 'busy' ? this.#hindrance.begin() : this.#hindrance.end())
  }

  /** As the documentation says: the CRDs first, then the chart. */
  async #upgrade(version: string): Promise<void> {
    for (const resource of RESOURCES) await this.apply(customResourceDefinition(resource, version))
    await this.#ground.upgradeOperator(version)
  }
}

/** By a role of Kubernetes, which the chart adds our kinds to, or by a Role that has nothing else. */
function roleBindingsOf(namespace: string, name: string, role: TenantRole): object[] {
  const apiGroup = 'rbac.authorization.k8s.io'
  const apiVersion = `${apiGroup}/v1`
  const metadata = { namespace, name }
  const subjects = [{ kind: 'ServiceAccount', namespace, name }]
  const rules = [{ apiGroups: [API_GROUP], resources: ['*'], verbs: ['*'] }]
  const roleRef =
    role === 'kinds'
      ? { apiGroup, kind: 'Role', name }
      : { apiGroup, kind: 'ClusterRole', name: role }
  return [
    ...(role === 'kinds' ? [{ apiVersion, kind: 'Role', metadata, rules }] : []),
    { apiVersion, kind: 'RoleBinding', metadata, roleRef, subjects },
  ]
}

function readyIs(object: AnyObject | undefined, replicas: number): boolean {
  const { status = {} } = (object ?? {}) as {
    status?: { readyReplicas?: number; replicas?: number }
  }
  return (status.readyReplicas ?? 0) === replicas && (status.replicas ?? 0) === replicas
}

/**
 * The log of a container that has not started, or that the kubelet calls terminated without having started it, or
 * of a pod that was deleted since it was listed.
 */
function nothingThere(error: unknown): string {
  if (!(error instanceof ApiError)) throw error
  const hasNoLog = / is waiting to start|^container "[^"]+" in pod "[^"]+" is terminated$/
  if (error.status === 404 || hasNoLog.test(error.message)) return ''
  throw error
}

function created({ metadata }: ApiObject): string {
  return metadata.creationTimestamp ?? ''
}
