/**
 * Guards against accidental damage by a changed number: version changes that the engine does not
 * support, and removing nodes that still hold shards. Each can be accepted by annotation. The
 * removed nodes' shards are collected from the views of all pods.
 */
import { Type, type Static } from '@sinclair/typebox'
import { EngineError, NotReady } from '../../crds/contract/errors.ts'
import { formatAcceptHint, type UpgradePlan } from '../../crds/contract/job.ts'
import { isReady, mayBeUpdating, Pod, StatefulSet } from '../../crds/kubernetes.ts'
import { parseVersion, versionIn } from '../../crds/versions.ts'
import { formatNames } from '../../crds/units.ts'
import { pods } from '../clients/kubernetes/api-resources.ts'
import type { Engine } from '../clients/engine/client.ts'
import type { ClusterStatus, CollectionClusterInfo } from '../clients/engine/responses.ts'
import type { Dependencies } from '../dependencies.ts'
import { ordinalFromUri } from './shards/membership.ts'

export interface SafetyViolation {
  reason: 'VersionSkipped' | 'VersionDowngraded' | 'ShardsWouldBeLost'
  message: string
}

const PodSpec = Type.Object({ containers: Type.Array(Type.Object({ image: Type.String() })) })

const PodImages = Type.Object({
  spec: Type.Object({ template: Type.Object({ spec: PodSpec }) }),
})

/** The live StatefulSet with the images of its pods. */
export const LiveStatefulSet = Type.Composite([StatefulSet, PodImages])
export type LiveStatefulSet = Static<typeof LiveStatefulSet>

/** Why this plan must not be applied to the live cluster; undefined if it may be applied. */
export async function checkSafety(
  plan: UpgradePlan,
  live: LiveStatefulSet,
  tools: Dependencies,
): Promise<SafetyViolation | undefined> {
  return (
    checkVersion(plan, live) ??
    (await checkOutdatedPods(plan, live, tools)) ??
    (await checkRemovedNodes(plan, live, tools))
  )
}

export function checkVersion(
  plan: UpgradePlan,
  live: LiveStatefulSet,
): SafetyViolation | undefined {
  return versionViolation(plan, runningVersion(live))
}

const PodOfRelease = Type.Composite([Pod, Type.Object({ spec: PodSpec })])

/** While an update is incomplete, pods have other versions than the StatefulSet. */
async function checkOutdatedPods(
  plan: UpgradePlan,
  live: LiveStatefulSet,
  { kubernetes }: Dependencies,
): Promise<SafetyViolation | undefined> {
  if (!mayBeUpdating(live) && isStatusCurrent(live)) return undefined
  const labelSelector = `app.kubernetes.io/instance=${plan.release}`
  const isRaised = isLaterMinor(plan.version, runningVersion(live))
  for (const pod of await kubernetes.list(pods(plan.namespace), PodOfRelease, { labelSelector })) {
    const version = versionIn(pod.spec.containers[0]?.image)
    const violation = versionViolation(plan, version)
    if (violation !== undefined) return violation
    if (!isRaised || isReady(pod) || plan.acceptedRisks.includes('version-skip')) continue
    const { name } = pod.metadata
    return {
      reason: 'VersionSkipped',
      message: `spec.version: ${version ?? 'unknown'} -> ${plan.version}: pod ${name} is not ready after an update that is not complete, so its files may be of an earlier minor version: set the former version and wait until it is ready; ${formatAcceptHint('version-skip')}`,
    }
  }
  return undefined
}

function isLaterMinor(version: string, from: string | undefined): boolean {
  if (from === undefined) return false
  const [a, b] = [parseVersion(version), parseVersion(from)]
  return a.major > b.major || (a.major === b.major && a.minor > b.minor)
}

/** The status is of this template: a status of the previous one does not show an update that is due. */
export function isStatusCurrent({ metadata, status }: LiveStatefulSet): boolean {
  return (status?.observedGeneration ?? 0) >= (metadata.generation ?? 0)
}

function versionViolation(
  plan: UpgradePlan,
  from: string | undefined,
): SafetyViolation | undefined {
  if (from === undefined) return undefined
  const { major, minor } = parseVersion(from)
  const { major: newMajor, minor: newMinor } = parseVersion(plan.version)
  // Patch releases of one minor version can read each other's files: a bad one can be rolled back.
  const isDowngrade = newMajor < major || (newMajor === major && newMinor < minor)
  const change = `spec.version: ${from} -> ${plan.version}`
  if (isDowngrade && !plan.acceptedRisks.includes('downgrade')) {
    return {
      reason: 'VersionDowngraded',
      message: `${change} downgrades to an earlier minor version, which the engine does not support; ${formatAcceptHint('downgrade')}`,
    }
  }
  const isSkip = newMajor > major || (newMajor === major && newMinor > minor + 1)
  if (isSkip && !plan.acceptedRisks.includes('version-skip')) {
    return {
      reason: 'VersionSkipped',
      message: `${change} skips a minor version, which the engine does not support: go one minor version at a time; ${formatAcceptHint('version-skip')}`,
    }
  }
  return undefined
}

