/** `status`: lists the resources of a namespace, or shows one with its cluster, nodes, shards and Jobs. */
import { VecCluster, type ClusterStatus } from '../../crds/cluster.ts'
import { KubernetesError } from '../../crds/contract/errors.ts'
import { parseProgress, type Progress } from '../../crds/contract/job.ts'
import { ANNOTATIONS, API_GROUP, API_VERSION, LABELS } from '../../crds/contract/names.ts'
import { RESOURCES, type Resource } from '../../crds/crd.ts'
import { finishedCondition, type Job } from '../../crds/kubernetes.ts'
import type { Condition } from '../../crds/schema.ts'
import { formatBytes } from '../../crds/units.ts'
import type { Kubernetes } from '../clients/kubernetes/client.ts'
import {
  booleanFlag,
  CliError,
  CLUSTER_FLAGS,
  EXIT_CODES,
  type CliCommand,
  type Invocation,
} from './command.ts'
import {
  readEngineStatus,
  type EngineQuery,
  type EngineStatus,
  type NodeStatus,
} from './engine-status.ts'
import { fixesFor, toJsonKeys, type Fix } from './explain.ts'
import { listJobs } from './logs.ts'
import {
  formatNames,
  formatOutput,
  outputFlags,
  outputFormat,
  formatAge,
  formatColumns,
  formatSeconds,
  oneLine,
} from './output.ts'
import type { ShardReplicas } from './replica-states.ts'
import {
  clusterName,
  listResources,
  NO_PHASE,
  parseReference,
  readResource,
  statusDetails,
  statusItems,
  summarize,
  summarizeForList,
  type StatusItem,
  type StatusObject,
  type Summary,
} from './resource.ts'

export const status: CliCommand = {
  name: 'status',
  operands: '[<kind>/<name>]',
  operandCount: { min: 0, max: 2 },
  summary: 'list resources, or show one with its cluster, nodes, shards and Jobs',
  details: [
    'The kind is written as in kubectl: VecCluster, vecclusters, veccluster or qc. Engines are queried through the API server, with the API key of the cluster if you can read its Secret.',
  ],
  flags: {
    ...CLUSTER_FLAGS,
    'all-namespaces': { type: 'boolean', short: 'A', description: 'all namespaces' },
    ...outputFlags('name', 'wide'),
  },
  run: showStatus,
}

async function showStatus(call: Invocation): Promise<number> {
  const { kubernetes, namespace } = await call.connect()
  if (call.operands.length === 0) {
    const listNamespace = booleanFlag(call, 'all-namespaces') ? undefined : namespace
    const lists = RESOURCES.map((resource) => listResources(kubernetes, resource, listNamespace))
    // Of several errors the one of the first kind is reported, whichever arrives first.
    await Promise.allSettled(lists)
    const installed = (await Promise.all(lists)).filter((list) => list !== undefined)
    if (installed.length === 0) {
      throw new CliError(`the API server has no kind of ${API_GROUP}: the CRDs are not installed`)
    }
    const summaries = installed.flat().map(summarizeForList)
    const text = () =>
      outputFormat(call) === 'name'
        ? formatNames(summaries)
        : formatList(summaries, {
            namespace: listNamespace,
            isWide: outputFormat(call) === 'wide',
            now: call.time.now(),
          })
    call.print(formatOutput(call, summaries, text))
    return EXIT_CODES.success
  }
  const { resource, name } = parseReference(call.operands, 'status')
  const report = await readStatusReport(kubernetes, resource, { namespace, name }, call)
  const text = () =>
    outputFormat(call) === 'name'
      ? formatNames([report.resource])
      : formatStatus(report, call.time.now())
  call.print(formatOutput(call, toJsonReport(report), text))
  return EXIT_CODES.success
}

async function readStatusReport(
  kubernetes: Kubernetes,
  resource: Resource,
  { namespace, name }: { namespace: string; name: string },
  call: Invocation,
): Promise<StatusReport> {
  const { kind } = resource
  const object = await readResource(kubernetes, resource, { namespace, name })
  const [cluster, jobs] = await Promise.all([
    readCluster(kubernetes, object),
    unlessForbidden('Jobs', summarizeJobs(kubernetes, object)),
  ])
  const collection = kind === 'VecCollection' ? (object.spec.collectionName ?? name) : undefined
  const belongsToCluster = kind !== 'VecCluster'
  return {
    resource: {
      ...summarize(object),
      conditions: object.status?.conditions ?? [],
      fixes: fixesFor(kind, object.status),
      facts: statusDetails(object),
      parts: statusItems(object),
    },
    ...(cluster !== undefined && {
      ...(belongsToCluster && {
        cluster: { ...summarize(cluster), facts: statusDetails(cluster) },
      }),
      ...(cluster.status?.shards !== undefined && { shards: cluster.status.shards }),
      ...(await engineReport(kubernetes, { cluster, collection }, call)),
    }),
    ...(jobs.note === undefined ? { jobs: jobs.read } : { jobs: [], unread: [jobs.note] }),
  }
}

