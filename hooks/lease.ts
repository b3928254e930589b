/**
 * Leases: who may work on a cluster. Two per VecCluster, in its namespace and owned by it: `write` (a
 * restore) and `backup` (a backup, a restore or a helm run). A holder holds while it has a Job that has
 * not ended: only a resource that is deleted, and its Jobs with it, gives them back explicitly. A hold that
 * led to no Job ends after LEASE_SECONDS, and its holder goes behind those who wait (lease-queue.ts).
 */
import { KubernetesError } from '../crds/contract/errors.ts'
import { LEASE_DURATION_SECONDS, LEASE_MARGIN_SECONDS } from '../crds/contract/limits.ts'
import { ANNOTATIONS, API_VERSION, LABELS, leaseName, MANAGED_BY } from '../crds/contract/names.ts'
import {
  formatHolderIdentity,
  readLeaseHolder,
  type Job,
  type Lease,
  type LeaseHolder,
} from '../crds/kubernetes.ts'
import { secondsSince } from './conditions.ts'
import { isBlockingJob, type BlockingRules } from './cross-namespace.ts'
import { isUnfinished, runNumber } from './job.ts'
import {
  enqueued,
  firstWaiter,
  hasOtherWaiters,
  otherWaiter,
  requeued,
  waitersWithout,
} from './lease-queue.ts'

export type LeaseKind = 'write' | 'backup'

export interface LeasePorts {
  /** Read live; undefined when there is none. */
  lease(namespace: string, name: string): Promise<Lease | undefined>
  /** Jobs that carry the label of this parent, read live. */
  jobsOf(namespace: string, parentUid: string): Promise<Job[]>
  /**
   * Replaces the Lease of exactly this resourceVersion, or makes it where it has none. False when
   * somebody was quicker, or there is no such Lease any more.
   */
  writeLease(lease: Lease): Promise<boolean>
  /** Deletes the Lease of exactly this uid and resourceVersion; false when it is another by now. */
  deleteLease(lease: Lease): Promise<boolean>
}

/** A Lease as it was read, and then the Jobs of its holder, as far as they belong to this hold. */
export interface ObservedLease {
  kind: LeaseKind
  lease?: Lease
  /** Absent when they could not be listed: then the Lease counts as held. */
  jobs?: Job[]
}

export interface LeaseWrite {
  action: 'take' | 'drop'
  lease: Lease
}

/** The VecCluster as it lives now, which owns its Leases. */
interface LeasedCluster {
  metadata: { namespace: string; name: string; uid: string }
}

export type Claim =
  /** All of them are held, and long enough for a Job to be made. */
  | { state: 'held' }
  /** Nothing stands in the way. What is written now is seen by the next pass. */
  | { state: 'taking'; writes: LeaseWrite[] }
  /** Somebody else holds one of them; what is held without a Job is given back. */
  | { state: 'waiting'; holder: LeaseHolder; writes: LeaseWrite[] }

/** Reads the Lease first and the Jobs after it: a Job made in between is then seen. */
export async function readLease(
  { namespace, name }: { namespace: string; name: string },
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
    // Whoever could not be asked may well be at work.
    return { kind, lease }
  }
}

/** Who holds a cluster's Lease at this moment, for people; undefined when nobody does. */
export async function currentHolder(
  cluster: { namespace: string; name: string },
  kind: LeaseKind,
  ports: Pick<LeasePorts, 'lease' | 'jobsOf'>,
  rules: BlockingRules,
): Promise<string | undefined> {
  const holder = holderOf(await readLease(cluster, kind, ports, rules), rules.now)
  return holder && formatHolderName(holder)
}

/** Who holds the Lease; undefined when it is free, whatever stands in it. */
export function holderOf({ lease, jobs }: ObservedLease, now: Date): LeaseHolder | undefined {
  const holder = lease && readLeaseHolder(lease)
  if (jobs === undefined || jobs.some(isUnfinished)) return holder
  // Before its first Job: one that has ended is the end of the hold.
  return jobs.length === 0 && Math.abs(leaseAge(lease, now)) < LEASE_DURATION_SECONDS
    ? holder
    : undefined
}

/** What a claim is about. */
export interface ClaimContext {
  cluster: LeasedCluster
  now: Date
  /** Of a helm run: its number. Jobs of earlier runs of the VecCluster are not those of this hold. */
  run?: number
  /** What nobody else may hold either, and is not taken. */
  free?: ObservedLease[]
}

