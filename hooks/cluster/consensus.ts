/**
 * The condition Consensus. `/readyz` returns 200 even if the pod's consensus thread has stopped or the
 * pod has bootstrapped a separate cluster, so every pod is asked for the peers it knows.
 *
 * Also the record that a cluster was formed: a ConfigMap that node 0 reads before it starts
 * (job.ts). It is a fact that was observed once, not a guess from a timeout.
 */
import { isDeepStrictEqual } from 'node:util'
import {
  releaseName,
  API_VERSION,
  FORMATION_NODES_KEY,
  formationConfigMapName,
  LABELS,
  MANAGED_BY,
} from '../../crds/contract/names.ts'
import { errorMessage } from '../background-task.ts'
import { getCondition, type ConditionUpdate } from '../conditions.ts'
import type { Observed, PodConsensus, FormationPorts } from './ports.ts'
import { isBeingReplaced } from './rollout.ts'
import { acceptedRisks } from './validation.ts'
import type { ClusterStatus, VecCluster } from '../../crds/cluster.ts'
import { keyRefused } from '../../crds/contract/api-keys.ts'
import { formatAcceptHint } from '../../crds/contract/job.ts'
import { KubernetesError } from '../../crds/contract/errors.ts'
import type { ConfigMap } from '../../crds/kubernetes.ts'

const MAX_MESSAGE = 1000
/** Of one pod; what follows it must fit into the message too. */
const MAX_ERROR = 500

/**
 * For how long a consensus thread may do nothing. Members of a cluster exchange messages several times a
 * second; the longest known wait while a change is applied is a minute.
 */
const SILENT_MS = 180_000

/**
 * Marks nodes whose consensus thread does nothing any more as stopped. The engine reports a thread that has
 * panicked, or waits for a lock for ever, as working. The clocks of nodes are not compared: the time that a
 * node reports must change from one query to the next. A node without peers may have nothing to do.
 */
export function withSilentThreads(
  pods: PodConsensus[],
  previous: PodConsensus[] = [],
  now: Date,
): PodConsensus[] {
  return pods.map((pod) => {
    const { ordinal, peerId, lastUpdate, peers = [] } = pod
    if (lastUpdate === undefined || peers.length < 2) return pod
    const before = previous.find((other) => other.ordinal === ordinal)
    const isUnchanged = before?.peerId === peerId && before?.lastUpdate === lastUpdate
    const unchangedSince = (isUnchanged ? before.unchangedSince : undefined) ?? now
    if (now.getTime() - unchangedSince.getTime() < SILENT_MS) return { ...pod, unchangedSince }
    const error = `its consensus thread has done nothing since ${lastUpdate}, although the engine reports that it works`
    return { ...pod, unchangedSince, state: 'stopped', error }
  })
}

/** The result of the latest query; what is known without one if the pods were not queried. */
export function consensusCondition(observed: Observed): ConditionUpdate | undefined {
  const { cluster, consensus, consensusFailure: failure } = observed
  const isKnownLost = consensus !== undefined && isLost(consensus)
  // A known loss of consensus remains valid until a pod reports otherwise; working consensus does not.
  if (failure !== undefined && !isKnownLost)
    return { type: 'Consensus', ...unreachable(failure.error) }
  if (consensus === undefined) return withoutQuery(observed)
  const result = assessConsensus(consensus, cluster.metadata.name)
  return { type: 'Consensus', ...result, message: result.message.slice(0, MAX_MESSAGE) }
}

/** The previous condition. Consensus cannot work while no pod is ready. */
function withoutQuery(observed: Observed): ConditionUpdate | undefined {
  const { cluster, statefulSet } = observed
  const previous = getCondition(cluster, 'Consensus')
  const hasReadyPod = (statefulSet?.status?.readyReplicas ?? 0) > 0 || isBeingReplaced(observed)
  if (previous?.status !== 'True' || hasReadyPod) return previous
  const message = 'no pod is ready'
  return { type: 'Consensus', status: 'Unknown', reason: 'PodsNotAnswering', message }
}

