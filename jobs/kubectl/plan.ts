/**
 * `plan <kind>/<name>`: shows what the operator does with the shards of a cluster, without doing it. It asks
 * every node as the Job does, and plans with the same function.
 */
import type { VecCluster } from '../../crds/cluster.ts'
import { clusterConnection } from '../../crds/contract/connection.ts'
import { KubernetesError } from '../../crds/contract/errors.ts'
import { parseProgress } from '../../crds/contract/job.ts'
import { ANNOTATIONS, releaseName } from '../../crds/contract/names.ts'
import { AnyObject, StatefulSet, mayBeUpdating } from '../../crds/kubernetes.ts'
import { formatBytes, parseQuantity } from '../../crds/units.ts'
import { persistentVolumeClaims, statefulSets } from '../clients/kubernetes/api-resources.ts'
import type { Kubernetes } from '../clients/kubernetes/client.ts'
import { describeResharding, unavailableNote } from '../cluster/shards/describe.ts'
import { newObservationMemory, observeShards } from '../cluster/shards/observe.ts'
import { peerName } from '../cluster/shards/queries.ts'
import { reshardingOwner } from '../cluster/shards/resharding-steps.ts'
import { readPods, withUpdate } from '../cluster/shards/stateful-set.ts'
import { planAll, viewAfter, type WholePlan } from '../cluster/shards/simulate.ts'
import { isReshardingStep, type Step } from '../cluster/shards/step.ts'
import type { ClusterView, DesiredNumber, DesiredShards, PeerView } from '../cluster/shards/view.ts'
import {
  CliError,
  CLUSTER_FLAGS,
  engineClients,
  EXIT_CODES,
  stringFlag,
  type CliCommand,
  type Invocation,
} from './command.ts'
import { formatOutput, oneLine, outputFlags, formatColumns } from './output.ts'
import { parseOperands, readSubject } from './plan-subject.ts'

export const plan: CliCommand = {
  name: 'plan',
  operands: '<kind>/<name>',
  operandCount: { min: 1, max: 2 },
  summary: 'show the next steps for the shards of a VecCluster, without changing anything',
  details: [
    'Asks every node for its shards and plans as the operator does: nodes that have lost their data, missing and defective replicas, nodes to remove, an update of the pods, other numbers of shards, and balance. Each step assumes that the ones before it have succeeded. Replicas that are Dead are shown as repaired; the operator gives the engine ten minutes to do so.',
    'With --replicas it plans for another number of nodes; new nodes are empty. For a VecCollection, only its number of shards is changed; --shards plans for another number. Fails if the operator would refuse the work.',
  ],
  flags: {
    ...CLUSTER_FLAGS,
    replicas: {
      type: 'string',
      value: 'NUMBER',
      description: 'number of nodes to plan for; default: spec.replicas',
    },
    shards: {
      type: 'string',
      value: 'NUMBER',
      description: 'number of shards of the VecCollection; default: spec.shardNumber',
    },
    replace: {
      type: 'string',
      value: 'NODES',
      description: 'nodes whose data is lost, separated by commas',
    },
    ...outputFlags(),
  },
  run: showPlan,
}

/** Nodes that have just changed differ for a moment. */
const MAX_OBSERVATIONS = 4
const OBSERVATION_PAUSE_MS = 1_000
const MAX_NODES = 1000
const MAX_SHARDS = 1000

/** The plan as it is printed. */
interface PlanReport {
  cluster: { namespace: string; name: string }
  /** Number of pods of the StatefulSet, and the number that is planned for. */
  nodes: number
  plannedNodes: number
  /** Desired number of replicas, and how many are Active. */
  replicas: number
  activeReplicas: number
  steps: { step: Step; purpose: string; description: string; bytes: number }[]
  bytes: number
  end: WholePlan['end']
}

async function showPlan(call: Invocation): Promise<number> {
  const flags = readFlags(call)
  const operands = parseOperands(call.operands, flags.shards)
  const { kubernetes, namespace } = await call.connect()
  const { cluster, numbers } = await readSubject(kubernetes, namespace, operands)
  const view = await observe(kubernetes, cluster, call)
  const plannedNodes = flags.replicas ?? cluster.spec.replicas
  const lost = new Set(await lostPeers(kubernetes, cluster, view))
  for (const { id, ordinal, isMember } of view.peers) {
    if (!isMember && ordinal !== undefined && flags.replaced.has(ordinal)) lost.add(id)
  }
  const desired = desiredShards(cluster, { nodes: plannedNodes, lost: [...lost], numbers })
  const start = withNewNodes(view, cluster, plannedNodes)
  const report = planReport(cluster, view.nodes, { start, desired })
  call.print(formatOutput(call, report, () => formatReport(report)))
  return report.end.is === 'refused' ? EXIT_CODES.failure : EXIT_CODES.success
}

interface Flags {
  replicas: number | undefined
  shards: number | undefined
  replaced: Set<number>
}

