/**
 * A cluster on this machine for the work on shards: API server and controllers of the embedded world in real
 * time, one StatefulSet as the chart makes it, an engine process for each pod, and a folder for each claim.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { VecCluster } from '../../crds/cluster.ts'
import { API_VERSION, releaseName } from '../../crds/contract/names.ts'
import { customResourceDefinition } from '../../crds/crd.ts'
import { newAuthority, newCertificate } from '../../metacontroller/identity/certificates.ts'
import { RealEngines, type P2pTls, type RealNode } from '../hard/engines.ts'
import { startApi, type EmbeddedApi } from '../world/api/server.ts'
import { ApiClient, type ApiObject } from '../world/client.ts'
import { ENGINE_VERSION, engineVersion } from '../real-parts.ts'
import { systemClock } from '../world/clock.ts'
import type { Containers } from '../world/controllers/containers.ts'
import { startControllers, type Controllers } from '../world/controllers/index.ts'
import { guarded, MOST_NODES, RECORD } from './guard.ts'
import { openNames, type NameProxy } from './names.ts'

export const NAMESPACE = 'nodes'
export const CLUSTER = 'docs'
export const RELEASE = releaseName(CLUSTER)
export const TEMPLATE = 'qdrant-storage'
/** Last number of the address at which peers know node 0 (test/hard/engines.ts). */
const FIRST = 101
const POLL_MS = 250

export interface WorldOptions {
  bin: string
  octet: number
  /** Nodes at the start. */
  nodes: number
  /** The guard of node 0; the chart alone has none. */
  hasGuard: boolean
  /** Peers dial each other without a front, so that the guard finds no node that does not listen. */
  isDirect?: boolean
  /** TLS between the nodes (`spec.cluster.p2p.enableTls`). */
  hasP2pTls?: boolean
}

export class NodesWorld {
  readonly folder: string
  readonly api: EmbeddedApi
  readonly client: ApiClient
  readonly hasGuard: boolean
  readonly #octet: number
  readonly #hasP2pTls: boolean
  readonly #engines: RealEngines
  /** Of the engine. */
  readonly #version: string
  readonly #controllers: Controllers
  readonly #names = new Map<number, NameProxy>()
  /** uid of the claim whose folder a node has. */
  readonly #volumes = new Map<number, string>()
  /** Process of each node that was ready. */
  readonly #ready = new Map<number, number>()
  #isClosed = false

