/**
 * The condition Capacity: whether the data volumes have space for the data and for the work on it. The
 * optimizer of the engine rewrites segments and needs twice their size, so a volume must not become full.
 * The engine does not report free space: the data are estimated from its telemetry (docs/engine-notes.md).
 */
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import type { ConditionReason } from '../../crds/schema.ts'
import { formatBytes, formatNames, parseQuantity } from '../../crds/units.ts'
import { getCondition, type ConditionUpdate } from '../conditions.ts'
import type { Observed } from './ports.ts'
import type { NodeFacts } from './shards/summary.ts'

/** Percent of a volume from which on the optimizer may not find the space that it needs. */
const LOW_PERCENT = 70
/** Percent from which on the engine refuses writes soon. */
const FULL_PERCENT = 90
const MAX_LISTED = 3

/** A node whose data and volume are known. */
interface NodeUse {
  ordinal: number
  used: number
  capacity: number
}

/** What the helm run that is due waits for. */
export interface RunState {
  /** The maintenance window, whatever else Applied says. */
  window?: ConditionReason | undefined
  notApplied?: ConditionReason | undefined
}

/** Undefined while nothing is known; the previous condition while nodes are not asked or do not answer. */
export function capacityCondition(
  observed: Observed,
  run: RunState = {},
): ConditionUpdate | undefined {
  const { cluster, progress, shards: summary } = observed
  if (!cluster.spec.cluster.enabled || progress?.applied === undefined) return undefined
  if (summary === undefined) return getCondition(cluster, 'Capacity')
  const uses = summary.nodes.flatMap((node) => nodeUse(node) ?? [])
  const crowded = uses
    .filter((use) => percentOf(use) >= LOW_PERCENT)
    .toSorted((a, b) => percentOf(b) - percentOf(a))
  const [worst] = crowded
  if (worst !== undefined) {
    const reason = percentOf(worst) >= FULL_PERCENT ? 'VolumeFull' : 'VolumeLow'
    const message = `${listNodes(crowded)}: ${adviceFor(observed, run)}`
    return { type: 'Capacity', status: 'False', reason, message }
  }
  const unknown = summary.nodes.filter((node) => nodeUse(node) === undefined)
  if (unknown.length > 0) {
    const isMember = ({ ordinal }: NodeFacts) =>
      summary.peers.some((peer) => peer.isMember && peer.ordinal === ordinal)
    const previous = getCondition(cluster, 'Capacity')
    // A node that restarts has the same data afterwards; Ready and Consensus report it meanwhile.
    if (previous !== undefined && !unknown.some(isMember)) return previous
    const nodes = unknown.map(({ ordinal }) => `node ${ordinal}`)
    const message = `${formatNames(nodes, MAX_LISTED)} did not report the size of the data, or the volume has no capacity`
    return { type: 'Capacity', status: 'Unknown', reason: 'CapacityUnknown', message }
  }
  const [most] = uses.toSorted((a, b) => percentOf(b) - percentOf(a))
  const message =
    most === undefined
      ? 'there are no volumes'
      : `the data take at most ${percentOf(most)} % of a volume`
  return { type: 'Capacity', status: 'True', reason: 'SpaceAvailable', message }
}

/**
 * Data and capacity of a node for the status, rounded to a hundredth of the volume: every write must not
 * change the status.
 */
export function nodeCapacity(node: NodeFacts): { used?: number; capacity?: number } {
  const { volumeBytes: capacity } = node
  const use = nodeUse(node)
  return {
    ...(use !== undefined && { used: Math.round((percentOf(use) * use.capacity) / 100) }),
    ...(capacity !== undefined && { capacity }),
  }
}

/** Percent of the volume that is in use; undefined if it is not known. */
export function usedPercent(node: NodeFacts): number | undefined {
  const use = nodeUse(node)
  return use && percentOf(use)
}

function adviceFor(observed: Observed, run: RunState): string {
  const { cluster, progress } = observed
  const { size, autoGrow } = cluster.spec.persistence
  if (autoGrow === undefined) return 'raise spec.persistence.size'
  const current = Math.max(parseQuantity(size), parseQuantity(progress?.applied?.grownSize ?? size))
  if (current >= parseQuantity(autoGrow.max)) return 'raise spec.persistence.autoGrow.max'
  return formatGrowth(observed, run)
}

/** One run applies all that is due: the volumes grow with it. */
function formatGrowth({ pendingRun }: Observed, { window, notApplied }: RunState): string {
  if (pendingRun !== undefined && window !== undefined) {
    return `spec.persistence.autoGrow enlarges the volumes with the next helm run, which ${window.message}: to start it now, set the annotation ${ANNOTATIONS.maintenance}: now`
  }
  const isStarting = notApplied === undefined || STARTING_REASONS.has(notApplied.reason)
  if (pendingRun === undefined || isStarting) {
    return 'spec.persistence.autoGrow enlarges the volumes'
  }
  return `spec.persistence.autoGrow enlarges the volumes with the next helm run, once it can start (${notApplied.reason}): see the condition Applied`
}

const STARTING_REASONS = new Set(['HelmStarting', 'HelmRunning'])

function nodeUse({ ordinal, dataBytes, volumeBytes }: NodeFacts): NodeUse | undefined {
  if (dataBytes === undefined || volumeBytes === undefined || volumeBytes <= 0) return undefined
  return { ordinal, used: dataBytes, capacity: volumeBytes }
}

function percentOf({ used, capacity }: NodeUse): number {
  return Math.floor((100 * used) / capacity)
}

function listNodes(uses: NodeUse[]): string {
  const listed = uses
    .slice(0, MAX_LISTED)
    .map(
      (use) =>
        `node ${use.ordinal} has about ${percentOf(use)} % of its volume of ${formatBytes(use.capacity)} in use`,
    )
  const more = uses.length - listed.length
  return listed.join(', ') + (more > 0 ? ` and ${more} more nodes` : '')
}
