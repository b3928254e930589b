/** Three nodes of the engine on the local real cluster: installed and updated by the operator, or by Helm and the chart alone. */
import { setTimeout } from 'node:timers/promises'
import { API_VERSION } from '../../crds/contract/names.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import type { Condition } from '../../crds/schema.ts'
import type { LocalCluster } from '../cluster/local.ts'

export const NODES = [0, 1, 2] as const
export const RELEASE = 'vec-a'
const ENGINE_PORT = 6333
const POLL_MS = 500
const START_MS = 600_000

export interface Subject {
  readonly namespace: string
  install(version: string): Promise<void>
  /** Asks for the version; what happens then is up to the subject. */
  update(version: string): Promise<void>
  /** Why the update has not ended; undefined once it has. */
  unfinished(version: string): Promise<string | undefined>
}

/** By a VecCluster. */
export class OperatorSubject implements Subject {
  readonly namespace: string
  readonly #cluster: LocalCluster

  constructor(cluster: LocalCluster, namespace: string) {
    this.#cluster = cluster
    this.namespace = namespace
  }

  async install(version: string): Promise<void> {
    const spec = {
      version,
      replicas: NODES.length,
      cluster: { enabled: true },
      persistence: { size: '64Mi' },
      resources: { requests: { cpu: '10m', memory: '32Mi' } },
      // A round takes a replica away and looks at what the update does: nothing is to bring it back meanwhile.
      healing: { replicas: false },
    }
    const metadata = { namespace: this.namespace, name: 'a' }
    const object = { apiVersion: API_VERSION, kind: 'VecCluster', metadata, spec }
    await this.#cluster.kubectl(['apply', '-f', '-'], { input: JSON.stringify(object) })
    await met('the cluster runs', START_MS, async () => {
      const { status = {} } = await this.get()
      const isPlaced = conditionOf(status, 'ShardsPlaced')?.status === 'True'
      return status.phase === 'Running' && status.formedNodes === NODES.length && isPlaced
    })
  }

  async update(version: string): Promise<void> {
    await this.patch({ version })
  }

  async unfinished(version: string): Promise<string | undefined> {
    const { status = {}, metadata } = await this.get()
    const isCurrent = status.appliedGeneration === metadata.generation
    const isDone = isCurrent && status.phase === 'Running' && status.version === version
    if (isDone && conditionOf(status, 'Applied')?.status === 'True') return undefined
    const { reason, message } = conditionOf(status, 'Progressing') ?? {}
    return `${status.phase ?? 'no phase'}: ${reason ?? ''} ${message ?? ''}`
  }

  async progress(): Promise<Condition | undefined> {
    return conditionOf((await this.get()).status ?? {}, 'Progressing')
  }

  async patch(spec: object): Promise<void> {
    const patch = JSON.stringify({ spec })
    await this.#cluster.kubectl([
      ...['patch', 'veccluster', 'a', '--namespace', this.namespace],
      ...['--type=merge', '--patch', patch],
    ])
  }

  async get(): Promise<VecCluster> {
    const args = ['get', 'veccluster', 'a', '--namespace', this.namespace, '--output=json']
    return JSON.parse(await this.#cluster.kubectl(args)) as VecCluster
  }
}

/** By `helm upgrade --install` of the engine's chart, as its documentation says. */
export class ChartSubject implements Subject {
  readonly namespace: string
  readonly #cluster: LocalCluster
  readonly #repository: string

  constructor(cluster: LocalCluster, namespace: string, repository: string) {
    this.#cluster = cluster
    this.namespace = namespace
    this.#repository = repository
  }