/** Without the permission to list the pods, a note takes the place of the nodes and shards. */
async function engineReport(
  kubernetes: Kubernetes,
  query: EngineQuery,
  call: Invocation,
): Promise<Pick<StatusReport, 'engine'>> {
  const { read, note } = await unlessForbidden('nodes', readEngineStatus(kubernetes, query, call))
  return { engine: note === undefined ? read : { nodes: [], shards: [], notes: [note] } }
}

type Readable<Result> = { read: Result; note?: undefined } | { read?: undefined; note: string }

/** What the caller may not read, with the answer of the API server; the rest is shown. */
async function unlessForbidden<Result>(
  what: string,
  reading: Promise<Result>,
): Promise<Readable<Result>> {
  try {
    return { read: await reading }
  } catch (error) {
    if (!(error instanceof KubernetesError && error.status === 403)) throw error
    return { note: `${what}: ${error.message}` }
  }
}

async function readCluster(
  kubernetes: Kubernetes,
  object: StatusObject,
): Promise<VecCluster | undefined> {
  const reference = clusterName(object)
  if (reference === undefined) return undefined
  const { namespace, name } = reference
  const clusters = { apiVersion: API_VERSION, plural: VecCluster.plural, namespace }
  try {
    return await kubernetes.get(clusters, name, VecCluster.schema)
  } catch (error) {
    // It may be in a namespace that the caller may not read.
    if (error instanceof KubernetesError && error.status === 403) return undefined
    throw error
  }
}

/** The Jobs of a resource, newest first; the last report belongs to one of them. */
async function summarizeJobs(kubernetes: Kubernetes, object: StatusObject): Promise<JobSummary[]> {
  const { uid = '', annotations } = object.metadata
  const progress = parseProgress(annotations?.[ANNOTATIONS.progress], uid)
  const jobs = await listJobs(kubernetes, object)
  return jobs.map((job) => ({
    name: job.metadata.name,
    verb: job.metadata.labels?.[LABELS.verb] ?? '',
    state:
      finishedCondition(job)?.type ?? (job.status?.active === undefined ? 'Pending' : 'Running'),
    ...(job.metadata.creationTimestamp !== undefined && {
      createdAt: job.metadata.creationTimestamp,
    }),
    message: jobMessage(job, progress),
  }))
}

/** The last report, if this Job wrote it. */
function jobMessage({ metadata }: Job, progress: Progress | undefined): string {
  if (progress === undefined || progress.job !== metadata.uid) return ''
  const { state, message } = progress
  return message === undefined ? state : `${state}: ${message}`
}

/** JSON and YAML output name the fixes `cures`, which scripts read. */
function toJsonReport({ resource: { fixes, ...resource }, ...rest }: StatusReport) {
  return { resource: { ...resource, cures: fixes.map(toJsonKeys) }, ...rest }
}

interface ListOptions {
  /** Undefined: all namespaces. */
  namespace: string | undefined
  /** Also the cluster, and whole messages. */
  isWide?: boolean
  now: Date
}

/** Length of a message in the list; `status <kind>/<name>` shows the whole message. */
const MAX_MESSAGE_WIDTH = 120

/** One line per resource; with a namespace column for several namespaces. */
export function formatList(
  summaries: Summary[],
  { namespace, isWide = false, now }: ListOptions,
): string {
  if (summaries.length === 0) {
    return `No resources${namespace === undefined ? '' : ` in namespace ${namespace}`}.\n`
  }
  const rows = summaries.map((summary) => [
    ...(namespace === undefined ? [summary.namespace] : []),
    `${summary.kind}/${summary.name}`,
    summary.phase,
    formatAge(summary.createdAt, now),
    ...(isWide ? [summary.cluster ?? '-'] : []),
    oneLine(summary.message, isWide ? Infinity : MAX_MESSAGE_WIDTH),
  ])
  const head = ['RESOURCE', 'PHASE', 'AGE', ...(isWide ? ['CLUSTER'] : []), 'MESSAGE']
  return formatColumns([namespace === undefined ? ['NAMESPACE', ...head] : head, ...rows])
}

export function formatStatus(
  { resource, cluster, shards, engine, jobs, unread = [] }: StatusReport,
  now: Date,
): string {
  const conditions = resource.conditions.map(({ type, status, reason, message }) => [
    `${type}=${status}`,
    reason,
    oneLine(message),
  ])
  const blocks = [
    headline(resource, now) + formatColumns(conditions, '  '),
    resource.fixes.map(({ reason, fix }) => `${reason}: ${fix}\n`).join(''),
    formatDetails(resource.facts),
    optionalTable(
      ['PART', 'STATUS', ''],
      resource.parts.map((part) => [part.name, part.status, oneLine(part.says)]),
    ),
    cluster === undefined ? '' : headline(cluster, now) + formatDetails(cluster.facts),
    formatShardWork(shards),
    ...(engine === undefined ? [] : [formatNodes(engine), formatShards(engine)]),
    formatJobs(jobs, now),
    unread.map((note) => `${oneLine(note)}\n`).join(''),
  ]
  return blocks.filter((block) => block !== '').join('\n')
}

