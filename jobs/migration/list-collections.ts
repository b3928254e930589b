/**
 * The collections of the source, and their shard keys. A node of a managed cluster that lost its volume, or that has not
 * caught up, answers with less than the others: every node is asked, and all must agree.
 */
import { EngineError } from '../../crds/contract/errors.ts'
import { formatNames } from '../../crds/units.ts'
import { EnginePoints, type ShardKeyInfo } from '../clients/engine/points.ts'
import type { CollectionClusterInfo } from '../clients/engine/responses.ts'
import { readConsistentState } from '../cluster-consistency.ts'
import { isTransient } from '../retry.ts'
import { withBackoff } from './backoff.ts'
import type { Endpoint, RunContext } from './context.ts'

/** Waits, within limits, until all nodes of a managed source form one cluster and list the same collections. */
export async function listSourceCollections(context: RunContext): Promise<string[]> {
  const { plan, source, tools } = context
  const { signal } = tools
  if (!('cluster' in plan.source)) {
    return withBackoff(context, () => source.engine.collections(signal))
  }
  const { cluster } = plan.source
  const options = {
    replicas: cluster.replicas,
    engineForPod: (ordinal: number) => source.nodes[ordinal] ?? source.engine,
    signal,
  }
  const { collections } = await untilNodesAgree(context, () => readConsistentState(options))
  return collections
}

/**
 * Waits, within limits, until the nodes of a managed source form one cluster and agree on the state of each replica of a
 * collection. Returns a time at which every point written before is in each Active replica: a node that is cut off still
 * reads its own replica, which the others have called Dead.
 */
export async function confirmSourceReplicas(name: string, context: RunContext): Promise<Date> {
  const { plan, source, progress, tools } = context
  const { signal, time } = tools
  if (!('cluster' in plan.source) || source.nodes.length < 2) return time.now()
  const { replicas } = plan.source.cluster
  const engineForPod = (ordinal: number) => source.nodes[ordinal] ?? source.engine
  progress.setUnreachedSource(formatSource(context))
  try {
    return await untilNodesAgree(context, async () => {
      const askedAt = time.now()
      await readConsistentState({ replicas, engineForPod, signal })
      const views = source.nodes.map((node) => node.collectionCluster(name, signal))
      requireSameReplicas(name, await Promise.all(views))
      return askedAt
    })
  } finally {
    progress.setUnreachedSource(undefined)
  }
}

/** Waits, within limits, until all nodes of a managed source know the same shard keys. */
export async function readSourceShardKeys(
  name: string,
  context: RunContext,
): Promise<ShardKeyInfo[]> {
  const { plan, source, progress, tools } = context
  const { signal } = tools
  if (!('cluster' in plan.source)) {
    return withBackoff(context, () => source.points.shardKeys(name, signal))
  }
  const nodes = source.nodes.map((node) => new EnginePoints(node))
  progress.setUnreachedSource(formatSource(context))
  try {
    return await untilNodesAgree(context, async () =>
      requireSameShardKeys(
        name,
        await Promise.all(nodes.map((node) => node.shardKeys(name, signal))),
      ),
    )
  } finally {
    progress.setUnreachedSource(undefined)
  }
}

/** Errors name the source. */
async function untilNodesAgree<Result>(
  context: RunContext,
  read: () => Promise<Result>,
): Promise<Result> {
  try {
    return await withBackoff(context, read)
  } catch (error) {
    if (!(error instanceof EngineError)) throw error
    const message = `source ${formatSource(context)}: ${error.message}`
    throw new EngineError(message, { cause: error, status: error.status })
  }
}

const MAX_LISTED = 5

function requireSameShardKeys(name: string, views: ShardKeyInfo[][]): ShardKeyInfo[] {
  const union = new Set(views.flatMap((keys) => keys.map(({ key }) => key)))
  for (const [node, keys] of views.entries()) {
    const missing = [...union].filter((key) => !keys.some((entry) => entry.key === key))
    if (missing.length === 0) continue
    const formatted = formatNames(
      missing.map((key) => JSON.stringify(key)),
      MAX_LISTED,
    )
    throw new EngineError(
      `the nodes do not know the same shard keys of ${name}: node ${node} does not know ${formatted}`,
    )
  }
  return views[0] ?? []
}

function requireSameReplicas(name: string, views: CollectionClusterInfo[]): void {
  const states = views.map(replicaStates)
  const nodes = new Map(views.map(({ peer_id }, ordinal) => [peer_id, `node ${ordinal}`]))
  for (const [replica, { shard, peer }] of states.flatMap((byReplica) => [...byReplica])) {
    const seen = states.map((byReplica) => byReplica.get(replica)?.state ?? 'unknown')
    const differing = seen.findIndex((state) => state !== seen[0])
    if (differing === -1) continue
    const owner = nodes.get(peer) ?? `peer ${peer}`
    throw new EngineError(
      `the nodes do not agree on the replicas of ${name}: shard ${shard} on ${owner} is ${seen[0]} according to node 0 and ${seen[differing]} according to node ${differing}`,
    )
  }
}

interface Replica {
  shard: number
  peer: number
  state: string
}

function replicaStates({ peer_id, local_shards, remote_shards }: CollectionClusterInfo) {
  const local = local_shards.map((shard) => ({ ...shard, peer_id }))
  return new Map(
    [...local, ...remote_shards].map(
      ({ shard_id: shard, peer_id: peer, state }): [string, Replica] => [
        `${shard}@${peer}`,
        { shard, peer, state },
      ],
    ),
  )
}

/** Whether a node that answers lists the collection; also if none answers. */
export async function mayExist(
  name: string,
  endpoint: Endpoint,
  context: RunContext,
): Promise<boolean> {
  return (await listedByAnyNode(endpoint, context))?.has(name) ?? true
}

/** Names that at least one node lists: one that has not caught up may not list all. Undefined if none answers. */
export async function listedByAnyNode(
  { nodes }: Endpoint,
  { tools }: RunContext,
): Promise<Set<string> | undefined> {
  const lists: string[][] = []
  for (const node of nodes) {
    try {
      lists.push(await node.collections(tools.signal))
    } catch (error) {
      tools.signal.throwIfAborted()
      if (!isTransient(error)) throw error
    }
  }
  return lists.length === 0 ? undefined : new Set(lists.flat())
}

/** The name of a cluster, or the address of another engine. */
export function formatSource({ plan, source }: RunContext): string {
  if (!('cluster' in plan.source)) return source.engine.node
  const { namespace, name } = plan.source.cluster
  return `cluster ${namespace}/${name}`
}
