/** Whether the target is fit to be restored into: what is true of it for every collection. */
import { EngineError, Rejected } from '../../crds/contract/errors.ts'
import { formatBytes } from '../../crds/units.ts'
import { readConsistentState } from '../cluster-consistency.ts'
import { retryTransient } from '../retry.ts'
import { engineOn, ordinals, recoveryOn, type PreflightContext } from './context.ts'
import type { Placement } from './placement.ts'
import type { NodeItem, RestoreItem, ShardItem, SourceManifest } from './restore-item.ts'

type CheckContext = Pick<PreflightContext, 'plan' | 'tools' | 'patience'>

/** Before it, snapshots are lost on nodes that hold no data of a shard (facts 6.3). */
export const MIN_MULTI_NODE_VERSION = '1.17.1'

/** Throws with the first reason why not; waits, within bounds, for nodes that are restarted. */
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

/** An upgrade may have rolled between two collections; earlier releases recorded one version for all. */
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
  const requests = ordinals(context).map((ordinal) => engineOn(context, ordinal).version(signal))
  const versions = new Set(await Promise.all(requests))
  const [version = '', ...others] = versions
  if (others.length === 0) return version
  throw new EngineError(`the nodes run different versions: ${[...versions].join(', ')}`)
}

/** A snapshot is read by the minor version that wrote it, and by the next one. */
export function requireCompatibleVersion(version: string, engineVersion: string): void {
  const [major, minor] = parseVersion(version)
  const [backupMajor, backupMinor] = parseVersion(engineVersion)
  if (major === backupMajor && (minor === backupMinor || minor === backupMinor + 1)) return
  throw new Rejected(
    `Backup was taken by engine ${engineVersion} but the target runs ${version}: a snapshot is read by the same minor version or the next one`,
  )
}

/** Whether an engine that may restore into several nodes reads snapshots of this one. */
export function canRestoreToSeveralNodes(engineVersion: string): boolean {
  const [major, minor] = parseVersion(engineVersion)
  const [firstMajor, firstMinor] = parseVersion(MIN_MULTI_NODE_VERSION)
  return major > firstMajor || (major === firstMajor && minor + 1 >= firstMinor)
}

export function requireSupportedEngine(version: string, nodes: number): void {
  if (nodes === 1 || !isOlder(version, MIN_MULTI_NODE_VERSION)) return
  throw new Rejected(
    `the target runs engine ${version} on ${nodes} nodes: a restore into several nodes needs ${MIN_MULTI_NODE_VERSION}`,
  )
}

/** The nodes are one cluster, and its peers are the pods: a shard may come to a peer that is none of them. */
async function checkPeers(context: CheckContext): Promise<void> {
  const { replicas } = context.plan.cluster
  const { peers } = await readConsistentState({
    replicas,
    engineForPod: (ordinal) => engineOn(context, ordinal),
    signal: context.tools.signal,
  })
  if (peers === replicas) return
  throw new EngineError(
    `the nodes know of ${peers} peers, but the target has ${replicas} pods: remove the other peers`,
  )
}

function parseVersion(version: string): [number, number, number] {
  const [major = 0, minor = 0, patch = 0] = version.split(/[.-]/).map(Number)
  return [major, minor, patch]
}

function isOlder(a: string, b: string): boolean {
  const [left, right] = [parseVersion(a), parseVersion(b)]
  const index = left.findIndex((number, position) => number !== right[position])
  return index !== -1 && (left[index] ?? 0) < (right[index] ?? 0)
}

/** Of one node. */
export interface NodeLoad {
  node: number
  /** What comes to it, by the backup's own sizes: copies are as large as their snapshots. */
  bytes: number
  /** All its disks together, in bytes; absent where the engine does not tell. */
  disk?: number
}

/** Throws where a snapshot of a node is larger than all its disks. */
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

/** Throws where all that is to go to a node by shard is larger than all its disks. */
export function rejectOverCapacity(loads: NodeLoad[]): void {
  for (const { node, bytes, disk } of loads) {
    if (disk === undefined || bytes <= disk) continue
    throw new Rejected(
      `node ${node} has disks of ${formatBytes(disk)}, but shards of ${formatBytes(bytes)} are to go there`,
    )
  }
}

/** What each node gets of all collections that are backed up by shard. */
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

/** Of each node; undefined where the engine does not tell. */
function diskCapacities(context: PreflightContext): Promise<(number | undefined)[]> {
  const { signal } = context.tools
  const readCapacity = (node: number) =>
    retryTransient(context, () => recoveryOn(context, node).diskBytes(signal))
  return Promise.all(ordinals(context).map(readCapacity))
}
