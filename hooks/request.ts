/**
 * What a request contains about a resource: its children, its Jobs and their state, their newest report,
 * and related objects; and which of the children an answer retains.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { VecBackup } from '../crds/backup.ts'
import type { VecCluster } from '../crds/cluster.ts'
import { parseProgress, parseReport, type Progress } from '../crds/contract/job.ts'
import { ANNOTATIONS, API_VERSION, LABELS, trailingNumber } from '../crds/contract/names.ts'
import { type AnyObject, finishedCondition, type Job } from '../crds/kubernetes.ts'
import type { NamespacedName } from '../crds/schema.ts'
import type {
  Child,
  Desired,
  HookRequest,
  Observations,
  PrunedChild,
  RelatedRule,
} from './protocol.ts'

/** Children of a kind that runs Jobs, as its CompositeController declares them. */
export const JOB_CHILD_KINDS = [
  'Job.batch/v1',
  'ServiceAccount.v1',
  'Role.rbac.authorization.k8s.io/v1',
  'RoleBinding.rbac.authorization.k8s.io/v1',
] as const

/** A resource that Jobs report on. */
export interface ProgressOwner {
  metadata: { uid: string; annotations?: Record<string, string> }
}

/** What a request contains about a resource whose work is done by Jobs. */
export interface ObservedJobs {
  /** Every child that Metacontroller sends, of any kind. */
  children: AnyObject[]
  jobs: Job[]
  /** The newest report of this resource's Jobs. */
  progress?: Progress
}

export function observedJobs({ parent, children }: HookRequest<ProgressOwner>): ObservedJobs {
  const progress = progressOf(parent)
  return {
    children: Object.values(children).flatMap((objects) => Object.values(objects)),
    jobs: objectsOf<Job>(children, 'Job.batch/v1'),
    ...(progress !== undefined && { progress }),
  }
}

/** The report in the annotation, if it is about this resource. */
function progressOf({ metadata: { uid, annotations } }: ProgressOwner): Progress | undefined {
  return parseProgress(annotations?.[ANNOTATIONS.progress], uid)
}

/**
 * The report of another, finished resource in the annotation of one that has no status yet: a copy,
 * as a backup tool or `kubectl get -o yaml | kubectl create` makes it. Copies keep the annotations,
 * lose the status and get a new uid.
 */
export function originalOutcome({
  metadata: { uid, annotations },
  status,
}: ProgressOwner & { status?: { phase?: string } | undefined }): Progress | undefined {
  if (status?.phase !== undefined) return undefined
  const report = parseReport(annotations?.[ANNOTATIONS.progress])
  return report === undefined || report.uid === uid || report.state === 'Started'
    ? undefined
    : report
}

export interface NamespacedObject {
  metadata: { namespace: string; name: string; uid: string }
}

/** Reads the newest report from the live resource: the cache may not have it yet. */
export async function refreshProgress(
  observed: ObservedJobs,
  { metadata: { namespace, name, uid } }: NamespacedObject,
  read: (namespace: string, name: string) => Promise<ProgressOwner | undefined>,
): Promise<void> {
  const live = await read(namespace, name)
  const progress = live?.metadata.uid === uid ? progressOf(live) : undefined
  if (progress !== undefined) observed.progress = progress
}

/**
 * A Job is unfinished until it is finished or gone; its pods may still work during its deletion.
 */
export function isUnfinished(job: Job): boolean {
  return finishedCondition(job) === undefined
}

/** The Jobs to delete: those that are unfinished and not being deleted already. */
export function jobsToDelete(jobs: Job[]): NonNullable<Desired<unknown>['deleteJobs']> {
  return jobs
    .filter((job) => isUnfinished(job) && job.metadata.deletionTimestamp === undefined)
    .map(({ metadata: { namespace = '', name, uid = '' } }) => ({ namespace, name, uid }))
}

/** The number at the end of a Job's name. */
export function runNumber({ metadata }: Pick<Job, 'metadata'>): number {
  return trailingNumber(metadata.name)
}

/** Number of the next Job: above that of every existing Job and of the last one that reported. */
export function nextRunNumber(jobs: Job[], reportedRun: number | undefined): number {
  return 1 + Math.max(0, reportedRun ?? 0, ...jobs.map(runNumber))
}

export function latestJob(jobs: Job[]): Job | undefined {
  return jobs.toSorted((a, b) => runNumber(b) - runNumber(a))[0]
}