function unreachable(error: unknown): ConsensusResult {
  const message = `querying the pods failed: ${errorMessage(error)}`.slice(0, MAX_MESSAGE)
  return { status: 'Unknown', reason: 'PodsNotAnswering', message }
}

/** At least one pod reports a split cluster or lost consensus: work that needs consensus must not start. */
export function isConsensusLost(observed: Observed): boolean {
  return observed.consensus !== undefined && isLost(observed.consensus)
}

/** Every one of these pods is a member of one consensus that has a leader. */
function isConsensusWorking({ consensus = [] }: Observed, pods: number): boolean {
  const members = consensus.filter(isMember)
  return (
    members.length === pods &&
    members.length === consensus.length &&
    assessConsensus(consensus).status === 'True'
  )
}

function isLost(pods: PodConsensus[]): boolean {
  return assessConsensus(pods).status === 'False'
}

/**
 * Why no helm run may start while the pods form separate clusters: a node that is added or restarted joins the cluster
 * of node 0, which may be the empty one.
 */
export function splitBlocker({ cluster, consensus = [] }: Observed): string | undefined {
  const split = formatSplit(consensus, podNameIn(cluster.metadata.name))
  if (split === undefined || acceptedRisks(cluster).includes('split-brain')) return undefined
  return `${split.slice(0, MAX_MESSAGE)}; repair the cluster first, or ${formatAcceptHint('split-brain')}`
}

type ConsensusResult = Omit<ConditionUpdate, 'type'>
type PodNameOf = (ordinal: number) => string

function podNameIn(cluster: string): PodNameOf {
  return (ordinal) => `${releaseName(cluster)}-${ordinal}`
}

/** Messages name the pods and Secrets of the cluster. */
function assessConsensus(pods: PodConsensus[], cluster = ''): ConsensusResult {
  const podName = podNameIn(cluster)
  return (
    stoppedPods(pods, podName) ??
    splitBrain(pods, podName) ??
    removedPods(pods, podName) ??
    missingPeers(pods, podName) ??
    noLeader(pods, podName) ??
    unansweredPods(pods, podName, cluster) ??
    workingConsensus(pods)
  )
}

function stoppedPods(pods: PodConsensus[], podName: PodNameOf): ConsensusResult | undefined {
  const matching = pods.filter((pod) => pod.state === 'stopped' && !isRemoved(pod, pods))
  if (matching.length === 0) return undefined
  const message = matching.map(({ ordinal, error }) => `${podName(ordinal)}: ${error ?? 'stopped'}`)
  return falseResult('ConsensusStopped', message.join('; '))
}

function splitBrain(pods: PodConsensus[], podName: PodNameOf): ConsensusResult | undefined {
  const message = formatSplit(pods, podName)
  if (message === undefined) return undefined
  return falseResult(
    'SplitBrain',
    `${message}; backups, restores, migrations and helm runs wait until they form one cluster`,
  )
}

/** If two pods do not know each other, they belong to different clusters behind the same Service. */
function formatSplit(pods: PodConsensus[], podName: PodNameOf): string | undefined {
  const groups = connectedGroups(pods.filter(isMember))
  if (groups.length < 2) return undefined
  const listed = groups.map((group) => group.map(({ ordinal }) => podName(ordinal)).join(', '))
  return `the pods form ${groups.length} separate clusters: ${listed.join(' | ')}`
}

/** A removed node reports its consensus as stopped, and its volume keeps it from joining again. */
function removedPods(pods: PodConsensus[], podName: PodNameOf): ConsensusResult | undefined {
  const removed = pods.filter((pod) => isRemoved(pod, pods))
  if (removed.length === 0) return undefined
  return falseResult(
    'PeersMissing',
    `the other nodes have removed ${formatPods(removed, podName)}, which cannot join again with the same volume`,
  )
}

/**
 * A node that lists only itself, and that no other one lists. One whose consensus has failed lists the others; and an empty
 * node that founded a cluster alone does not prove that the others were removed.
 */
