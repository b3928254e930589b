/** Reads of a request that every kind shares, and rules that request related objects. */
import { parseProgress, parseReport, type Progress } from '../crds/contract/job.ts'
import type { VecBackup } from '../crds/backup.ts'
import type { VecCluster } from '../crds/cluster.ts'
import type { AnyObject, Job } from '../crds/kubernetes.ts'
import { ANNOTATIONS, API_VERSION } from '../crds/contract/names.ts'
import type { NamespacedName } from '../crds/schema.ts'
import type { HookRequest, Observations, RelatedRule } from './protocol.ts'

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