/**
 * Version of the running engine as labelled by the chart; otherwise that of the chart, otherwise of
 * the image.
 */
export function runningVersion({ metadata, spec }: LiveStatefulSet): string | undefined {
  const [container] = spec.template.spec.containers
  const candidates = [
    metadata.labels?.['app.kubernetes.io/version'],
    metadata.labels?.['helm.sh/chart'],
    container?.image,
  ]
  for (const text of candidates) {
    const version = versionIn(text)
    if (version !== undefined) return version
  }
  return undefined
}

/**
 * The engine does not move shards by itself: a removed node takes its shards with it. An engine
 * that does not answer throws NotReady, because silence proves nothing.
 */
async function checkRemovedNodes(
  plan: UpgradePlan,
  live: LiveStatefulSet,
  tools: Dependencies,
): Promise<SafetyViolation | undefined> {
  const currentReplicas = live.spec.replicas ?? 1
  const { replicas } = plan.spec
  if (replicas >= currentReplicas || plan.acceptedRisks.includes('shard-loss')) return undefined
  tools.log.info({ before: currentReplicas, replicas }, 'checking the removed nodes for shards')
  const cluster = {
    namespace: plan.namespace,
    name: plan.name,
    replicas: currentReplicas,
    tls: plan.engine.tls,
  }
  const shards = await shardsOnRemovedNodes(
    { before: currentReplicas, after: replicas },
    (ordinal) => tools.engineForPod(cluster, ordinal),
    tools.signal,
  )
  if (shards.length === 0) return undefined
  return {
    reason: 'ShardsWouldBeLost',
    message: `spec.replicas: ${currentReplicas} -> ${replicas} removes nodes that hold shards: ${formatNames(shards, MAX_LISTED)}; move them to the remaining nodes, or ${formatAcceptHint('shard-loss')}`,
  }
}

const MAX_LISTED = 10

interface NodePlacements {
  ordinal: number
  peers: Extract<ClusterStatus, { status: 'enabled' }>
  placements: { collection: string; placement: CollectionClusterInfo }[]
}

/**
 * The shards on pods with ordinals of at least `after`, one line each. The views of all pods are
 * combined: a pod that fell out of consensus must not hide what the others know. Remaining pods
 * must answer; a removed pod may be silent, because the remaining ones know its shards.
 */
export async function shardsOnRemovedNodes(
  { before, after }: { before: number; after: number },
  engineForPod: (ordinal: number) => Engine,
  signal: AbortSignal,
): Promise<string[]> {
  const views: NodePlacements[] = []
  for (let ordinal = 0; ordinal < before; ordinal += 1) {
    try {
      views.push(await readNodePlacements(engineForPod(ordinal), ordinal, signal))
    } catch (error) {
      if (!(error instanceof EngineError)) throw error
      if (ordinal < after) {
        throw new NotReady(
          `spec.replicas: ${before} -> ${after} requires every remaining node to report its shards: ${error.message}`,
          { cause: error },
        )
      }
    }
  }
  return listShards(removedPeers(views, after), views)
}

async function readNodePlacements(
  engine: Engine,
  ordinal: number,
  signal: AbortSignal,
): Promise<NodePlacements> {
  const peers = await engine.cluster(signal)
  if (peers.status === 'disabled') {
    throw new NotReady(
      `${engine.node} has distributed mode disabled: it cannot report the shards of other nodes`,
    )
  }
  const placements: NodePlacements['placements'] = []
  for (const collection of await engine.collections(signal)) {
    const placement = await readPlacement(engine, collection, signal)
    if (placement !== undefined) placements.push({ collection, placement })
  }
  return { ordinal, peers, placements }
}

/** Undefined if the collection was deleted since it was listed. */
async function readPlacement(
  engine: Engine,
  collection: string,
  signal: AbortSignal,
): Promise<CollectionClusterInfo | undefined> {
  try {
    return await engine.collectionCluster(collection, signal)
  } catch (error) {
    if (error instanceof EngineError && error.status === 404) return undefined
    throw error
  }
}

/**
 * Ordinals of the removed peers. A pod that lost its volume appears as two peers with one address.
 */
function removedPeers(views: NodePlacements[], after: number): Map<number, number> {
  const removed = new Map<number, number>()
  for (const { ordinal, peers } of views) {
    for (const [id, { uri }] of Object.entries(peers.peers)) {
      const peerOrdinal = ordinalFromUri(uri)
      if (peerOrdinal !== undefined && peerOrdinal >= after) removed.set(Number(id), peerOrdinal)
    }
    if (ordinal >= after) removed.set(peers.peer_id, ordinal)
  }
  return removed
}

function listShards(removed: Map<number, number>, views: NodePlacements[]): string[] {
  const shards = new Set<string>()
  for (const { collection, placement } of views.flatMap(({ placements }) => placements)) {
    const local = placement.local_shards.map((shard) => ({ ...shard, peer_id: placement.peer_id }))
    for (const { peer_id, shard_id } of [...local, ...placement.remote_shards]) {
      const ordinal = removed.get(peer_id)
      if (ordinal !== undefined) shards.add(`${collection} shard ${shard_id} on node ${ordinal}`)
    }
  }
  return [...shards].sort()
}
