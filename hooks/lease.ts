/**
 * Leases: which resource may work on a cluster, and which ones wait (lease-queue.ts; lease-claim.ts: who may take them).
 * Each VecCluster has two in its namespace, owned by it: `write` (a restore, the work on shards) and
 * `backup` (a backup, a restore, a helm run or the work on shards). A holder keeps a Lease while it has
 * an unfinished Job of its own; only a resource that is deleted, and its Jobs with it, releases its Leases
 * explicitly. A Lease whose holder started no Job expires after LEASE_DURATION_SECONDS, and the holder
 * is placed behind the waiters.
 */
import { KubernetesError, UnreadableNamespace } from '../crds/contract/errors.ts'
import {
  JOB_STOP_TIMEOUT_SECONDS,
  LEASE_DURATION_SECONDS,
  REQUEUE_SOON_SECONDS,
} from '../crds/contract/limits.ts'
import { ANNOTATIONS, leaseName } from '../crds/contract/names.ts'
import {
  isControlledBy,
  type Job,
  type Lease,
  type LeaseHolder,
  readLeaseHolder,
} from '../crds/kubernetes.ts'
import type { NamespacedName } from '../crds/schema.ts'
import { secondsSince } from './conditions.ts'
import { type BlockingRules, isBlockingJob } from './cross-namespace.ts'
import { isSigned, isUnfinished, runNumber } from './request.ts'
import { RetryLater } from './protocol.ts'

export type LeaseKind = 'write' | 'backup'

export interface LeasePorts {
  /** Read live; undefined if it does not exist. */
  lease(namespace: string, name: string): Promise<Lease | undefined>
  /** Jobs with the label of this parent, read live. */
  jobsOf(namespace: string, parentUid: string): Promise<Job[]>
  /** Whether exactly this resource exists, and whether its status has an outcome, read live. */
  holderState(holder: LeaseHolder): Promise<'unfinished' | 'finished' | 'gone'>
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
  ports: Pick<LeasePorts, 'lease' | 'jobsOf' | 'holderState'>,
  rules: BlockingRules,
): Promise<ObservedLease> {
  const lease = await ports.lease(namespace, leaseName(name, kind))
  if (lease === undefined) return { kind }
  const holder = readLeaseHolder(lease)
  if (holder === undefined) return { kind, lease, jobs: [] }
  try {
    const jobs = await ports.jobsOf(holder.namespace, holder.uid)
    const holdJobs = jobs
      .filter((job) => !(runNumber(job) < firstRunOf(lease)))
      .filter((job) => !isUnfinished(job) || isBlockingJob(job, rules))
    const isOver = await isHoldOver(holder, holdJobs.filter(isUnfinished), ports, rules)
    return { kind, lease, jobs: isOver ? [] : holdJobs }
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
 * Whether the unfinished Jobs of a hold are not those of its holder, which is gone or has ended: a user can create
 * others with its label, or with the name and signature of its own. Kubernetes deletes the Jobs that a resource
 * controls after it, and their pods stop within a minute once they cannot report to it.
 */
async function isHoldOver(
  holder: LeaseHolder,
  unfinished: Job[],
  ports: Pick<LeasePorts, 'holderState'>,
  rules: BlockingRules,
): Promise<boolean> {
  if (unfinished.length === 0) return false
  const isOfHolder = (job: Job) => isControlledBy(job, holder.uid)
  if (!rules.isAllowed(holder.namespace)) {
    const state = await ports.holderState(holder)
    return state === 'finished' || (state === 'gone' && !unfinished.some(isOfHolder))
  }
  const mayWork = (job: Job) => isSigned(job, rules.jobKeys) && !isSuspended(job, rules.now)
  if (unfinished.some((job) => isOfHolder(job) || mayWork(job))) return false
  return (await ports.holderState(holder)) === 'gone'
}

/** The Job was suspended longer ago than its pods may take to stop. */
function isSuspended({ spec, status = {} }: Job, now: Date): boolean {
  const suspended = status.conditions?.find(({ type }) => type === 'Suspended')
  const seconds = secondsSince(suspended?.lastTransitionTime ?? '', now)
  const hasNoPods = spec?.suspend === true && (status.active ?? 0) === 0
  return hasNoPods && suspended?.status === 'True' && seconds >= JOB_STOP_TIMEOUT_SECONDS
}

/**
 * Name of the holder of a cluster's Lease at this moment, for messages; undefined if it is free.
 */
export async function currentHolder(
  cluster: NamespacedName,
  kind: LeaseKind,
  ports: Pick<LeasePorts, 'lease' | 'jobsOf' | 'holderState'>,
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

export interface LeaseWrite {
  /** A `renew` that fails fails the sync: the Job that it precedes must not be created. */
  action: 'take' | 'drop' | 'renew'
  lease: Lease
}

/**
 * Applies the writes in order and stops at the first that fails; the next sync observes the result.
 */
export async function writeLeases(
  writes: LeaseWrite[],
  ports: Pick<LeasePorts, 'writeLease' | 'deleteLease'>,
): Promise<void> {
  for (const { action, lease } of writes) {
    if (await applyWrite({ action, lease }, ports)) continue
    if (action === 'renew') throw new RetryLater(changedMessage(lease), REQUEUE_SOON_SECONDS)
    return
  }
}

/** Whether it succeeded. */
export function applyWrite(
  { action, lease }: LeaseWrite,
  ports: Pick<LeasePorts, 'writeLease' | 'deleteLease'>,
): Promise<boolean> {
  return action === 'drop' ? ports.deleteLease(lease) : ports.writeLease(lease)
}

function changedMessage({ metadata: { namespace, name } }: Lease): string {
  return `Lease ${namespace ?? ''}/${name} changed while a Job was about to start; trying again`
}
