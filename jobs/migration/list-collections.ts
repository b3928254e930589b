/**
 * The collections of the source. A node of a managed cluster that lost its volume, or that has not caught up,
 * answers with another list than the others: every node is asked, and all must agree.
 */
import { EngineError } from '../../crds/contract/errors.ts'
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
  try {
    const { collections } = await withBackoff(context, () => readConsistentState(options))
    return collections
  } catch (error) {
    if (!(error instanceof EngineError)) throw error
    const message = `source ${formatSource(context)}: ${error.message}`
    throw new EngineError(message, { cause: error, status: error.status })
  }
}

/** Whether a node that answers lists the collection; also if none answers. */
export async function mayExist(
  name: string,
  { nodes }: Endpoint,
  { tools }: RunContext,
): Promise<boolean> {
  const lists: string[][] = []
  for (const node of nodes) {
    try {
      lists.push(await node.collections(tools.signal))
    } catch (error) {
      tools.signal.throwIfAborted()
      if (!isTransient(error)) throw error
    }
  }
  return lists.length === 0 || lists.some((names) => names.includes(name))
}

/** The name of a cluster, or the address of another engine. */
export function formatSource({ plan, source }: RunContext): string {
  if (!('cluster' in plan.source)) return source.engine.node
  const { namespace, name } = plan.source.cluster
  return `cluster ${namespace}/${name}`
}
