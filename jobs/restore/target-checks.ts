/**
 * Checks of the target that concern all collections: engine version, peers of the cluster, number
 * of nodes, disk capacity of the nodes.
 */
import { EngineError, Rejected } from '../../crds/contract/errors.ts'
import { isShardManifest } from '../../crds/contract/manifest.ts'
import { formatBytes } from '../../crds/units.ts'
import { isSameOrNextMinor, parseVersion } from '../../crds/versions.ts'
import { readConsistentState } from '../cluster-consistency.ts'
import { retryTransient } from '../retry.ts'
import { engineForPod, ordinals, recoveryForPod, type PreflightContext } from './context.ts'
import type { Placement } from './placement.ts'
import type { NodeItem, RestoreItem, ShardItem, SourceManifest } from '../manifest-check.ts'

type CheckContext = Pick<PreflightContext, 'plan' | 'tools' | 'retryBudget'>

/**
 * Before this version, a recovery left replicas of shards without data in a state from which they
 * do not recover (docs/engine-notes.md, "Recovery of a collection").
 */
export const MIN_MULTI_NODE_VERSION = '1.17.1'

/**
 * Throws the first reason why the target cannot be restored into; retries, within the retry budget,
 * while nodes restart.
 */
export async function checkTarget(
  manifest: Pick<SourceManifest, 'engineVersion'>,
  items: readonly RestoreItem[],
  context: CheckContext,
): Promise<void> {
  const recorded = recordedVersions(manifest, items)
  await Promise.all([
    checkVersion(recorded, context),
    retryTransient(context, () => checkPeers(context)),
  ])
}

/**
 * Engine versions that the backup records. An upgrade may have run between two collections; earlier
 * releases of the operator recorded one version for all of them.
 */
export function recordedVersions(
  { engineVersion }: Pick<SourceManifest, 'engineVersion'>,
  items: readonly { source: Pick<RestoreItem['source'], 'engineVersion'> }[],
): string[] {
  const versions = items.map(({ source }) => source.engineVersion ?? engineVersion)
  const distinct = new Set(versions.length === 0 ? [engineVersion] : versions)
  return [...distinct].filter((version) => version !== undefined)
}

async function checkVersion(recorded: string[], context: CheckContext): Promise<void> {
  const version = await retryTransient(context, () => clusterVersion(context))
  requireSupportedEngine(version, context.plan.cluster.replicas)
  for (const engineVersion of recorded) requireCompatibleVersion(version, engineVersion)
}

async function clusterVersion(context: CheckContext): Promise<string> {
  const { signal } = context.tools
  const requests = ordinals(context).map((ordinal) =>
    engineForPod(context, ordinal).version(signal),
  )
  const versions = new Set(await Promise.all(requests))
  const [version = '', ...others] = versions
  if (others.length === 0) return version
  throw new EngineError(`the nodes run different versions: ${[...versions].join(', ')}`)
}

/** A snapshot can be read by the minor version that wrote it and by the next one. */
export function requireCompatibleVersion(version: string, engineVersion: string): void {
  if (isSameOrNextMinor(engineVersion, version)) return
  throw new Rejected(
    `Backup was taken by engine ${engineVersion} but the target runs ${version}: a snapshot is read by the same minor version or the next one`,
  )
}

/**
 * Whether an engine that supports a restore into several nodes can read snapshots of this version.
 */
export function canRestoreToSeveralNodes(engineVersion: string): boolean {
  const [oldest, source] = [parseVersion(MIN_MULTI_NODE_VERSION), parseVersion(engineVersion)]
  return (
    source.major > oldest.major ||
    (source.major === oldest.major && source.minor + 1 >= oldest.minor)
  )
}

export function requireSupportedEngine(version: string, nodes: number): void {
  // A pre-release counts as its release.
  const isOlder = parseVersion(version).compareMain(MIN_MULTI_NODE_VERSION) < 0
  if (nodes === 1 || !isOlder) return
  throw new Rejected(
    `the target runs engine ${version} on ${nodes} nodes: a restore into several nodes needs ${MIN_MULTI_NODE_VERSION}`,
  )
}

