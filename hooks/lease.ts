/**
 * Leases: who may work on a cluster's collections. Two per VecCluster, in its namespace and owned by
 * it: `write` (a restore) and `backup` (a backup or a restore). A holder holds while it has a Job that
 * has not ended: only a resource that goes, and its Jobs with it, gives them back by hand. What is
 * decided about them is decided here.
 */
import type { Job, Lease } from '../crds/kubernetes.ts'
import { LEASE_MARGIN_SECONDS, LEASE_SECONDS } from '../crds/limits.ts'
import { API_VERSION, LABELS, MANAGED_BY, leaseName } from '../crds/names.ts'
import { holderIn, identityOf, type Holder } from '../crds/rules/holder.ts'
import { secondsSince } from './conditions.ts'
import { isUnfinished } from './job.ts'

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
  takeLease(lease: Lease): Promise<boolean>
  /** Deletes the Lease of exactly this uid and resourceVersion; false when it is another by now. */
  dropLease(lease: Lease): Promise<boolean>
}

/** A Lease as it was read, and then the Jobs of who stands in it. */
export interface SeenLease {
  kind: LeaseKind
  lease?: Lease
  /** Absent when they could not be listed: then the Lease counts as held. */
  jobs?: Job[]
}

export interface LeaseWrite {
  act: 'take' | 'drop'
  lease: Lease
}

/** The VecCluster as it lives now, which owns its Leases. */
interface Cluster {
  metadata: { namespace: string; name: string; uid: string }
}

export type Claim =
  /** All of them are held, and long enough for a Job to be made. */
  | { state: 'held' }
  /** Nothing stands in the way. What is written now is seen by the next pass. */
  | { state: 'taking'; writes: LeaseWrite[] }
  /** Somebody else holds one of them; what is held without a Job is given back. */
  | { state: 'waiting'; holder: Holder; writes: LeaseWrite[] }

/** Reads the Lease first and the Jobs after it: a Job made in between is then seen. */
export async function seeLease(
  { namespace, name }: { namespace: string; name: string },
  kind: LeaseKind,
  ports: Pick<LeasePorts, 'lease' | 'jobsOf'>,
): Promise<SeenLease> {
  const lease = await ports.lease(namespace, leaseName(name, kind))
  if (lease === undefined) return { kind }
  const holder = holderIn(lease)
  if (holder === undefined) return { kind, lease, jobs: [] }
  try {
    return { kind, lease, jobs: await ports.jobsOf(holder.namespace, holder.uid) }
  } catch {
    // Whoever could not be asked may well be at work.
    return { kind, lease }
  }
}

/** Who holds a cluster's Lease at this moment, for people; undefined when nobody does. */
export async function holderNow(
  cluster: { namespace: string; name: string },
  kind: LeaseKind,
  ports: Pick<LeasePorts, 'lease' | 'jobsOf'>,
  now: Date,
): Promise<string | undefined> {
  const holder = holderOf(await seeLease(cluster, kind, ports), now)
  return holder && called(holder)
}

/** Who holds the Lease; undefined when it is free, whatever stands in it. */
export function holderOf({ lease, jobs }: SeenLease, now: Date): Holder | undefined {
  const holder = lease && holderIn(lease)
  if (jobs === undefined || jobs.some(isUnfinished)) return holder
  // Before its first Job: one that has ended is the end of the hold.
  return jobs.length === 0 && Math.abs(ageOf(lease, now)) < LEASE_SECONDS ? holder : undefined
}

/**
 * What to do for a claimant without a Job that needs all these Leases, or none: a restore passes both,
 * `write` first. They are taken in that order and no further than the first that fails, so that two
 * claimants never hold one each for long.
 */
export function claim(
  seen: SeenLease[],
  claimant: Holder,
  { cluster, now }: { cluster: Cluster; now: Date },
): Claim {
  for (const one of seen) {
    const holder = holderOf(one, now)
    if (holder !== undefined && holder.uid !== claimant.uid) {
      return { state: 'waiting', holder, writes: givenBack(seen, claimant) }
    }
  }
  const missing = seen.filter((one) => !isSecure(one, claimant, { cluster, now }))
  if (missing.length === 0) return { state: 'held' }
  return {
    state: 'taking',
    writes: missing.flatMap((one) => taken(one, claimant, { cluster, now })),
  }
}