/**
 * What to do for a claimant without a Job that needs all these Leases, or none: a restore passes both,
 * `backup` first. They are taken in that order and no further than the first that fails: as every claimant
 * needs `backup`, two never hold one each and wait for one another. Who waits notes itself in the queue and gives back what it holds.
 */
export function claim(
  observed: ObservedLease[],
  claimant: LeaseHolder,
  context: ClaimContext,
): Claim {
  const { now, free = [] } = context
  for (const candidate of [...free, ...observed]) {
    const holder = holderOf(candidate, now)
    if (holder !== undefined && holder.uid !== claimant.uid) {
      return { state: 'waiting', holder, writes: waitInQueue(observed, claimant, now) }
    }
  }
  const missing = observed.filter((candidate) => !isSafelyHeld(candidate, claimant, context))
  if (missing.length === 0) return { state: 'held' }
  const queueLease = findQueueLease(observed)
  const otherHolder = otherWaiter(queueLease, claimant, now)
  if (otherHolder !== undefined && isHoldExpired(queueLease, claimant, context)) {
    return {
      state: 'waiting',
      holder: otherHolder,
      writes: moveBehindQueue(observed, claimant, now),
    }
  }
  const firstInQueue = firstWaiter(queueLease, now)
  if (
    firstInQueue !== undefined &&
    firstInQueue.uid !== claimant.uid &&
    !isHolder(queueLease, claimant)
  ) {
    return { state: 'waiting', holder: firstInQueue, writes: waitInQueue(observed, claimant, now) }
  }
  return {
    state: 'taking',
    writes: missing.flatMap((candidate) => acquire(candidate, claimant, context)),
  }
}

/** Gives back what a claimant without a Job holds. */
export function leaseReleases(observed: ObservedLease[], claimant: LeaseHolder): LeaseWrite[] {
  return observed.flatMap(({ lease }) =>
    isHolder(lease, claimant) ? [releaseOf(lease, claimant)] : [],
  )
}

/** A Lease with a queue is only left: deleted, it would take the queue along. */
function releaseOf(lease: Lease, claimant: LeaseHolder): LeaseWrite {
  if (!hasOtherWaiters(lease, claimant)) return { action: 'drop', lease }
  return { action: 'take', lease: { ...lease, spec: {} } }
}

/** Every claimant needs the Lease `backup`: so its queue is that of the cluster. */
function findQueueLease(observed: ObservedLease[]): Lease | undefined {
  return observed.find(({ kind }) => kind === 'backup')?.lease
}

/** Gives back the others, and is noted in the queue. */
function waitInQueue(observed: ObservedLease[], claimant: LeaseHolder, now: Date): LeaseWrite[] {
  const queueLease = findQueueLease(observed)
  if (queueLease === undefined || isHolder(queueLease, claimant))
    return leaseReleases(observed, claimant)
  const enqueuedLease = enqueued(queueLease, claimant, now)
  return [
    ...leaseReleases(observed, claimant),
    ...(enqueuedLease ? [{ action: 'take' as const, lease: enqueuedLease }] : []),
  ]
}

/** Leaves the Lease to those who wait, and waits behind them. */
function moveBehindQueue(
  observed: ObservedLease[],
  claimant: LeaseHolder,
  now: Date,
): LeaseWrite[] {
  const queueLease = findQueueLease(observed)
  const others = leaseReleases(
    observed.filter(({ kind }) => kind !== 'backup'),
    claimant,
  )
  if (queueLease === undefined) return others
  const lease = { ...requeued(queueLease, claimant, now), spec: {} }
  return [...others, { action: 'take', lease }]
}

/** It was held for as long as a hold without a Job may last. */
function isHoldExpired(
  lease: Lease | undefined,
  claimant: LeaseHolder,
  { cluster, now }: ClaimContext,
): boolean {
  return (
    isHolder(lease, claimant) &&
    isOwnedBy(lease, cluster) &&
    Math.abs(leaseAge(lease, now)) >= LEASE_DURATION_SECONDS - LEASE_MARGIN_SECONDS
  )
}

/** Number of the first Job that belongs to the hold; 0: all of them do. */
function firstRunOf({ metadata }: Lease): number {
  const run = Number(metadata.annotations?.[ANNOTATIONS.run] ?? 0)
  return Number.isInteger(run) ? run : 0
}

/** Makes the writes in their order; the first that fails ends it, and the next pass looks again. */
export async function writeLeases(
  writes: LeaseWrite[],
  ports: Pick<LeasePorts, 'writeLease' | 'deleteLease'>,
): Promise<void> {
  for (const { action, lease } of writes) {
    const isWritten = await (action === 'take' ? ports.writeLease(lease) : ports.deleteLease(lease))
    if (!isWritten) return
  }
}