function isRemoved({ state, peerId, peers = [] }: PodConsensus, pods: PodConsensus[]): boolean {
  if (state !== 'stopped' || peerId === undefined) return false
  const members = pods.filter(isMember)
  const isAlone = peers.every(({ id }) => id === peerId)
  return (
    isAlone &&
    members.length * 2 > pods.length &&
    members.every((member) => !member.peers.some(({ id }) => id === peerId))
  )
}

/** Finds pods that answer but do not know all other pods. */
function missingPeers(pods: PodConsensus[], podName: PodNameOf): ConsensusResult | undefined {
  const ids = new Set(pods.map(({ peerId }) => peerId))
  const incomplete = pods.filter(isMember).flatMap((pod) => {
    const unknown = pods.filter((other) => !knowsPeer(pod, other, ids))
    return unknown.length === 0
      ? []
      : [`${podName(pod.ordinal)} does not know ${formatPods(unknown, podName)}`]
  })
  return incomplete.length === 0 ? undefined : falseResult('PeersMissing', incomplete.join('; '))
}

/** A pod that did not answer may be any peer whose address does not match a pod name. */
function knowsPeer({ peers }: Member, other: PodConsensus, ids: ReadonlySet<number | undefined>) {
  if (other.peerId !== undefined) return peers.some(({ id }) => id === other.peerId)
  return peers.some(
    ({ id, ordinal }) => ordinal === other.ordinal || (ordinal === undefined && !ids.has(id)),
  )
}

function noLeader(pods: PodConsensus[], podName: PodNameOf): ConsensusResult | undefined {
  const members = pods.filter(isMember)
  const withoutLeader = members.filter(({ hasLeader }) => !hasLeader)
  if (withoutLeader.length * 2 <= members.length) return undefined
  return falseResult('NoLeader', `no leader is known to ${formatPods(withoutLeader, podName)}`)
}

function unansweredPods(
  pods: PodConsensus[],
  podName: PodNameOf,
  cluster: string,
): ConsensusResult | undefined {
  const matching = pods.filter(({ state }) => state === 'unknown')
  if (matching.length === 0) return undefined
  const silent = matching.filter(({ rejection }) => rejection === undefined)
  const refusing = matching.filter(({ rejection }) => rejection !== undefined)
  const messages: string[] = []
  if (silent.length > 0) {
    const error = silent.find((pod) => pod.error !== undefined)?.error?.slice(0, MAX_ERROR)
    const names = formatPods(silent, podName)
    messages.push(`no answer from ${names}${error === undefined ? '' : `: ${error}`}`)
  }
  if (refusing.length > 0) {
    const codes = refusing.flatMap(({ rejection }) => rejection ?? [])
    messages.push(keyRefused(cluster, codes, formatPods(refusing, podName)))
  }
  return { status: 'Unknown', reason: 'PodsNotAnswering', message: messages.join('; ') }
}

function workingConsensus(pods: PodConsensus[]): ConsensusResult {
  const ids = new Set(pods.map(({ peerId }) => peerId))
  const peerIds = pods.filter(isMember).flatMap(({ peers }) => peers.map(({ id }) => id))
  const unknownPeers = new Set(peerIds.filter((id) => !ids.has(id)))
  const message =
    unknownPeers.size === 0
      ? `consensus works on ${pods.length} nodes`
      : `consensus works on ${pods.length} nodes; peers without a pod: ${[...unknownPeers].join(', ')}`
  return { status: 'True', reason: 'ConsensusWorking', message }
}

/** Groups of pods that know each other directly or through other pods. */
function connectedGroups(members: Member[]): Member[][] {
  const groups: Member[][] = []
  for (const member of members) {
    const related = groups.filter((group) => group.some((other) => areConnected(member, other)))
    const joined = [...related.flat(), member].toSorted((a, b) => a.ordinal - b.ordinal)
    groups.splice(0, groups.length, ...groups.filter((group) => !related.includes(group)), joined)
  }
  return groups
}