function readFlags(call: Invocation): Flags {
  const names = stringFlag(call, 'replace')?.split(',') ?? []
  const wrong = names.find((name) => !/^[0-9]{1,4}$/.test(name))
  if (wrong !== undefined) {
    throw new CliError(
      `plan: --replace ${wrong}: must be numbers of nodes, such as 2`,
      EXIT_CODES.usage,
    )
  }
  return {
    replicas: numberFlag(call, 'replicas', MAX_NODES),
    shards: numberFlag(call, 'shards', MAX_SHARDS),
    replaced: new Set(names.map(Number)),
  }
}

function numberFlag(call: Invocation, name: string, max: number): number | undefined {
  const text = stringFlag(call, name)
  if (text === undefined) return undefined
  const number = Number(text)
  if (!/^[0-9]{1,4}$/.test(text) || number === 0 || number > max) {
    throw new CliError(
      `plan: --${name} ${text}: must be a number from 1 to ${max}`,
      EXIT_CODES.usage,
    )
  }
  return number
}

/** Repeats the observation while the nodes differ, or while a replica only looks unreadable. */
async function observe(
  kubernetes: Kubernetes,
  cluster: VecCluster,
  call: Invocation,
): Promise<ClusterView> {
  const { namespace, name } = cluster.metadata
  const release = releaseName(name)
  const statefulSet = await kubernetes.get(statefulSets(namespace), release, StatefulSet)
  if (statefulSet === undefined) {
    throw new CliError(
      `VecCluster ${namespace}/${name} is not installed yet: it has no StatefulSet`,
    )
  }
  const zones = (cluster.status?.nodes ?? []).flatMap(({ ordinal, zone }) =>
    zone === undefined ? [] : [[String(ordinal), zone] as const],
  )
  const memory = newObservationMemory()
  const options = {
    nodes: statefulSet.spec.replicas ?? 1,
    name: cluster.metadata.name,
    zones: Object.fromEntries(zones),
    volumeBytes: volumeBytes(cluster),
    memory,
    // Nothing is dropped here: the second look decides.
    lastingMs: 0,
    comparesCounts: mayBeUpdating(statefulSet),
  }
  const engineForPod = engineClients(kubernetes, clusterConnection(cluster), call)
  for (let count = 1; ; count += 1) {
    const nowMs = call.time.monotonicMs()
    const view = await observeShards({ ...options, nowMs }, engineForPod, call.signal)
    const isClear =
      view.unsettled === undefined && memory.suspects.size + memory.disputes.size === 0
    if (isClear || view.broken !== undefined || count === MAX_OBSERVATIONS) {
      return withPods(view, statefulSet, kubernetes)
    }
    await call.time.sleep(OBSERVATION_PAUSE_MS, call.signal)
  }
}

/** Users who may not read pods do not see the steps of an update. */
async function withPods(
  view: ClusterView,
  statefulSet: StatefulSet,
  kubernetes: Kubernetes,
): Promise<ClusterView> {
  const { namespace = '', name: release } = statefulSet.metadata
  if (!mayBeUpdating(statefulSet)) return view
  try {
    const pods = await readPods(statefulSet, { namespace, release }, { kubernetes })
    return withUpdate(view, statefulSet, (ordinal) => pods[ordinal])
  } catch (error) {
    if (error instanceof KubernetesError && error.status === 403) return view
    throw error
  }
}

/** Of a data volume, as the nodes were last observed: a size that is planned may have to wait. */
export function volumeBytes({ spec, status }: Pick<VecCluster, 'spec' | 'status'>): number {
  const { size } = spec.persistence
  const observed = (status?.nodes ?? []).flatMap(({ capacity }) => capacity ?? [])
  if (observed.length > 0) return Math.min(...observed)
  return Math.max(parseQuantity(size), parseQuantity(status?.volumeSize ?? size))
}

/** Peers of nodes whose volume is not the one that the status records, and that are not members. */
async function lostPeers(
  kubernetes: Kubernetes,
  { metadata, status }: VecCluster,
  { peers }: ClusterView,
): Promise<number[]> {
  const { namespace, name } = metadata
  const recorded = status?.nodes ?? []
  const suspected = recorded.filter(({ peer, volume }) => {
    return volume !== undefined && peers.some(({ id, isMember }) => id === peer && !isMember)
  })
  if (suspected.length === 0) return []
  const isClaim = new RegExp(`-${releaseName(name)}-[0-9]+$`)
  try {
    const found = await kubernetes.list(persistentVolumeClaims(namespace), AnyObject)
    const volumes = new Set(
      found.flatMap(({ metadata }) => (isClaim.test(metadata.name) ? [metadata.uid] : [])),
    )
    return suspected.filter(({ volume }) => !volumes.has(volume)).map(({ peer }) => peer)
  } catch (error) {
    // Users who may not read claims name the nodes with --replace.
    if (error instanceof KubernetesError && error.status === 403) return []
    throw error
  }
}

