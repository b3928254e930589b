/**
 * The embedded world with engines that can be struck: the real ones, a process each, or our doubles. API
 * server, controllers, hook service and loop run in this process; Jobs are processes of the program.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { API_VERSION } from '../../crds/contract/names.ts'
import { PLURALS } from '../../metacontroller/controllers.ts'
import { startBucketServer, type BucketServer } from '../doubles/bucket/server.ts'
import { BucketStore } from '../doubles/bucket/store.ts'
import { program } from '../program.ts'
import { startApi, type EmbeddedApi } from '../world/api/server.ts'
import { recordAt } from '../world/api/json.ts'
import { applyObject } from '../world/apply.ts'
import { ApiClient, type ApiObject } from '../world/client.ts'
import { ManualClock } from '../world/clock.ts'
import type { ContainerOptions, Containers } from '../world/controllers/containers.ts'
import { startControllers, type Controllers } from '../world/controllers/index.ts'
import { isJobContainer, startJobContainer } from '../world/controllers/job-container.ts'
import { Operator } from '../world/operator.ts'
import { ClockDriver } from '../world/clock-driver.ts'
import type { Reference } from '../world/world.ts'
import { RealEngines } from './engines.ts'
import { Link, type Address } from './links.ts'

export const NAMESPACE = 'hard'
export const BUCKET = 'hard'
const ENGINE_PORT = 6333
/** Listings of the store are truncated after so many entries. */
const LISTED = 7
/** So much later a double applies a write whose client does not wait. */
const APPLY_MS = 300
const KEYS = { id: 'embedded', secret: 'secret-of-the-embedded-world' }
const HELM = fileURLToPath(new URL('../doubles/helm', import.meta.url))

export interface HardWorld {
  readonly folder: string
  readonly client: ApiClient
  readonly api: EmbeddedApi
  readonly controllers: Controllers
  readonly operator: Operator
  readonly bucket: BucketServer
  /** The link from all clients to the store. */
  readonly store: Link
  readonly endpoint: string
  /** Absent where engines are doubles. */
  readonly engines: RealEngines | undefined
  /** The way of Jobs and service to the double in a pod. */
  access(pod: string): Link | undefined
  /** Where the nodes of a cluster answer, past every link that can be cut; by ordinal. */
  urls(cluster: string): string[]
  /** Number of calls: from Jobs and service to engines, and from all clients to the store. */
  calls(): number
  /** Pods of Jobs that run. */
  jobPods(): string[]
  apply(object: object): Promise<void>
  find(kind: string, name: string): ApiObject | undefined
  statefulSet(name: string): ApiObject | undefined
  /** True once the condition holds; false if this many seconds of the world have passed before. */
  until(met: () => boolean, seconds: number): Promise<boolean>
  /** Time is the machine's as long as one of these is held. */
  hold(): () => void
  close(): Promise<void>
}

export interface WorldOptions {
  /** Binary of the engine; without it engines are doubles. */
  bin?: string
  /** 1 to 254; concurrent runs have different ones. */
  octet?: number
}

export async function startHardWorld({ bin, octet = 77 }: WorldOptions = {}): Promise<HardWorld> {
  const folder = mkdtempSync(join(tmpdir(), 'vec-hard-'))
  const clock = new ManualClock(new Date())
  const api = await startApi(clock)
  const client = new ApiClient({ server: api.url, token: api.token })
  const engines = bin === undefined ? undefined : new RealEngines(bin, folder, { octet })
  const access = new Map<string, Link>()
  const runs = (options: ContainerOptions) => containers(options, engines, access)
  const controllers = startControllers({ api, clock, helm: HELM, runs })
  let calls = 0
  const portOfPod = (namespace: string, pod: string, port: number) =>
    portOf(engines, pod) ?? access.get(pod)?.port ?? controllers.kubelet.port(namespace, pod, port)
  api.attach({
    log: (namespace, pod) => controllers.kubelet.log(namespace, pod),
    port(namespace, pod, port) {
      calls += 1
      return portOfPod(namespace, pod, port)
    },
  })
  const bucket = await startBucketServer({
    buckets: [],
    keys: { [KEYS.id]: KEYS.secret },
    now: () => clock.now(),
  })
  const objects = new BucketStore()
  objects.pageSize = LISTED
  bucket.buckets.set(BUCKET, objects)
  const { hostname, port } = new URL(bucket.url)
  const store = await openStore({ host: hostname, port: Number(port) })
  const tokens = { service: api.serviceToken, loop: api.loopToken }
  const operator = new Operator({
    ...{ api: client, tokens, clock, folder, version: '0.1.0', kinds: PLURALS },
  })
  let holds = 0
  const processes = () => controllers.kubelet.processes() + holds
  const driver = new ClockDriver(clock, {
    // A call of a Job may take long, and the clock runs meanwhile.
    busy: () => controllers.busy() || operator.busy() || (processes() === 0 && api.inFlight() > 0),
    processes,
    // A Job that waits for an engine or a store waits in real time.
    lastActivityAt: () => Date.now(),
    revision: () => api.resources.store.revision,
  })
  const close = async () => {
    driver.stop()
    await operator.close()
    await controllers.close()
    await engines?.close()
    await store.close()
    await bucket.close()
    await client.close()
    await api.close()
    for (const link of access.values()) await link.close()
    rmSync(folder, { recursive: true, force: true })
  }
  const world: HardWorld = {
    ...{ folder, client, api, controllers, operator, bucket, store, engines },
    endpoint: `http://127.0.0.1:${store.port}`,
    access: (pod) => access.get(pod),
    calls: () => calls + bucket.calls.length,
    urls: (cluster) => urlsOf(world, cluster),
    jobPods: () => jobPodsOf(api),
    apply: async (object) => void (await applyObject(client, object)),
    find: (kind, name) =>
      findIn(api, { apiVersion: API_VERSION, kind, namespace: NAMESPACE, name }),
    statefulSet: (name) =>
      findIn(api, { apiVersion: 'apps/v1', kind: 'StatefulSet', namespace: NAMESPACE, name }),
    async until(met, seconds) {
      const inTime = await driver.wait(
        () => met() || operator.failure() !== undefined,
        seconds * 1000,
      )
      const failure = operator.failure()
      if (failure !== undefined) throw failure
      return inTime
    },
    hold() {
      holds += 1
      let held = true
      return () => {
        if (held) holds -= 1
        held = false
      }
    },
    close,
  }
  try {
    await operator.start()
    clock.advance(1_000)
    await client.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE } })
    await world.apply(bucketSecret())
  } catch (error) {
    await close()
    throw error
  }
  return world
}

