/** What a user changes while a Job works on the shards: read again before each step. */
import { Type } from '@sinclair/typebox'
import { API_VERSION } from '../../../crds/contract/names.ts'
import type { ReshardingRecord, ShardsPlan } from '../../../crds/contract/shards-job.ts'
import type { Dependencies } from '../../dependencies.ts'
import { isKubernetesError } from '../../reporter.ts'
import type { ShardsProgress } from './progress.ts'

/** The number of nodes that a user wants now. */
const DesiredNodes = Type.Object({
  metadata: Type.Object({ generation: Type.Optional(Type.Integer()) }),
  spec: Type.Object({ replicas: Type.Integer() }),
})

/** The number of shards that a user wants now. */
const DesiredCollection = Type.Object({
  spec: Type.Object({ shardNumber: Type.Optional(Type.Integer()) }),
})

/** After this long, backups and helm runs that wait for the Lease can run. */
const YIELD_MS = 600_000

/** Why no further step is started, although steps are left. */
export type Pause = 'yield' | 'outdated'

export class SpecChanges {
  /** With the number of shards as last read. */
  resharding: ShardsPlan['resharding']
  readonly #plan: ShardsPlan
  readonly #tools: Dependencies
  /** spec.replicas when this pod first read it. */
  #replicas: number | undefined
  /** metadata.generation of the VecCluster when this pod first read it. */
  #generation: number | undefined

  constructor(plan: ShardsPlan, tools: Dependencies) {
    this.#plan = plan
    this.#tools = tools
    this.resharding = plan.resharding
  }

  /** Read before every step: a user may have changed the number of nodes meanwhile. */
  async pauseReason({
    startedAt,
    removedPeer,
  }: Pick<ShardsProgress, 'startedAt' | 'removedPeer'>): Promise<Pause | undefined> {
    const { namespace, name, nodes, cluster, update, endsAt } = this.#plan
    const { kubernetes, time } = this.#tools
    const resource = { apiVersion: API_VERSION, plural: this.#plan.resource, namespace }
    const current = await kubernetes.get(resource, name, DesiredNodes)
    const replicas = current?.spec.replicas
    this.#replicas ??= replicas
    this.#generation ??= current?.metadata.generation
    // A new spec may be what repairs a node that does not become ready.
    if (update !== undefined && current?.metadata.generation !== this.#generation) return 'outdated'
    const isDrain = nodes < cluster.replicas && removedPeer === undefined
    if (replicas !== this.#replicas || (isDrain && replicas !== undefined && replicas > nodes)) {
      return 'outdated'
    }
    const now = time.now().getTime()
    const isOver = endsAt !== undefined && now >= Date.parse(endsAt)
    return isOver || now - startedAt.getTime() >= YIELD_MS ? 'yield' : undefined
  }

  /** A user may set the number back while that is still possible. */
  async readShardNumber(record: ReshardingRecord | undefined): Promise<void> {
    const { resharding, namespace } = this.#plan
    const number = resharding?.numbers.find(({ collection }) => collection === record?.collection)
    // The Job may read VecCollections of its own namespace only; the next Job knows the others.
    if (resharding === undefined || number?.source?.namespace !== namespace) return
    if (record?.stage !== 'migrate') return
    const resource = { apiVersion: API_VERSION, plural: 'veccollections', namespace }
    const current = await this.#tools.kubernetes
      .get(resource, number.source.name, DesiredCollection)
      .catch((error: unknown) => {
        // An older chart does not permit it.
        if (isKubernetesError(error) && error.status === 403) return undefined
        throw error
      })
    const shards = current?.spec.shardNumber ?? number.shards
    const numbers = resharding.numbers.map((one) => (one === number ? { ...one, shards } : one))
    this.resharding = { ...resharding, numbers }
  }
}
