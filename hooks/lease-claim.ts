/**
 * What a resource that needs Leases of a cluster decides: to take them, to wait in their queue, or to
 * release them. A Lease that a former cluster of the same name has left is replaced.
 */
import { KubernetesError } from '../crds/contract/errors.ts'
import { LEASE_DURATION_SECONDS, LEASE_MARGIN_SECONDS } from '../crds/contract/limits.ts'
import { ANNOTATIONS, API_VERSION, LABELS, leaseName, MANAGED_BY } from '../crds/contract/names.ts'
import {
  formatHolderIdentity,
  isOwnedBy,
  type Lease,
  type LeaseHolder,
} from '../crds/kubernetes.ts'
import type { NamespacedName } from '../crds/schema.ts'
import {
  applyWrite,
  firstRunOf,
  holderOf,
  isHolder,
  leaseAge,
  type LeaseKind,
  type LeasePorts,
  type LeaseWrite,
  type ObservedHolder,
  type ObservedLease,
} from './lease.ts'
import {
  dequeued,
  enqueued,
  firstWaiter,
  otherWaiter,
  requeued,
  waitersWithout,
} from './lease-queue.ts'

/** Each claimant that waits writes the Lease about once in a minute. */
const MAX_RELEASE_ATTEMPTS = 5

/** The live VecCluster, which owns its Leases. */
interface LeasedCluster {
  metadata: { namespace: string; name: string; uid: string }
}

export type Claim =
  /**
   * All of them are held, and for long enough to create a Job. The writes come first: they invalidate
   * what an earlier sync of the claimant, whose answer timed out, has decided and not yet written.
   */
  | { state: 'held'; writes: LeaseWrite[] }
  /** Nothing blocks the claim. The next sync observes what is written now. */
  | { state: 'taking'; writes: LeaseWrite[] }
  /** Another resource holds one of them; Leases held without a Job are released. */
  | { state: 'waiting'; holder: ObservedHolder; writes: LeaseWrite[] }

/** Input of a claim. */
export interface ClaimContext {
  cluster: LeasedCluster
  now: Date
  /**
   * Run number of a Job of a VecCluster. Jobs of earlier runs of the VecCluster do not belong to this hold.
   */
  run?: number
  /** Leases that no other resource may hold either, and that are not acquired. */
  free?: ObservedLease[]
}

/**
 * Decides what to do for a claimant without a Job that needs all of these Leases or none: a restore
 * passes both, `backup` first. They are acquired in that order, up to the first that fails. Every
 * claimant needs `backup`, so two claimants never hold one Lease each and wait for one another. A
 * waiting claimant enters the queue and releases the Leases that it holds.
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
  if (missing.length === 0) {
    return { state: 'held', writes: observed.flatMap(({ lease }) => renewal(lease, now)) }
  }
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

/** Releases the Leases that a claimant without a Job holds. */
export function leaseReleases(observed: ObservedLease[], claimant: LeaseHolder): LeaseWrite[] {
  return observed.flatMap(({ lease }) =>
    isHolder(lease, claimant) ? [releaseOf(lease, claimant)] : [],
  )
}

/** A Lease with a queue is updated, not deleted: deletion would remove the queue. */
export function releaseOf(lease: Lease, claimant: LeaseHolder): LeaseWrite {
  if (!hasOtherWaiters(lease, claimant)) return { action: 'drop', lease }
  return { action: 'take', lease: { ...lease, spec: {} } }
}

/** A released Lease is not deleted while another resource may be waiting in its queue. */
export function hasOtherWaiters(lease: Lease, claimant: LeaseHolder): boolean {
  return waitersWithout(lease, claimant) !== undefined
}

/**
 * Releases the Leases that a resource under deletion holds, and leaves their queue: once its Jobs are
 * gone, it would look like a holder that has not created its first Job, and its entry would keep later
 * claimants waiting. Another claimant may write the Lease at the same time: it is read again then. If
 * this fails, the Lease and the entry expire.
 */