function formatDetails(facts: Record<string, string>): string {
  return formatColumns(
    Object.entries(facts).map(([name, value]) => [name, oneLine(value)]),
    '  ',
  )
}

/** Empty without rows. */
function optionalTable(head: string[], rows: string[][]): string {
  return rows.length === 0 ? '' : formatColumns([head, ...rows])
}

function headline({ kind, namespace, name, phase, createdAt }: Summary, now: Date): string {
  const state = phase === NO_PHASE ? 'no phase yet' : phase
  return `${kind} ${namespace}/${name}  ${state}  (${formatAge(createdAt, now)} old)\n`
}

type ShardWork = NonNullable<ClusterStatus['shards']>

/** The replicas, the step in progress, and how much of the work is done. */
function formatShardWork(work: ShardWork = {}): string {
  const { replicas, activeReplicas, step, stepsDone = 0, stepsLeft } = work
  const counts =
    replicas === undefined
      ? ''
      : `Shards: ${activeReplicas ?? 0} of ${replicas} replicas are Active\n`
  if (step === undefined) return counts
  const { bytesMoved = 0, bytesLeft = 0, bytesPerSecond, secondsLeft } = work
  const parts = [
    `${stepsDone} of ${stepsDone + (stepsLeft ?? 0)} steps done`,
    `${formatBytes(bytesMoved)} of ${formatBytes(bytesMoved + bytesLeft)} copied`,
    ...(bytesPerSecond === undefined ? [] : [`${formatBytes(bytesPerSecond)}/s`]),
    ...(secondsLeft === undefined ? [] : [`about ${formatSeconds(secondsLeft)} left`]),
  ]
  return `${counts}  ${oneLine(step)}\n  ${parts.join(', ')}\n`
}

function formatNodes({ nodes, notes }: EngineStatus): string {
  if (nodes.length === 0) return notes.length === 0 ? 'Nodes: none\n' : ''
  const rows = nodes.map((node) => [
    node.pod,
    node.ready ? 'yes' : 'no',
    node.version ?? '-',
    node.zone ?? '-',
    node.replicas === undefined ? '-' : String(node.replicas),
    node.peer === undefined ? '-' : `${node.peer}${node.isLeader === true ? ' leader' : ''}`,
    node.error === undefined ? (node.consensus ?? '-') : oneLine(node.error),
  ])
  return optionalTable(['NODE', 'READY', 'VERSION', 'ZONE', 'REPLICAS', 'PEER', 'CONSENSUS'], rows)
}

/** A line per shard, a column per node. */
function formatShards({ nodes, shards, notes }: EngineStatus): string {
  const noteLines = notes.map((note) => `${oneLine(note)}\n`).join('')
  if (shards.length === 0) return noteLines
  const peers = peerColumns(nodes, shards)
  const head = ['COLLECTION', 'SHARD', ...peers.map(({ name }) => name)]
  const rows = shards.map(({ collection, shard, key, copies }, index) => [
    shards[index - 1]?.collection === collection ? '' : collection,
    key === undefined ? String(shard) : `${shard} (${key})`,
    ...peers.map(({ peer }) => copies[peer] ?? '-'),
  ])
  return optionalTable(head, rows) + noteLines
}

/** Pods in order, then peers without a known pod: the peer left, or its pod does not respond. */
function peerColumns(
  nodes: NodeStatus[],
  shards: ShardReplicas[],
): { peer: string; name: string }[] {
  const knownPeers = nodes.flatMap(({ pod, peer }) =>
    peer === undefined ? [] : [{ peer: String(peer), name: pod.toUpperCase() }],
  )
  const others = new Set(shards.flatMap(({ copies }) => Object.keys(copies)))
  for (const { peer } of knownPeers) others.delete(peer)
  // A single node does not report its peer.
  if (nodes.length === 1 && knownPeers.length === 0) {
    return [...others].map((peer) => ({ peer, name: (nodes[0]?.pod ?? '').toUpperCase() }))
  }
  return [...knownPeers, ...[...others].map((peer) => ({ peer, name: `PEER ${peer}` }))]
}

function formatJobs(jobs: StatusReport['jobs'], now: Date): string {
  const rows = jobs.map(({ name, verb, state, createdAt, message }) => [
    name,
    verb,
    state,
    formatAge(createdAt, now),
    oneLine(message),
  ])
  return optionalTable(['JOB', 'VERB', 'STATE', 'AGE', 'REPORT'], rows)
}

/** One resource and its related objects. */
export interface StatusReport {
  resource: Summary & {
    conditions: Condition[]
    /** Fixes for the conditions that report a problem. */
    fixes: Fix[]
    facts: Record<string, string>
    parts: StatusItem[]
  }
  /** The cluster, if the resource is not the cluster itself. */
  cluster?: Summary & { facts: Record<string, string> }
  /** Replicas of the cluster, and the work on them. */
  shards?: ShardWork
  engine?: EngineStatus
  jobs: JobSummary[]
  /** What the caller may not read. */
  unread?: string[]
}

export interface JobSummary {
  name: string
  verb: string
  state: string
  createdAt?: string
  message: string
}
