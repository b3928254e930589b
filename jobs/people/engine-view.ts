/** What the engine of a cluster shows of itself: its nodes, and where the copies of the shards are. */
import { Type } from '@sinclair/typebox'
import { connectionOf } from '../../crds/connection.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { EngineError, KubernetesError } from '../../crds/errors.ts'
import { AnyObject } from '../../crds/kubernetes.ts'
import { releaseName } from '../../crds/names.ts'
import type { Engine } from '../clients/engine.ts'
import type { Placement } from '../clients/engine-answers.ts'
import type { Kubernetes } from '../clients/kubernetes.ts'
import type { PeopleCall } from './command.ts'
import { enginesOf } from './engines.ts'

export interface NodeView {
  pod: string
  ready: boolean
  version?: string
  peer?: number
  isLeader?: boolean
  consensus?: string
  /** Why it could not be asked. */
  error?: string
}

export interface ShardView {
  collection: string
  shard: number
  key?: string | number
  /** State of each copy, by the peer that holds it. */
  copies: Record<string, string>
}

export interface EngineView {
  nodes: NodeView[]
  shards: ShardView[]
  /** What is not shown, and why. */
  notes: string[]
}

/** A person waits: a pod that does not answer is shown as such. */
const CALL_MS = 5_000
const MAX_COLLECTIONS_SHOWN = 20

const Pod = Type.Object({
  ...AnyObject.properties,
  status: Type.Optional(
    Type.Object({
      conditions: Type.Optional(
        Type.Array(Type.Object({ type: Type.String(), status: Type.String() })),
      ),
    }),
  ),
})

interface Target {
  cluster: VecCluster
  /** Only this collection's shards. */
  collection?: string | undefined
}

export async function engineView(
  kubernetes: Kubernetes,
  { cluster, collection }: Target,
  call: Pick<PeopleCall, 'log' | 'signal'>,
): Promise<EngineView> {
  const engineOn = enginesOf(kubernetes, connectionOf(cluster), call)
  const pods = await podsOf(kubernetes, cluster)
  const nodes = await Promise.all(
    pods.map(async (pod) => nodeView(pod, engineOn(pod.ordinal), call.signal)),
  )
  const asked = nodes.findIndex(({ error }) => error === undefined)
  const ordinal = pods[asked]?.ordinal
  if (ordinal === undefined) return { nodes, shards: [], notes: [] }
  return { nodes, ...(await shardsOf(engineOn(ordinal), collection, call.signal)) }
}

interface PodView {
  name: string
  ordinal: number
  ready: boolean
}

async function podsOf(kubernetes: Kubernetes, { metadata }: VecCluster): Promise<PodView[]> {
  const { namespace, name } = metadata
  const release = releaseName(name)
  const found = await kubernetes.list({ apiVersion: 'v1', plural: 'pods', namespace }, Pod, {
    labelSelector: `app.kubernetes.io/instance=${release}`,
  })
  return found
    .flatMap(({ metadata: { name }, status }) => {
      const ordinal = new RegExp(`^${release}-(\\d+)$`).exec(name)?.[1]
      const ready = status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True')
      return ordinal === undefined
        ? []
        : [{ name, ordinal: Number(ordinal), ready: ready === true }]
    })
    .toSorted((one, other) => one.ordinal - other.ordinal)
}

async function nodeView(pod: PodView, engine: Engine, signal: AbortSignal): Promise<NodeView> {
  const { name, ready } = pod
  try {
    const within = AbortSignal.any([signal, AbortSignal.timeout(CALL_MS)])
    const [version, view] = await Promise.all([engine.version(within), engine.cluster(within)])
    if (view.status === 'disabled') return { pod: name, ready, version }
    return {
      pod: name,
      ready,
      version,
      peer: view.peer_id,
      isLeader: view.raft_info.leader === view.peer_id,
      consensus: view.consensus_thread_status.consensus_thread_status,
    }
  } catch (error) {
    signal.throwIfAborted()
    return { pod: name, ready, error: whyUnseen(error) }
  }
}

async function shardsOf(
  engine: Engine,
  collection: string | undefined,
  signal: AbortSignal,
): Promise<Pick<EngineView, 'shards' | 'notes'>> {
  try {
    const within = AbortSignal.any([signal, AbortSignal.timeout(4 * CALL_MS)])
    const all = collection === undefined ? await engine.collections(within) : [collection]
    const names = all.toSorted().slice(0, MAX_COLLECTIONS_SHOWN)
    const shards: ShardView[] = []
    for (const name of names) {
      shards.push(...copiesIn(name, await engine.collectionCluster(name, within)))
    }
    const left = all.length - names.length
    return { shards, notes: left > 0 ? [`${left} more collections are not shown`] : [] }
  } catch (error) {
    signal.throwIfAborted()
    return { shards: [], notes: [`shards: ${whyUnseen(error)}`] }
  }
}

/** One node knows its own copies and those of the others. */
function copiesIn(collection: string, placement: Placement): ShardView[] {
  const { local_shards, remote_shards, peer_id } = placement
  const shards = new Map<number, ShardView>()
  const copies = [...local_shards.map((shard) => ({ ...shard, peer_id })), ...remote_shards]
  for (const { shard_id: shard, shard_key: key, state, peer_id: peer } of copies) {
    const known = shards.get(shard) ?? {
      collection,
      shard,
      ...(key !== undefined && { key }),
      copies: {},
    }
    known.copies[peer] = state
    shards.set(shard, known)
  }
  return [...shards.values()].toSorted((one, other) => one.shard - other.shard)
}

function whyUnseen(error: unknown): string {
  if (error instanceof EngineError || error instanceof KubernetesError) return error.message
  if (error instanceof DOMException) return `no answer in ${CALL_MS / 1000} s`
  throw error
}
