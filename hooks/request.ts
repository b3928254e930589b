/** What every room reads of a request in the same way, and how it asks to be shown more. */
import { parseProgress, parseReport, type Progress } from '../crds/contract/job.ts'
import type { VecBackup } from '../crds/backup.ts'
import type { VecCluster } from '../crds/cluster.ts'
import type { AnyObject, Job } from '../crds/kubernetes.ts'
import { ANNOTATIONS, API_VERSION } from '../crds/contract/names.ts'
import type { HookRequest, Observations, RelatedRule } from './protocol.ts'

/** A resource its Jobs report on. */
export interface ProgressOwner {
  metadata: { uid: string; annotations?: Record<string, string> }
}

/** What a request shows of a resource whose work is done by Jobs. */
export interface ObservedJobs {
  /** Every child Metacontroller shows, of whatever kind. */
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

/** The report on a resource, if it is about this one. */
function progressOf({ metadata: { uid, annotations } }: ProgressOwner): Progress | undefined {
  return parseProgress(annotations?.[ANNOTATIONS.progress], uid)
}

/**
 * The report of another resource that has ended, in the annotation of one that was never looked at: a copy
 * of it, as a backup tool or `kubectl get -o yaml | kubectl create` makes them. They keep annotations, drop
 * the status and give a new uid.
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

/** The newest report, from the resource itself: the cache may lag behind the last one. */
export async function refreshProgress(
  observed: ObservedJobs,
  { metadata: { namespace, name, uid } }: NamespacedObject,
  read: (namespace: string, name: string) => Promise<ProgressOwner | undefined>,
): Promise<void> {
  const live = await read(namespace, name)
  const progress = live?.metadata.uid === uid ? progressOf(live) : undefined
  if (progress !== undefined) observed.progress = progress
}

/** Objects of one kind. The request was checked against the kind they are listed under. */
export function objectsOf<T extends AnyObject>(observations: Observations, kind: string): T[] {
  return Object.values(observations[kind] ?? {}) as T[]
}

export function relatedClusters(related: Observations): VecCluster[] {
  return objectsOf<VecCluster>(related, `VecCluster.${API_VERSION}`)
}

export function relatedBackups(related: Observations): VecBackup[] {
  return objectsOf<VecBackup>(related, `VecBackup.${API_VERSION}`)
}

/** Asks for one of our own resources by its name. */
export function relatedByName(
  { plural }: { plural: string },
  { namespace, name }: { namespace: string; name: string },
): RelatedRule {
  return { apiVersion: API_VERSION, resource: plural, namespace, names: [name] }
}
