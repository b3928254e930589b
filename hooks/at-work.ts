/**
 * Which Jobs hold up others. A namespace that may not use a cluster, or a backup, must not delay whoever
 * may: a Job there counts only if this operator created it, and once it is being deleted only for as long
 * as its pods may take to stop. Labels alone prove nothing, and a finalizer or `spec.suspend` can keep a
 * Job unfinished for ever.
 */
import type { Job } from '../crds/kubernetes.ts'
import { STOPPING_SECONDS } from '../crds/limits.ts'
import { secondsSince } from './conditions.ts'
import { isUnfinished } from './job.ts'
import { isSigned } from './signature.ts'

export interface WorkRules {
  /** Whether the cluster or backup that is waited for allows a namespace. */
  isAllowed: (namespace: string) => boolean
  /** Keys that sign our Jobs (signature.ts). */
  jobKeys: readonly string[]
  now: Date
}

/** Whether others wait for this Job. */
export function isAtWork(job: Job, { isAllowed, jobKeys, now }: WorkRules): boolean {
  if (!isUnfinished(job)) return false
  if (isAllowed(job.metadata.namespace ?? '')) return true
  if (!isSigned(job, jobKeys)) return false
  const { deletionTimestamp } = job.metadata
  return deletionTimestamp === undefined || secondsSince(deletionTimestamp, now) < STOPPING_SECONDS
}