  async install(version: string): Promise<void> {
    await this.update(version)
    await met('the release runs', START_MS, async () => {
      if ((await this.unfinished(version)) !== undefined) return false
      return (await podUrls(this.#cluster, this.namespace)).length === NODES.length
    })
  }

  async update(version: string): Promise<void> {
    const values = [
      `replicaCount=${NODES.length}`,
      `fullnameOverride=${RELEASE}`,
      'config.cluster.enabled=true',
      'persistence.size=64Mi',
      'resources.requests.cpu=10m',
      'resources.requests.memory=32Mi',
    ]
    await this.#cluster.helm([
      ...['upgrade', '--install', RELEASE, 'qdrant', '--repo', this.#repository],
      ...['--version', version, '--namespace', this.namespace],
      ...values.flatMap((value) => ['--set', value]),
    ])
  }

  async unfinished(version: string): Promise<string | undefined> {
    const args = ['get', 'statefulset', RELEASE, '--namespace', this.namespace, '--output=json']
    const set = JSON.parse(await this.#cluster.kubectl(args)) as StatefulSet
    const { updateRevision, currentRevision, readyReplicas = 0, observedGeneration } = set.status
    const isSeen = observedGeneration === set.metadata.generation
    const isNew = set.spec.template.spec.containers[0]?.image.endsWith(`:v${version}`) === true
    const isDone = isSeen && isNew && updateRevision === currentRevision
    if (isDone && readyReplicas === NODES.length) return undefined
    return `${readyReplicas} pods ready`
  }
}

interface StatefulSet {
  metadata: { generation: number }
  spec: { template: { spec: { containers: { image: string }[] } } }
  status: {
    observedGeneration?: number
    updateRevision?: string
    currentRevision?: string
    readyReplicas?: number
  }
}

interface PodList {
  items: {
    metadata: { name: string; uid: string }
    spec: { containers: { image: string }[] }
    status: { podIP?: string; conditions?: { type: string; status: string }[] }
  }[]
}

/** Where clients call: the address of the Service, behind which only ready nodes are. */
export async function serviceUrl(cluster: LocalCluster, namespace: string): Promise<string> {
  const args = ['get', 'service', RELEASE, '--namespace', namespace, '--output=json']
  const { spec } = JSON.parse(await cluster.kubectl(args)) as { spec: { clusterIP: string } }
  return `http://${spec.clusterIP}:${ENGINE_PORT}`
}

/** Of the ready pods, by ordinal. */
export async function podUrls(cluster: LocalCluster, namespace: string): Promise<string[]> {
  const { items } = await pods(cluster, namespace)
  return NODES.flatMap((ordinal) => {
    const pod = items.find(({ metadata }) => metadata.name === `${RELEASE}-${ordinal}`)
    const ready = pod?.status.conditions?.find(({ type }) => type === 'Ready')
    const address = pod?.status.podIP
    return ready?.status === 'True' && address !== undefined
      ? [`http://${address}:${ENGINE_PORT}`]
      : []
  })
}

/** Each node's pod with the image that it runs. */
export async function podImages(cluster: LocalCluster, namespace: string): Promise<string[]> {
  const { items } = await pods(cluster, namespace)
  return items
    .filter(({ metadata }) => /^vec-a-\d$/.test(metadata.name))
    .map(({ metadata, spec }) => `${metadata.name} ${spec.containers[0]?.image ?? ''}`)
}

/** Each node's pod, by its uid. */
export async function podUids(cluster: LocalCluster, namespace: string): Promise<string[]> {
  const { items } = await pods(cluster, namespace)
  return items
    .filter(({ metadata }) => /^vec-a-\d$/.test(metadata.name))
    .map(({ metadata }) => `${metadata.name} ${metadata.uid}`)
    .toSorted()
}

async function pods(cluster: LocalCluster, namespace: string): Promise<PodList> {
  const args = ['get', 'pods', '--namespace', namespace, '--output=json']
  return JSON.parse(await cluster.kubectl(args)) as PodList
}

function conditionOf(status: NonNullable<VecCluster['status']>, type: string) {
  return status.conditions?.find((condition) => condition.type === type)
}

/** Waits for it; throws with this name when it does not come. */
export async function met(what: string, ms: number, isMet: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + ms
  while (!(await isMet().catch(() => false))) {
    if (Date.now() > end) throw new Error(`not in ${ms / 1000} s: ${what}`)
    await setTimeout(POLL_MS)
  }
}