/** Connections to the store by turns: what slows one of two down lets a later call overtake an earlier one. */
export const STORE_TAGS = ['even', 'odd'] as const

function openStore(target: Address): Promise<Link> {
  let connections = 0
  return Link.open(target, {}, () => STORE_TAGS[connections++ % 2] ?? 'even')
}

function bucketSecret(): object {
  const data = {
    CLOUD_ACCESS_KEY_ID: Buffer.from(KEYS.id).toString('base64'),
    CLOUD_SECRET_ACCESS_KEY: Buffer.from(KEYS.secret).toString('base64'),
  }
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { namespace: NAMESPACE, name: 'bucket' },
    data,
  }
}

function containers(
  options: ContainerOptions,
  engines: RealEngines | undefined,
  access: Map<string, Link>,
): Containers {
  const { server, token, helm, env, clock, engines: doubles } = options
  return {
    async start(pod, container, sandbox) {
      if (isJobContainer(container)) {
        const app = await program()
        const offsetMs = clock.now().getTime() - Date.now()
        return startJobContainer(container, sandbox, { app, server, token, helm, offsetMs, env })
      }
      if (engines !== undefined) return engines.start(pod, sandbox)
      const running = await doubles.start(pod, container, sandbox)
      const [, set = ''] = /^(.+)-\d+$/.exec(pod.metadata.name) ?? []
      const cluster = doubles.cluster(NAMESPACE, set)
      if (cluster !== undefined) cluster.applyMs = APPLY_MS
      const port = running.port(ENGINE_PORT) ?? 0
      await access.get(pod.metadata.name)?.close()
      access.set(pod.metadata.name, await Link.open({ host: '127.0.0.1', port }))
      return running
    },
  }
}

/** Of the link that leads to a real node. */
function portOf(engines: RealEngines | undefined, pod: string): number | undefined {
  const [, set = '', ordinal = ''] = /^(.+)-(\d+)$/.exec(pod) ?? []
  return engines?.nodes(set).find((node) => node.ordinal === Number(ordinal))?.port
}

function urlsOf({ engines, controllers, api }: HardWorld, cluster: string): string[] {
  if (engines !== undefined) return engines.nodes(`vec-${cluster}`).map(({ url }) => url)
  const pods = podNames(api).filter((name) => new RegExp(`^vec-${cluster}-\\d+$`).test(name))
  return pods.toSorted().flatMap((name) => {
    const port = controllers.kubelet.port(NAMESPACE, name, ENGINE_PORT)
    return port === undefined ? [] : [`http://127.0.0.1:${port}`]
  })
}

function podNames(api: EmbeddedApi): string[] {
  const { resources } = api
  const pods = resources.store.list(resources.kinds.of('v1', 'Pod'), NAMESPACE)
  return pods.map(({ metadata }) => metadata.name)
}

function jobPodsOf(api: EmbeddedApi): string[] {
  const { resources } = api
  return resources.store
    .list(resources.kinds.of('v1', 'Pod'), NAMESPACE)
    .filter((pod) => pod.metadata.labels?.['job-name'] !== undefined)
    .filter((pod) => recordAt(pod, 'status')['phase'] === 'Running')
    .map(({ metadata }) => metadata.name)
}

function findIn({ resources }: EmbeddedApi, what: Reference): ApiObject | undefined {
  return resources.find(resources.kinds.of(what.apiVersion, what.kind), what.namespace, what.name)
}