/** Status field: the Job of the current attempt, while it exists. */
export function jobNameField({ jobs, liveJobs = [] }: { jobs: Job[]; liveJobs?: Job[] }): {
  jobName?: string
} {
  const latest = latestJob([...jobs, ...liveJobs])
  return latest === undefined ? {} : { jobName: latest.metadata.name }
}

export interface JobIdentity {
  namespace: string
  name: string
  /** Uid of the resource that the Job belongs to. */
  parentUid: string
}

/**
 * Proves that this operator created a Job. A user who may create Jobs in a namespace can copy our
 * labels, and Metacontroller adopts the Job as a child; the signature cannot be made without the
 * key of the installation. It covers the identity of the Job, not its pods, which admission may
 * change. Returns the hex HMAC-SHA256 with the first key; with the empty key if hooks need no token.
 */
export function signJob(job: JobIdentity, keys: readonly string[]): string {
  return hmac(job, keys[0] ?? '').toString('hex')
}

/** Whether the Job has a signature by one of the keys for exactly this Job. */
export function isSigned({ metadata }: Job, keys: readonly string[]): boolean {
  const actual = Buffer.from(metadata.annotations?.[ANNOTATIONS.signature] ?? '', 'hex')
  const identity = {
    namespace: metadata.namespace ?? '',
    name: metadata.name,
    parentUid: metadata.labels?.[LABELS.parent] ?? '',
  }
  return (keys.length === 0 ? [''] : keys).some((key) => {
    const expected = hmac(identity, key)
    return actual.length === expected.length && timingSafeEqual(actual, expected)
  })
}

function hmac({ namespace, name, parentUid }: JobIdentity, key: string): Buffer {
  const text = JSON.stringify(['vec-operator job', namespace, name, parentUid])
  return createHmac('sha256', key).update(text).digest()
}

/**
 * An unchanged observed child. Only its identity is returned: an observed child is never created
 * or, under OnDelete, changed, and the observed object may contain nulls.
 */
export function unchanged({ apiVersion, kind, metadata }: AnyObject): Child {
  const { name, namespace } = metadata
  return { apiVersion, kind, metadata: namespace === undefined ? { name } : { name, namespace } }
}

/**
 * The children of an answer: every observed child except the pruned ones, unchanged, and of those
 * to create, the ones that do not exist yet.
 */
export function childrenAfter(
  children: AnyObject[],
  { created = [], pruned = [] }: { created?: Child[]; pruned?: PrunedChild[] } = {},
): Child[] {
  const prunedIds = new Set(pruned.map(({ kind, name }) => `${kind}/${name}`))
  const remaining = children.filter((child) => !prunedIds.has(childId(child))).map(unchanged)
  const remainingIds = new Set(remaining.map(childId))
  return [...remaining, ...created.filter((child) => !remainingIds.has(childId(child)))]
}

/** Whether each RBAC object was observed and is not being deleted. */
export function allObserved(objects: Child[], observed: AnyObject[]): boolean {
  return objects.every((object) =>
    observed.some(
      ({ kind, metadata }) =>
        kind === object.kind &&
        metadata.name === object.metadata.name &&
        metadata.deletionTimestamp === undefined,
    ),
  )
}

/**
 * Those of the RBAC objects that do not exist. Another client may delete them while their Job runs: without
 * them it cannot report, and gets no other pod.
 */
export function missingObjects(objects: readonly Child[], observed: AnyObject[]): Child[] {
  const observedIds = new Set(observed.map(childId))
  return objects.filter((object) => !observedIds.has(childId(object)))
}

export function childId({ kind, metadata }: Pick<AnyObject, 'kind' | 'metadata'>): string {
  return `${kind}/${metadata.name}`
}

/** Objects of one kind. The request was validated against the kind that they are listed under. */
export function objectsOf<T extends AnyObject>(observations: Observations, kind: string): T[] {
  return Object.values(observations[kind] ?? {}) as T[]
}

export function relatedClusters(related: Observations): VecCluster[] {
  return objectsOf<VecCluster>(related, `VecCluster.${API_VERSION}`)
}

export function relatedBackups(related: Observations): VecBackup[] {
  return objectsOf<VecBackup>(related, `VecBackup.${API_VERSION}`)
}

/** Requests one of the operator's resources by name. */
export function relatedByName(
  { plural }: { plural: string },
  { namespace, name }: NamespacedName,
): RelatedRule {
  return { apiVersion: API_VERSION, resource: plural, namespace, names: [name] }
}