  private constructor(api: EmbeddedApi, options: WorldOptions) {
    const { bin, octet, hasGuard, isDirect = false, hasP2pTls = false } = options
    this.folder = mkdtempSync(join(tmpdir(), 'vec-nodes-'))
    this.api = api
    this.client = new ApiClient({ server: api.url, token: api.token })
    this.hasGuard = hasGuard
    this.#octet = octet
    this.#hasP2pTls = hasP2pTls
    this.#engines = new RealEngines(bin, this.folder, {
      ...{ octet, isDirect },
      ...(hasP2pTls && { p2pTls: this.#certificate() }),
    })
    this.#version = engineVersion(bin) ?? ENGINE_VERSION
    const runs = () => this.#containers()
    this.#controllers = startControllers({ api, clock: systemClock, helm: '', runs })
    api.attach({
      log: () => undefined,
      port: (_, pod) => this.#names.get(ordinalOf(pod))?.port,
    })
    mkdirSync(this.#formation)
    void this.#watchReadiness()
  }

  static async start(options: WorldOptions): Promise<NodesWorld> {
    const world = new NodesWorld(await startApi(systemClock), options)
    try {
      await world.#install(options.nodes)
    } catch (error) {
      await world.close()
      throw error
    }
    return world
  }

  /** Pods that exist, in order. */
  ordinals(): number[] {
    return this.#objects('v1', 'Pod')
      .map(({ metadata }) => ordinalOf(metadata.name))
      .toSorted((one, other) => one - other)
  }

  node(ordinal: number): RealNode {
    return this.#engines.node(RELEASE, ordinal)
  }

  /** Where each pod's engine answers, past everything that can be cut; in order. */
  urls(): string[] {
    return this.ordinals().flatMap((ordinal) => this.#nodeOf(ordinal)?.url ?? [])
  }

  /** Those behind the client Service: ready since their process began. */
  service(): string[] {
    return this.ordinals().flatMap((ordinal) => {
      const node = this.#nodeOf(ordinal)
      const isReady = node?.pid !== undefined && this.#ready.get(ordinal) === node.pid
      return isReady ? [node.url] : []
    })
  }

  isReady(ordinal: number): boolean {
    const { pid } = this.#nodeOf(ordinal) ?? {}
    return pid !== undefined && this.#ready.get(ordinal) === pid
  }

  get cluster(): ApiObject {
    const found = this.#objects(API_VERSION, 'VecCluster')[0]
    if (found === undefined) throw new Error('there is no VecCluster')
    return found
  }

  /** The number of nodes in the spec. */
  get nodes(): number {
    return (this.cluster.spec as { replicas: number }).replicas
  }

  /** The number of pods of the StatefulSet. */
  get replicas(): number {
    const [set] = this.#objects('apps/v1', 'StatefulSet')
    return (set?.spec as { replicas?: number } | undefined)?.replicas ?? 0
  }

  /** The number of nodes in the spec, which a running Job follows. */
  async setSpec(replicas: number): Promise<void> {
    const name = {
      apiVersion: API_VERSION,
      kind: 'VecCluster',
      namespace: NAMESPACE,
      name: CLUSTER,
    }
    await this.client.patch(name, { spec: { replicas } })
  }

  /** As helm, or a user of the chart alone. */
  async scale(replicas: number): Promise<void> {
    const set = { apiVersion: 'apps/v1', kind: 'StatefulSet', namespace: NAMESPACE, name: RELEASE }
    await this.client.patch(set, { spec: { replicas } })
  }

  /** The record that node 0 reads (hooks/cluster/consensus.ts). */
  recordFormation(nodes: number): void {
    writeFileSync(join(this.#formation, RECORD), String(nodes))
  }

  /** Deletes claim and pod, so that the pod starts again with an empty volume. */
  async loseVolume(ordinal: number): Promise<void> {
    await this.client.delete(
      {
        ...{ apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace: NAMESPACE },
        name: claimName(ordinal),
      },
      {},
    )
    this.node(ordinal).signal('SIGKILL')
    await this.deletePod(ordinal)
  }

  async deletePod(ordinal: number): Promise<void> {
    const name = `${RELEASE}-${ordinal}`
    await this.client.delete({ apiVersion: 'v1', kind: 'Pod', namespace: NAMESPACE, name }, {})
  }

  /** uids of the claims, by ordinal. */
  claims(): Map<number, string> {
    const claims = this.#objects('v1', 'PersistentVolumeClaim')
    return new Map(claims.map(({ metadata }) => [ordinalOf(metadata.name), metadata.uid ?? '']))
  }

  async close({ keepsFolder = false } = {}): Promise<void> {
    this.#isClosed = true
    await this.#controllers.close()
    await this.#engines.close()
    for (const proxy of this.#names.values()) await proxy.close()
    await this.client.close()
    await this.api.close()
    if (!keepsFolder) rmSync(this.folder, { recursive: true, force: true })
  }

  get #formation(): string {
    return join(this.folder, 'formation')
  }

  /** One certificate for all nodes, as servers and as clients of each other. */
  #certificate(): P2pTls {
    const now = new Date()
    const authority = newAuthority(now, 2)
    const hosts = Array.from({ length: MOST_NODES }, (_, ordinal) => {
      return `${this.#prefix}.${FIRST + ordinal}`
    })
    const usages = ['serverAuth', 'clientAuth'] as const
    const { cert, key } = newCertificate(authority, hosts, now, { days: 1, usages })
    const files = { cert, key, ca_cert: authority.cert }
    const written = Object.entries(files).map(([name, text]) => {
      const file = join(this.folder, `${name}.pem`)
      writeFileSync(file, text)
      return [name, file]
    })
    return Object.fromEntries(written) as P2pTls
  }

  #nodeOf(ordinal: number): RealNode | undefined {
    return this.#engines.nodes(RELEASE).find((node) => node.ordinal === ordinal)
  }

  #objects(apiVersion: string, kind: string): ApiObject[] {
    const { resources } = this.api
    return resources.store.list(resources.kinds.of(apiVersion, kind), NAMESPACE)
  }

  async #install(replicas: number): Promise<void> {
    const { client } = this
    await client.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE } })
    await client.create(customResourceDefinition(VecCluster, '0.0.0'))
    const metadata = { namespace: NAMESPACE, name: CLUSTER }
    const spec = {
      ...{ version: this.#version, replicas },
      cluster: { enabled: true, p2p: { enableTls: this.#hasP2pTls } },
      ...(this.#hasP2pTls && { tls: { enabled: true, secretRef: { name: 'cert' } } }),
    }
    await client.create({ apiVersion: API_VERSION, kind: 'VecCluster', metadata, spec })
    await client.create(statefulSet(replicas, this.#version))
  }

  #containers(): Containers {
    return {
      start: async (pod, _container, sandbox) => {
        const ordinal = ordinalOf(pod.metadata.name)
        const node = await this.#engines.prepare(RELEASE, ordinal)
        await node.end()
        const claim = this.claims().get(ordinal) ?? ''
        // The folder of a deleted claim is gone with it.
        if (this.#volumes.get(ordinal) !== claim) {
          this.#volumes.set(ordinal, claim)
          rmSync(join(this.folder, RELEASE, String(ordinal), 'storage'), {
            ...{ recursive: true, force: true },
          })
        }
        if (ordinal === 0 && this.hasGuard) node.command = (engine) => this.#guarded(engine)
        if (!this.#names.has(ordinal)) {
          const proxy = await openNames(
            () => node.port,
            (text) => this.#named(text),
          )
          this.#names.set(ordinal, proxy)
        }
        return node.run(pod.metadata.uid ?? '', sandbox)
      },
    }
  }

  #guarded(engine: string[]): [string, ...string[]] {
    return guarded({
      cluster: this.cluster as VecCluster,
      formation: this.#formation,
      prefix: this.#prefix,
      first: FIRST,
      engine,
    })
  }

  get #prefix(): string {
    return `127.${this.#octet}.0`
  }

  #named(text: string): string {
    const address = new RegExp(`${this.#prefix.replaceAll('.', '[.]')}[.](\\d+):`, 'g')
    return text.replaceAll(
      address,
      (_, last: string) => `${RELEASE}-${Number(last) - FIRST}.${RELEASE}-headless:`,
    )
  }

  /** A restarted engine is not ready until it says so, as behind a Service. */
  async #watchReadiness(): Promise<void> {
    while (!this.#isClosed) {
      await Promise.all(
        this.ordinals().map(async (ordinal) => {
          const node = this.#nodeOf(ordinal)
          const pid = node?.pid
          if (node === undefined || pid === undefined || this.#ready.get(ordinal) === pid) return
          if (await isReady(node.url)) this.#ready.set(ordinal, pid)
        }),
      )
      await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    }
  }
}

async function isReady(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(2_000) })).ok
  } catch {
    return false
  }
}

function ordinalOf(name: string): number {
  return Number(name.slice(name.lastIndexOf('-') + 1))
}

function claimName(ordinal: number): string {
  return `${TEMPLATE}-${RELEASE}-${ordinal}`
}

/** What matters here of the StatefulSet of the chart. */
function statefulSet(replicas: number, version: string): object {
  const labels = { 'app.kubernetes.io/instance': RELEASE, 'app.kubernetes.io/name': 'qdrant' }
  const readinessProbe = { httpGet: { path: '/readyz', port: 6333 }, periodSeconds: 1 }
  const container = { name: 'qdrant', image: `qdrant:v${version}`, readinessProbe }
  return {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { namespace: NAMESPACE, name: RELEASE, labels },
    spec: {
      replicas,
      serviceName: `${RELEASE}-headless`,
      podManagementPolicy: 'Parallel',
      updateStrategy: { type: 'RollingUpdate', rollingUpdate: { partition: 0 } },
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [container] } },
      volumeClaimTemplates: [
        {
          metadata: { name: TEMPLATE },
          spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
        },
      ],
    },
  }
}