/** As the hook decides it: balance is due after the number of nodes has changed, unless it is always due. */
function desiredShards(
  { metadata, spec, status }: VecCluster,
  { nodes, lost, numbers }: { nodes: number; lost: number[]; numbers: DesiredNumber[] },
): DesiredShards {
  const { annotations, uid } = metadata
  const accepted = annotations?.[ANNOTATIONS.acceptRisk]?.split(',').map((risk) => risk.trim())
  const progress = parseProgress(annotations?.[ANNOTATIONS.progress], uid)
  const current = progress?.shards?.resharding
  const { balance, maxTransfers } = spec.shards
  const isRescaled = nodes !== (status?.balancedNodes ?? nodes) || nodes !== spec.replicas
  return {
    nodes,
    repair: spec.healing.replicas,
    allowsFewerReplicas: accepted?.includes('fewer-replicas') === true,
    update: {
      singleCopies: spec.update.singleCopies,
      allowsLastCopy: accepted?.includes('last-copy') === true,
    },
    balance: balance === 'Always' || (balance === 'OnScale' && isRescaled),
    lost,
    maxTransfers,
    moves: progress?.shards?.moves ?? [],
    resharding: {
      owner: reshardingOwner(uid),
      numbers,
      mayStart: spec.resharding === true,
      ...(current !== undefined && { current }),
    },
    defectSeconds: () => Number.MAX_SAFE_INTEGER,
  }
}

/** Nodes that do not exist yet: members without a shard. Their ids are negative: no peer has one. */
function withNewNodes(view: ClusterView, cluster: VecCluster, nodes: number): ClusterView {
  const added = Array.from({ length: Math.max(0, nodes - view.nodes) }, (_, index): PeerView => {
    const ordinal = view.nodes + index
    const freeBytes = volumeBytes(cluster)
    return { id: -1 - ordinal, ordinal, isMember: true, freeBytes }
  })
  return { ...view, nodes: view.nodes + added.length, peers: [...view.peers, ...added] }
}

function planReport(
  { metadata: { namespace, name } }: VecCluster,
  nodes: number,
  { start, desired }: { start: ClusterView; desired: DesiredShards },
): PlanReport {
  const { steps, end } = planAll(start, desired)
  let view = start
  const described = steps.map(({ step, purpose, bytes }) => {
    const description = describeStep(view, step)
    view = viewAfter(view, step)
    return { step, purpose, description, bytes }
  })
  const shards = start.collections.flatMap(({ factor, shards: all }) =>
    all.map(({ replicas }) => ({ factor, replicas })),
  )
  const isActive = ({ state }: { state: string }) => state === 'Active'
  return {
    cluster: { namespace, name },
    nodes,
    plannedNodes: desired.nodes,
    replicas: shards.reduce((sum, { factor }) => sum + Math.min(factor, desired.nodes), 0),
    activeReplicas: shards.reduce((sum, { replicas }) => sum + replicas.filter(isActive).length, 0),
    steps: described,
    bytes: steps.reduce((sum, { bytes }) => sum + bytes, 0),
    end,
  }
}

function describeStep(view: ClusterView, step: Step): string {
  if (isReshardingStep(step)) return describeResharding(view, step)
  switch (step.do) {
    case 'replicate':
      return `copy ${step.collection}/${step.shard} from ${peerName(view, step.from)} to ${peerName(view, step.to)}`
    case 'repair':
      return `repair ${step.collection}/${step.shard} on ${peerName(view, step.to)} from ${peerName(view, step.from)}`
    case 'drop':
      return `drop ${step.collection}/${step.shard} on ${peerName(view, step.peer)}`
    case 'removePeer':
      if (step.isUnlisted === true) {
        return `remove the replicas of peer ${step.peer}, which no node lists, from the cluster`
      }
      return `remove ${peerName(view, step.peer)} from the cluster`
    case 'scaleDown':
      return `lower the StatefulSet to ${step.nodes} pods`
    case 'updateNode':
      return `update node ${step.ordinal}${unavailableNote(view, step.ordinal)}`
  }
}

function formatReport(report: PlanReport): string {
  const { cluster, nodes, plannedNodes, replicas, activeReplicas, steps, bytes } = report
  const target = nodes === plannedNodes ? '' : ` -> ${plannedNodes}`
  const rows = steps.map(({ purpose, description, bytes: size }, index) => [
    String(index + 1),
    purpose,
    size === 0 ? '-' : formatBytes(size),
    description,
  ])
  const copies = steps.filter((step) => step.bytes > 0).length
  return [
    `cluster ${cluster.namespace}/${cluster.name}, nodes: ${nodes}${target}, ${activeReplicas} Active replicas of ${replicas}\n\n`,
    rows.length === 0 ? '' : formatColumns([['STEP', 'PURPOSE', 'SIZE', 'ACTION'], ...rows]) + '\n',
    formatEnd(report),
    `${steps.length} steps, ${copies} copies of ${formatBytes(bytes)} in total; nothing was changed\n`,
  ].join('')
}

function formatEnd({ end, steps }: PlanReport): string {
  const then = steps.length === 0 ? '' : 'then '
  switch (end.is) {
    case 'done':
      return steps.length === 0 ? 'nothing is due\n' : ''
    case 'waiting':
      return `${then}waiting: ${oneLine(end.message)}\n`
    case 'refused':
      return `${then}refused: ${end.reason}: ${oneLine(end.message)}\n`
  }
}