/** Gives back what a claimant without a Job holds. */
export function givenBack(seen: SeenLease[], claimant: Holder): LeaseWrite[] {
  return seen.flatMap(({ lease }) => (standsIn(lease, claimant) ? [{ act: 'drop', lease }] : []))
}

/** Makes the writes in their order; the first that fails ends it, and the next pass looks again. */
export async function writeLeases(
  writes: LeaseWrite[],
  ports: Pick<LeasePorts, 'takeLease' | 'dropLease'>,
): Promise<void> {
  for (const { act, lease } of writes) {
    const isDone = await (act === 'take' ? ports.takeLease(lease) : ports.dropLease(lease))
    if (!isDone) return
  }
}

/**
 * Gives back what a resource that is going still stands in: with its Jobs gone too, it would seem to be
 * before its first. Where this fails the Lease ends by its age, so nothing waits for it.
 */
export async function release(
  cluster: { namespace: string; name: string },
  kinds: LeaseKind[],
  claimant: Holder,
  ports: Pick<LeasePorts, 'lease' | 'dropLease'>,
): Promise<void> {
  for (const kind of kinds) {
    try {
      const lease = await ports.lease(cluster.namespace, leaseName(cluster.name, kind))
      if (standsIn(lease, claimant)) await ports.dropLease(lease)
    } catch {
      // A resource must be able to go, whatever the API server says of its cluster's namespace.
    }
  }
}

/** Whether a claimant stands in a Lease, whoever may take it. */
export function standsIn(lease: Lease | undefined, claimant: Holder): lease is Lease {
  return lease !== undefined && holderIn(lease)?.uid === claimant.uid
}

/** Seconds since the last of these was taken. */
export function heldSeconds(seen: SeenLease[], now: Date): number {
  return Math.min(...seen.map(({ lease }) => ageOf(lease, now)))
}

/** For people. */
export function called({ kind, namespace, name }: Holder): string {
  return `${kind} ${namespace}/${name}`
}

/** Seconds since it was taken. */
function ageOf(lease: Lease | undefined, now: Date): number {
  const age = secondsSince(lease?.spec?.acquireTime ?? '', now)
  return Number.isNaN(age) ? Infinity : age
}

/**
 * The claimant holds it, for this very cluster, and for long enough: a Job that appeared past the end
 * of the hold would meet that of the next holder.
 */
function isSecure(
  { lease, jobs }: SeenLease,
  claimant: Holder,
  { cluster, now }: { cluster: Cluster; now: Date },
): boolean {
  return (
    standsIn(lease, claimant) &&
    isOwned(lease, cluster) &&
    // One that could not be listed, or has ended meanwhile, was the Job of this hold.
    jobs?.length === 0 &&
    Math.abs(ageOf(lease, now)) < LEASE_SECONDS - LEASE_MARGIN_SECONDS
  )
}

function isOwned(lease: Lease, { metadata }: Cluster): boolean {
  return lease.metadata.ownerReferences?.some(({ uid }) => uid === metadata.uid) === true
}

function taken(
  { kind, lease }: SeenLease,
  claimant: Holder,
  { cluster, now }: { cluster: Cluster; now: Date },
): LeaseWrite[] {
  const fresh = newLease(kind, claimant, cluster, now)
  if (lease === undefined) return [{ act: 'take', lease: fresh }]
  // That of a former cluster of this name is deleted with its owner, at any moment.
  if (!isOwned(lease, cluster)) {
    return [
      { act: 'drop', lease },
      { act: 'take', lease: fresh },
    ]
  }
  const { resourceVersion } = lease.metadata
  const metadata = { ...fresh.metadata, ...(resourceVersion !== undefined && { resourceVersion }) }
  return [{ act: 'take', lease: { ...fresh, metadata } }]
}

function newLease(kind: LeaseKind, claimant: Holder, { metadata }: Cluster, now: Date): Lease {
  const { namespace, name, uid } = metadata
  return {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: {
      name: leaseName(name, kind),
      namespace,
      labels: { [LABELS.managedBy]: MANAGED_BY },
      ownerReferences: [{ apiVersion: API_VERSION, kind: 'VecCluster', name, uid }],
    },
    spec: {
      holderIdentity: identityOf(claimant),
      // The API wants exactly six digits of a second.
      acquireTime: now.toISOString().replace('Z', '000Z'),
    },
  }
}