/**
 * Gives back what a resource that is going still stands in: with its Jobs gone too, it would seem to be
 * before its first. Where this fails the Lease ends by its age, so nothing waits for it.
 */
export async function release(
  cluster: { namespace: string; name: string },
  kinds: LeaseKind[],
  claimant: LeaseHolder,
  ports: Pick<LeasePorts, 'lease' | 'writeLease' | 'deleteLease'>,
): Promise<void> {
  for (const kind of kinds) {
    try {
      const lease = await ports.lease(cluster.namespace, leaseName(cluster.name, kind))
      if (isHolder(lease, claimant)) await writeLeases([releaseOf(lease, claimant)], ports)
    } catch (error) {
      if (!(error instanceof KubernetesError)) throw error
      // A resource must be able to go, whatever the API server says of its cluster's namespace.
    }
  }
}

/** Whether a claimant stands in a Lease, whoever may take it. */
export function isHolder(lease: Lease | undefined, claimant: LeaseHolder): lease is Lease {
  return lease !== undefined && readLeaseHolder(lease)?.uid === claimant.uid
}

/** Seconds since the last of these was taken. */
export function secondsSinceAcquired(observed: ObservedLease[], now: Date): number {
  return Math.min(...observed.map(({ lease }) => leaseAge(lease, now)))
}

/** As messages name it. */
export function formatHolderName({ kind, namespace, name }: LeaseHolder): string {
  const holder = `${kind} ${namespace}/${name}`
  return kind === 'VecCluster' ? `the helm run of ${holder}` : holder
}

/** Seconds since it was taken. */
function leaseAge(lease: Lease | undefined, now: Date): number {
  const age = secondsSince(lease?.spec?.acquireTime ?? '', now)
  return Number.isNaN(age) ? Infinity : age
}

/**
 * The claimant holds it, for this very cluster, and for long enough: a Job that appeared past the end
 * of the hold would meet that of the next holder.
 */
function isSafelyHeld(
  { lease, jobs }: ObservedLease,
  claimant: LeaseHolder,
  { cluster, now, run = 0 }: ClaimContext,
): boolean {
  return (
    isHolder(lease, claimant) &&
    isOwnedBy(lease, cluster) &&
    firstRunOf(lease) === run &&
    // One that could not be listed, or has ended meanwhile, was the Job of this hold.
    jobs?.length === 0 &&
    Math.abs(leaseAge(lease, now)) < LEASE_DURATION_SECONDS - LEASE_MARGIN_SECONDS
  )
}

function isOwnedBy(lease: Lease, { metadata }: LeasedCluster): boolean {
  return lease.metadata.ownerReferences?.some(({ uid }) => uid === metadata.uid) === true
}

function acquire(
  { kind, lease }: ObservedLease,
  claimant: LeaseHolder,
  context: ClaimContext,
): LeaseWrite[] {
  const { cluster } = context
  const desired = newLease(kind, claimant, context)
  if (lease === undefined) return [{ action: 'take', lease: desired }]
  // That of a former cluster of this name is deleted with its owner, at any moment.
  if (!isOwnedBy(lease, cluster)) {
    return [
      { action: 'drop', lease },
      { action: 'take', lease: desired },
    ]
  }
  const { resourceVersion } = lease.metadata
  const annotations = { ...waitersWithout(lease, claimant), ...desired.metadata.annotations }
  const metadata = {
    ...desired.metadata,
    ...(Object.keys(annotations).length > 0 && { annotations }),
    ...(resourceVersion !== undefined && { resourceVersion }),
  }
  return [{ action: 'take', lease: { ...desired, metadata } }]
}

function newLease(
  kind: LeaseKind,
  claimant: LeaseHolder,
  { cluster, now, run }: ClaimContext,
): Lease {
  const { namespace, name, uid } = cluster.metadata
  return {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: {
      name: leaseName(name, kind),
      namespace,
      labels: { [LABELS.managedBy]: MANAGED_BY },
      ...(run !== undefined && { annotations: { [ANNOTATIONS.run]: String(run) } }),
      ownerReferences: [{ apiVersion: API_VERSION, kind: 'VecCluster', name, uid }],
    },
    spec: {
      holderIdentity: formatHolderIdentity(claimant),
      // The API wants exactly six digits of a second.
      acquireTime: now.toISOString().replace('Z', '000Z'),
    },
  }
}
