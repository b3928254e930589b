/**
 * Access across namespaces. The annotation allowed-namespaces controls which namespaces may use the key of
 * a VecCluster or the bucket credentials of a VecBackup; the installation's setting applies to
 * clusters without the annotation. Also decides which Jobs block other work, which namespaces this
 * installation watches (its service has no permissions in others), and that work on a hibernated
 * VecCluster waits.
 */
import type { VecBackup } from '../crds/backup.ts'
import type { VecCluster } from '../crds/cluster.ts'
import { JOB_STOP_TIMEOUT_SECONDS } from '../crds/contract/limits.ts'
import { ANNOTATIONS, readAnnotation } from '../crds/contract/names.ts'
import type { Job } from '../crds/kubernetes.ts'
import type { ConditionReason } from '../crds/schema.ts'
import { secondsSince } from './conditions.ts'
import type { Context, Settings } from './protocol.ts'
import { isSigned, isUnfinished } from './request.ts'

export type CrossNamespace = Pick<Settings, 'crossNamespace'>

export type AnnotatedResource = Pick<VecCluster, 'metadata'> | Pick<VecBackup, 'metadata'>

export function hasAllowList({ metadata }: AnnotatedResource): boolean {
  return readAnnotation(metadata.annotations, ANNOTATIONS.allowedNamespaces) !== undefined
}

/** Allowed by the annotation, or because it is in the same namespace. */
export function isNamespaceAllowed({ metadata }: AnnotatedResource, from: string): boolean {
  if (metadata.namespace === from) return true
  const allowList = readAnnotation(metadata.annotations, ANNOTATIONS.allowedNamespaces) ?? ''
  return allowList.split(',').some((name) => [from, '*'].includes(name.trim()))
}

/** Returns the namespaces whose resources count for this cluster. */
export function namespaceCheck(
  cluster: Pick<VecCluster, 'metadata'>,
  { crossNamespace }: CrossNamespace,
): (namespace: string) => boolean {
  const isOpenToAll = !hasAllowList(cluster) && crossNamespace === 'open'
  return (namespace) => isOpenToAll || isNamespaceAllowed(cluster, namespace)
}

/**
 * Returns the rules for which Jobs block work on a cluster; if the cluster does not exist, every
 * Job blocks.
 */
export function blockingRules(
  cluster: Pick<VecCluster, 'metadata'> | undefined,
  { now, settings }: Pick<Context, 'now' | 'settings'>,
): BlockingRules {
  const isAllowed = cluster === undefined ? () => true : namespaceCheck(cluster, settings)
  const isWatched = (namespace: string) => isNamespaceWatched(settings, namespace)
  return { isAllowed, isWatched, jobKeys: settings.jobKeys, now }
}

export interface AccessBlocker extends ConditionReason {
  reason: 'RefNotPermitted'
}

/** Returns why resources of a namespace may not use this cluster; undefined if they may. */
export function clusterAccessBlocker(
  cluster: Pick<VecCluster, 'metadata'>,
  from: string,
  settings: CrossNamespace,
): AccessBlocker | undefined {
  if (namespaceCheck(cluster, settings)(from)) return undefined
  const hint = hasAllowList(cluster) ? '' : ', or set the chart value crossNamespace to open'
  return accessBlocker('cluster', cluster, from, hint)
}

/**
 * The same for a backup's bucket credentials, which by default are reserved for its own namespace.
 */
export function backupAccessBlocker(
  backup: Pick<VecBackup, 'metadata'>,
  from: string,
): AccessBlocker | undefined {
  return isNamespaceAllowed(backup, from) ? undefined : accessBlocker('backup', backup, from, '')
}

function accessBlocker(
  kind: 'cluster' | 'backup',
  { metadata: { namespace, name } }: AnnotatedResource,
  from: string,
  hint: string,
): AccessBlocker {
  const annotation = `the annotation ${ANNOTATIONS.allowedNamespaces} of the ${kind}`
  return {
    reason: 'RefNotPermitted',
    message: `${kind} ${namespace}/${name} does not allow namespace ${from}: add it to ${annotation}${hint}`,
  }
}

export interface BlockingRules {
  /** Whether the cluster or backup in question allows a namespace. */
  isAllowed: (namespace: string) => boolean
  /** Whether this installation may read a namespace: what it no longer watches must not block others for ever. */
  isWatched: (namespace: string) => boolean
  /** Keys that sign our Jobs (request.ts). */
  jobKeys: readonly string[]
  now: Date
}

/**
 * Whether this Job blocks others. A namespace that may not use a cluster or a backup must not delay
 * those that may: a Job there counts only if this operator created it, and during its deletion only
 * for as long as its pods may take to stop. Labels prove nothing, and a finalizer or `spec.suspend`
 * can keep a Job unfinished forever.
 */
export function isBlockingJob(
  job: Job,
  { isAllowed, jobKeys, now }: Omit<BlockingRules, 'isWatched'>,
): boolean {
  if (!isUnfinished(job)) return false
  if (isAllowed(job.metadata.namespace ?? '')) return true
  if (!isSigned(job, jobKeys)) return false
  const { deletionTimestamp } = job.metadata
  return (
    deletionTimestamp === undefined ||
    secondsSince(deletionTimestamp, now) < JOB_STOP_TIMEOUT_SECONDS
  )
}

export function isNamespaceWatched(
  { namespaces }: Pick<Settings, 'namespaces'>,
  namespace: string,
): boolean {
  return namespaces.length === 0 || namespaces.includes(namespace)
}

/**
 * Message about an object in a namespace that is not watched: this installation can neither read
 * nor call it.
 */
export function namespaceNotWatched(label: string): string {
  return `${label} is in a namespace that this operator does not watch`
}

/** Why work on this cluster waits while it has no pods; undefined if it has some. */
export function hibernationBlocker({
  metadata: { namespace, name },
  status,
}: Pick<VecCluster, 'metadata' | 'status'>): ConditionReason | undefined {
  if (status?.phase !== 'Hibernated') return undefined
  const message = `cluster ${namespace}/${name} is hibernated: no pods run until its spec.hibernate is false`
  return { reason: 'ClusterHibernated', message }
}
