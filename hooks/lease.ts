/**
 * Leases: which resource may work on a cluster (lease-claim.ts: who may take them). Each VecCluster has two in its namespace, owned by
 * it: `write` (a restore, the work on shards) and `backup` (a backup, a restore, a helm run or the work
 * on shards). A holder keeps a Lease
 * while it has an unfinished Job; only a resource that is deleted, and its Jobs with it, releases
 * its Leases explicitly. A Lease whose holder started no Job expires after LEASE_DURATION_SECONDS,
 * and the holder is placed behind the waiters (lease-queue.ts).
 */
import { KubernetesError, UnreadableNamespace } from '../crds/contract/errors.ts'
import { LEASE_DURATION_SECONDS } from '../crds/contract/limits.ts'
import { ANNOTATIONS, leaseName } from '../crds/contract/names.ts'
import { readLeaseHolder, type Job, type Lease, type LeaseHolder } from '../crds/kubernetes.ts'
import type { NamespacedName } from '../crds/schema.ts'
import { secondsSince } from './conditions.ts'
import { isBlockingJob, type BlockingRules } from './cross-namespace.ts'
import { isUnfinished, runNumber } from './job.ts'

export type LeaseKind = 'write' | 'backup'

export interface LeasePorts {
  /** Read live; undefined if it does not exist. */
  lease(namespace: string, name: string): Promise<Lease | undefined>
  /** Jobs with the label of this parent, read live. */
  jobsOf(namespace: string, parentUid: string): Promise<Job[]>
  /**
   * Replaces the Lease of exactly this resourceVersion, or creates it if it has none. False if
   * another writer was faster or the Lease no longer exists.
   */
  writeLease(lease: Lease): Promise<boolean>
  /** Deletes the Lease of exactly this uid and resourceVersion; false if it has changed since. */
  deleteLease(lease: Lease): Promise<boolean>
}

/**
 * A Lease as it was read, and the Jobs of its holder, read after it and only those of this hold.
 */
export interface ObservedLease {
  kind: LeaseKind
  lease?: Lease
  /** Absent if they could not be listed: the Lease then counts as held. */
  jobs?: Job[]
  /** They could not be listed for a long time, and a user must act. */
  isUnreadable?: true
}

/** The holder of a Lease, as messages name it. */
export interface ObservedHolder extends LeaseHolder {
  /** It may be working, but nothing can be read in its namespace. */
  isUnreadable?: true
}

/** Reads the Lease before the Jobs, so that a Job created in between is observed. */
export async function readLease(
  { namespace, name }: NamespacedName,
  kind: LeaseKind,
  ports: Pick<LeasePorts, 'lease' | 'jobsOf'>,
  rules: BlockingRules,
): Promise<ObservedLease> {
  const lease = await ports.lease(namespace, leaseName(name, kind))
  if (lease === undefined) return { kind }
  const holder = readLeaseHolder(lease)
  if (holder === undefined) return { kind, lease, jobs: [] }
  try {
    const jobs = await ports.jobsOf(holder.namespace, holder.uid)
    const holdJobs = jobs.filter((job) => !(runNumber(job) < firstRunOf(lease)))
    return {
      kind,
      lease,
      jobs: holdJobs.filter((job) => !isUnfinished(job) || isBlockingJob(job, rules)),
    }
  } catch (error) {
    if (!(error instanceof KubernetesError)) throw error
    const isUnreadable = error instanceof UnreadableNamespace
    // A namespace that may not use the cluster must not delay those that may, and one that is no longer
    // watched will not become readable.
    const mayWork = rules.isAllowed(holder.namespace) && rules.isWatched(holder.namespace)
    if (isUnreadable && !mayWork) return { kind, lease, jobs: [] }
    // A holder whose Jobs could not be listed may be working.
    return { kind, lease, ...(isUnreadable && { isUnreadable }) }
  }
}

/**
 * Name of the holder of a cluster's Lease at this moment, for messages; undefined if it is free.
 */
export async function currentHolder(
  cluster: NamespacedName,
  kind: LeaseKind,
  ports: Pick<LeasePorts, 'lease' | 'jobsOf'>,
  rules: BlockingRules,
): Promise<string | undefined> {
  const holder = holderOf(await readLease(cluster, kind, ports, rules), rules.now)
  return holder && formatHolderName(holder)
}

/** The holder of the Lease; undefined if the Lease is free, even if it names a holder. */
export function holderOf(
  { lease, jobs, isUnreadable }: ObservedLease,
  now: Date,
): ObservedHolder | undefined {
  const found = lease && readLeaseHolder(lease)
  const holder = found && { ...found, ...(isUnreadable === true && { isUnreadable }) }
  if (jobs === undefined || jobs.some(isUnfinished)) return holder
  // Applies before the first Job of the hold only: a finished Job ends the hold.
  return jobs.length === 0 && Math.abs(leaseAge(lease, now)) < LEASE_DURATION_SECONDS
    ? holder
    : undefined
}

/** Whether a claimant is named as the holder, expired or not. */
export function isHolder(lease: Lease | undefined, claimant: LeaseHolder): lease is Lease {
  return lease !== undefined && readLeaseHolder(lease)?.uid === claimant.uid
}

/** Seconds since the latest of these Leases was acquired. */
export function secondsSinceAcquired(observed: ObservedLease[], now: Date): number {
  return Math.min(...observed.map(({ lease }) => leaseAge(lease, now)))
}

/** The holder as messages name it: a VecCluster holds a Lease for a helm run or for its shards. */
export function formatHolderName({ kind, namespace, name, isUnreadable }: ObservedHolder): string {
  const note =
    isUnreadable === true
      ? ', whose namespace cannot be read: run helm upgrade, or remove it from operator.namespaces'
      : ''
  const holder = `${kind} ${namespace}/${name}${note}`
  return kind === 'VecCluster' ? `the work on ${holder}` : holder
}

/** Seconds since the Lease was acquired. */
export function leaseAge(lease: Lease | undefined, now: Date): number {
  const age = secondsSince(lease?.spec?.acquireTime ?? '', now)
  return Number.isNaN(age) ? Infinity : age
}

/** Number of the first Job that belongs to the hold; 0 if all of them do. */
export function firstRunOf({ metadata }: Lease): number {
  const run = Number(metadata.annotations?.[ANNOTATIONS.run] ?? 0)
  return Number.isInteger(run) ? run : 0
}