/**
 * The nodes must form one cluster whose peers are exactly the pods: otherwise the engine may place
 * a shard on a peer that is not a pod.
 */
async function checkPeers(context: CheckContext): Promise<void> {
  const { replicas } = context.plan.cluster
  const { peers } = await readConsistentState({
    replicas,
    engineForPod: (ordinal) => engineForPod(context, ordinal),
    signal: context.tools.signal,
  })
  if (peers === replicas) return
  throw new EngineError(
    `the nodes know of ${peers} peers, but the target has ${replicas} pods: remove the other peers`,
  )
}

/**
 * A node snapshot has all shards of a node in one file, which a node can only recover as a whole.
 */
export function requireSameNodeCount(
  manifest: Pick<SourceManifest, 'manifestVersion' | 'nodeCount'>,
  replicas: number,
): void {
  if (isShardManifest(manifest) || manifest.nodeCount === replicas) return
  throw new Rejected(
    `Backup was taken from ${manifest.nodeCount} nodes but target cluster has ${replicas}; a backup with spec.method Shard is restored into any number of nodes`,
  )
}

/** Bytes that one node receives, and its disk capacity. */
export interface NodeLoad {
  node: number
  /**
   * Bytes that the node receives, by the sizes in the backup: a replica is as large as its
   * snapshot.
   */
  bytes: number
  /** Total size of all its disks in bytes; absent if the engine does not report it. */
  disk?: number
}

/** Throws if a snapshot of a node is larger than all disks of that node together. */
export async function checkNodeCapacity(
  items: RestoreItem[],
  context: PreflightContext,
): Promise<void> {
  const nodeItems = items.filter((item): item is NodeItem => item.method === 'Node')
  if (nodeItems.length === 0) return
  for (const [node, disk] of (await diskCapacities(context)).entries()) {
    const sizes = nodeItems.flatMap(({ source }) =>
      source.snapshots
        .filter(({ nodeIndex }) => nodeIndex === node)
        .map(({ sizeBytes }) => sizeBytes),
    )
    const largest = Math.max(0, ...sizes)
    if (disk === undefined || largest <= disk) continue
    throw new Rejected(
      `node ${node} has disks of ${formatBytes(disk)}, but a snapshot of ${formatBytes(largest)} is to go there`,
    )
  }
}

/** Throws if the shards that a node receives are larger in total than all its disks together. */
export function rejectOverCapacity(loads: NodeLoad[]): void {
  for (const { node, bytes, disk } of loads) {
    if (disk === undefined || bytes <= disk) continue
    throw new Rejected(
      `node ${node} has disks of ${formatBytes(disk)}, but shards of ${formatBytes(bytes)} are to go there`,
    )
  }
}

/** Bytes that each node receives from all collections that are backed up by shard. */
export async function nodeLoads(
  items: RestoreItem[],
  placements: Map<string, Placement>,
  context: PreflightContext,
): Promise<NodeLoad[]> {
  const shardItems = items.filter((item): item is ShardItem => item.method === 'Shard')
  if (shardItems.length === 0) return []
  return (await diskCapacities(context)).map((disk, node) => {
    const bytes = shardItems.reduce(
      (sum, { source, name }) =>
        sum +
        source.snapshots
          .filter(({ shardId }) => placements.get(name)?.get(shardId)?.includes(node) ?? false)
          .reduce((subtotal, { sizeBytes }) => subtotal + sizeBytes, 0),
      0,
    )
    return { node, bytes, ...(disk !== undefined && { disk }) }
  })
}

/** Disk capacity of each node; undefined if the engine does not report it. */
function diskCapacities(context: PreflightContext): Promise<(number | undefined)[]> {
  const { signal } = context.tools
  const readCapacity = (node: number) =>
    retryTransient(context, () => recoveryForPod(context, node).diskBytes(signal))
  return Promise.all(ordinals(context).map(readCapacity))
}
