/** VecCollection hooks on a plain engine, and the parts of Kubernetes that they need. */
import type { CollectionSpec, CollectionStatus, VecCollection } from '../../../crds/collection.ts'
import type { VecCluster } from '../../../crds/cluster.ts'
import type { KubernetesEvent } from '../../../crds/kubernetes.ts'
import { API_VERSION } from '../../../crds/contract/names.ts'
import { collectionHooks } from '../../../hooks/collection/index.ts'
import type { CollectionPorts } from '../../../hooks/collection/ports.ts'
import { answerValidator } from '../../../hooks/answer-validation.ts'
import type { Desired, HookRequest } from '../../../hooks/protocol.ts'
import { NOW, ago, cluster, settings } from '../../builders.ts'
import { FakeEngine } from './engine.ts'

/** The spec as the API server stores it. */
export function collectionSpec(spec: Partial<CollectionSpec> = {}): CollectionSpec {
  return {
    clusterRef: { name: 'a' },
    vectors: [{ size: 4, distance: 'Cosine', hnsw: {}, quantization: {} }],
    shardingMethod: 'auto',
    hnsw: {},
    optimizers: {},
    quantization: {},
    wal: {},
    strictMode: {},
    deletionPolicy: 'Retain',
    ...spec,
  }
}

export function collection(
  spec: Partial<CollectionSpec> = {},
  metadata: Partial<VecCollection['metadata']> = {},
  status?: CollectionStatus,
): VecCollection {
  const name = metadata.name ?? 'docs'
  return {
    apiVersion: API_VERSION,
    kind: 'VecCollection',
    metadata: {
      name,
      namespace: 'ns',
      uid: `uid-${name}`,
      generation: 1,
      creationTimestamp: ago(600),
      ...metadata,
    },
    spec: collectionSpec(spec),
    ...(status !== undefined && { status }),
  }
}

export const writeNames = (writes: readonly unknown[][]) => writes.map(([name]) => name)

export const vector = { size: 4, distance: 'Cosine', hnsw: {}, quantization: {} } as const

export const keywordIndex = (field: string) => ({ field, type: 'keyword' as const, params: {} })

type SyncResult = Desired<CollectionStatus>

/** The hooks and their environment. `parent` is the object in the API server; time moves only when a test moves it. */
export class CollectionHarness {
  readonly engine = new FakeEngine()
  readonly events: KubernetesEvent[] = []
  readonly waits: number[] = []
  parent: VecCollection
  otherCollections: VecCollection[] = []
  /** Namespaces. */
  unreadable: string[] = []
  cluster: VecCluster | undefined = cluster()
  holder: string | undefined
  podVersions = ['1.18.3']
  time = NOW.getTime()
  settings = settings
  readonly ports: CollectionPorts
  readonly #hooks
  readonly #validate

  constructor(parent: VecCollection = collection(), inlineMs?: number) {
    this.parent = parent
    this.ports = {
      engine: () => this.engine,
      collectionsOf: async () => ({
        claims: [this.parent, ...this.otherCollections],
        unreadable: this.unreadable,
      }),
      cluster: async () => this.cluster,
      writeHolder: async () => this.holder,
      podVersions: async () => this.podVersions,
      writeEvent: async (event) => {
        this.events.push(event)
      },
      now: () => new Date(this.time),
      wait: async (milliseconds, signal) => {
        signal.throwIfAborted()
        this.waits.push(milliseconds)
        this.time += milliseconds
      },
    }
    this.#hooks = collectionHooks(this.ports, inlineMs)
    this.#validate = answerValidator(this.#hooks)
  }

  /** One sync; the API server then holds the status, as Metacontroller writes it. */
  async sync(parent = this.parent): Promise<SyncResult> {
    const request = this.#request(parent, false)
    const desired = (await this.#hooks.sync(request, this.#context())) as SyncResult
    this.#validate(request, desired, 'sync')
    this.#store(parent, desired)
    return desired
  }

  /** Syncs, each when it asked for, until the answer is to come back at leisure. */
  async syncUntilStable(): Promise<CollectionStatus> {
    for (let round = 0; round < 10; round += 1) {
      const { resyncAfterSeconds = 60, status } = await this.sync()
      if (resyncAfterSeconds >= 20) return status
      this.advance(resyncAfterSeconds)
      // Running work continues in the meantime.
      await new Promise((resolve) => setImmediate(resolve))
    }
    throw new Error('the collection never settles')
  }

  /** A minute later, when the next pass is due whatever happens. */
  async syncNextInterval(): Promise<CollectionStatus> {
    this.advance(60)
    return this.syncUntilStable()
  }

  async finalize(): Promise<SyncResult> {
    const parent = {
      ...this.parent,
      metadata: { ...this.parent.metadata, deletionTimestamp: ago(1) },
    }
    const request = this.#request(parent, true)
    const desired = (await this.#hooks.finalize?.(request, this.#context())) as SyncResult
    this.#validate(request, desired, 'finalize')
    this.#store(this.parent, desired)
    return desired
  }

  advance(seconds: number): void {
    this.time += seconds * 1000
  }

  /** Applies another spec. */
  applySpec(spec: Partial<CollectionSpec>): void {
    const { metadata } = this.parent
    this.parent = {
      ...this.parent,
      metadata: { ...metadata, generation: metadata.generation + 1 },
      spec: { ...this.parent.spec, ...spec },
    }
  }

  #store(parent: VecCollection, { status }: SyncResult): void {
    const observedGeneration = parent.metadata.generation
    if (parent === this.parent)
      this.parent = { ...parent, status: { ...status, observedGeneration } }
  }

  #request(parent: VecCollection, finalizing: boolean): HookRequest<VecCollection> {
    const clustersByName = this.cluster === undefined ? {} : { 'ns/a': this.cluster }
    const clusters = 'VecCluster.vec-operator.dev/v1alpha1'
    return {
      parent,
      children: {},
      related: finalizing ? {} : { [clusters]: clustersByName },
      finalizing,
    }
  }

  #context() {
    return { now: new Date(this.time), settings: this.settings }
  }
}