export async function release(
  cluster: NamespacedName,
  kinds: LeaseKind[],
  claimant: LeaseHolder,
  ports: Pick<LeasePorts, 'lease' | 'writeLease' | 'deleteLease'>,
): Promise<void> {
  for (const kind of kinds) {
    try {
      await releaseOne(cluster, kind, claimant, ports)
    } catch (error) {
      if (!(error instanceof KubernetesError)) throw error
      // Deletion of a resource must succeed whatever the API server reports about its cluster's
      // namespace.
    }
  }
}

/** Every claimant needs the Lease `backup`, so its queue is the queue of the cluster. */
function findQueueLease(observed: ObservedLease[]): Lease | undefined {
  return observed.find(({ kind }) => kind === 'backup')?.lease
}

/** Releases the other Leases and enters the queue. */
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

/** Releases the Lease to the waiters and moves behind them. */
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

/** Whether it was held for as long as a hold without a Job may last. */
function isHoldExpired(
  lease: Lease | undefined,
  claimant: LeaseHolder,
  { cluster, now }: ClaimContext,
): boolean {
  return (
    isHolder(lease, claimant) &&
    isOwnedBy(lease, cluster.metadata.uid) &&
    Math.abs(leaseAge(lease, now)) >= LEASE_DURATION_SECONDS - LEASE_MARGIN_SECONDS
  )
}

/** The same hold under a new resourceVersion. */
function renewal(lease: Lease | undefined, now: Date): LeaseWrite[] {
  if (lease === undefined) return []
  const spec = { ...lease.spec, renewTime: microTime(now) }
  return [{ action: 'renew', lease: { ...lease, spec } }]
}

/**
 * Whether the claimant holds the Lease for exactly this cluster and for long enough: a Job that
 * appears after the end of the hold could overlap with the Job of the next holder.
 */
function isSafelyHeld(
  { lease, jobs }: ObservedLease,
  claimant: LeaseHolder,
  { cluster, now, run = 0 }: ClaimContext,
): boolean {
  return (
    isHolder(lease, claimant) &&
    isOwnedBy(lease, cluster.metadata.uid) &&
    firstRunOf(lease) === run &&
    // If the Jobs could not be listed, or one has finished meanwhile, this hold had its Job.
    jobs?.length === 0 &&
    Math.abs(leaseAge(lease, now)) < LEASE_DURATION_SECONDS - LEASE_MARGIN_SECONDS
  )
}

function acquire(
  { kind, lease }: ObservedLease,
  claimant: LeaseHolder,
  context: ClaimContext,
): LeaseWrite[] {
  const { cluster } = context
  const desired = newLease(kind, claimant, context)
  if (lease === undefined) return [{ action: 'take', lease: desired }]
  // The Lease of a former cluster of this name is deleted with its owner, at any moment.
  if (!isOwnedBy(lease, cluster.metadata.uid)) {
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
      acquireTime: microTime(now),
    },
  }
}

/** The API requires exactly six fractional digits of a second. */
function microTime(time: Date): string {
  return time.toISOString().replace('Z', '000Z')
}

async function releaseOne(
  cluster: NamespacedName,
  kind: LeaseKind,
  claimant: LeaseHolder,
  ports: Pick<LeasePorts, 'lease' | 'writeLease' | 'deleteLease'>,
): Promise<void> {
  for (let attempt = 0; attempt < MAX_RELEASE_ATTEMPTS; attempt += 1) {
    const lease = await ports.lease(cluster.namespace, leaseName(cluster.name, kind))
    if (lease === undefined) return
    const write = departure(lease, claimant)
    if (write === undefined || (await applyWrite(write, ports))) return
  }
}

/** Undefined if the claimant neither holds the Lease nor waits for it. */
function departure(lease: Lease, claimant: LeaseHolder): LeaseWrite | undefined {
  const withoutEntry = dequeued(lease, claimant)
  if (isHolder(lease, claimant)) return releaseOf(withoutEntry ?? lease, claimant)
  return withoutEntry && { action: 'take', lease: withoutEntry }
}