function areConnected(a: Member, b: Member): boolean {
  return a.peers.some(({ id }) => id === b.peerId) || b.peers.some(({ id }) => id === a.peerId)
}

type Member = PodConsensus & Required<Pick<PodConsensus, 'peerId' | 'peers'>>

function isMember(pod: PodConsensus): pod is Member {
  return pod.state === 'working' && pod.peerId !== undefined && pod.peers !== undefined
}

function formatPods(pods: PodConsensus[], podName: PodNameOf): string {
  return pods.map(({ ordinal }) => podName(ordinal)).join(', ')
}

function falseResult(reason: string, message: string): ConsensusResult {
  return { status: 'False', reason, message }
}

/**
 * The number of nodes to record: that of the cluster once every pod is a member of one consensus. Until then the recorded
 * one, or a larger one once several pods are members. A single node has nothing to join, so it is recorded only if it once had others.
 */
export function formedNodes(observed: Observed, isRolledOut: boolean): number | undefined {
  const { cluster, statefulSet } = observed
  const recorded = cluster.status?.formedNodes
  const nodes = statefulSet?.spec.replicas ?? 1
  if (!cluster.spec.cluster.enabled) return recorded
  if (!isRolledOut || !isConsensusWorking(observed, nodes)) {
    const joined = joinedNodes(observed, nodes)
    return joined > Math.max(1, recorded ?? 1) ? joined : recorded
  }
  return nodes > 1 || recorded !== undefined ? nodes : undefined
}

/**
 * While pods are missing: as many as node 0 has to look for members among. It must not found a second cluster because one
 * of the pods that are being added is late.
 */
function joinedNodes({ consensus = [] }: Observed, pods: number): number {
  const members = consensus.filter(isMember).filter(({ ordinal }) => ordinal < pods)
  if (members.length < 2 || assessConsensus(members).status !== 'True') return 1
  return 1 + Math.max(...members.map(({ ordinal }) => ordinal))
}

/**
 * The record to store: when the number changes, and whenever consensus starts to work, because a user may
 * have deleted the ConfigMap to found the cluster again.
 */
export function formationRecord(
  cluster: VecCluster,
  { formedNodes: nodes, conditions = [] }: ClusterStatus,
): ConfigMap | undefined {
  if (nodes === undefined) return undefined
  const isWorking = conditions.some(({ type, status }) => type === 'Consensus' && status === 'True')
  const wasWorking = getCondition(cluster, 'Consensus')?.status === 'True'
  const isRecorded = nodes === cluster.status?.formedNodes && (wasWorking || !isWorking)
  if (isRecorded) return undefined
  const { namespace, name, uid } = cluster.metadata
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      namespace,
      name: formationConfigMapName(name),
      labels: { [LABELS.managedBy]: MANAGED_BY },
      ownerReferences: [{ apiVersion: API_VERSION, kind: 'VecCluster', name, uid }],
    },
    data: { [FORMATION_NODES_KEY]: String(nodes) },
  }
}

/**
 * Stores the record. Only the data that the record names change in a ConfigMap that exists. Throws if
 * another writer was faster: the hook fails, and its retry reads the ConfigMap again.
 */
export async function writeFormation(record: ConfigMap, ports: FormationPorts): Promise<void> {
  const { namespace = '', name } = record.metadata
  const live = await ports.configMap(namespace, name)
  const data = { ...live?.data, ...record.data }
  const { resourceVersion } = live?.metadata ?? {}
  const metadata = {
    ...record.metadata,
    ...(resourceVersion !== undefined && { resourceVersion }),
  }
  const isStored =
    isDeepStrictEqual(live?.data, data) &&
    isDeepStrictEqual(live?.metadata.ownerReferences, metadata.ownerReferences)
  if (isStored || (await ports.writeConfigMap({ ...record, metadata, data }))) return
  throw new KubernetesError(`ConfigMap ${namespace}/${name} has changed since it was read`, {
    status: 409,
  })
}
