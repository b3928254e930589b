/**
 * Leases: who may work on a cluster. Two per VecCluster, in its namespace and owned by it: `write` (a
 * restore) and `backup` (a backup, a restore or a helm run). A holder holds while it has a Job that has
 * not ended: only a resource that is deleted, and its Jobs with it, gives them back explicitly. A hold that
 * led to no Job ends after LEASE_SECONDS, and its holder goes behind those who wait (lease-queue.ts).
 */
import { KubernetesError } from '../crds/errors.ts'
import type { Job, Lease } from '../crds/kubernetes.ts'
import { LEASE_MARGIN_SECONDS, LEASE_SECONDS } from '../crds/limits.ts'
import { ANNOTATIONS, API_VERSION, LABELS, MANAGED_BY, leaseName } from '../crds/names.ts'
import { holderIn, identityOf, type Holder } from '../crds/rules/holder.ts'
import { isAtWork, type WorkRules } from './at-work.ts'
import { secondsSince } from './conditions.ts'
import { isUnfinished, runOf } from './job.ts'
import {
  enqueued,
  firstWaiter,
  hasWaiters,
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
  takeLease(lease: Lease): Promise<boolean>
  /** Deletes the Lease of exactly this uid and resourceVersion; false when it is another by now. */
  dropLease(lease: Lease): Promise<boolean>
}

/** A Lease as it was read, and then the Jobs of its holder, as far as they belong to this hold. */
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
  rules: WorkRules,
): Promise<SeenLease> {
  const lease = await ports.lease(namespace, leaseName(name, kind))
  if (lease === undefined) return { kind }
  const holder = holderIn(lease)
  if (holder === undefined) return { kind, lease, jobs: [] }
  try {
    const jobs = await ports.jobsOf(holder.namespace, holder.uid)
    const own = jobs.filter((job) => !(runOf(job) < heldRun(lease)))
    return { kind, lease, jobs: own.filter((job) => !isUnfinished(job) || isAtWork(job, rules)) }
  } catch (error) {
    if (!(error instanceof KubernetesError)) throw error
    // Whoever could not be asked may well be at work.
    return { kind, lease }
  }
}

/** Who holds a cluster's Lease at this moment, for people; undefined when nobody does. */
export async function holderNow(
  cluster: { namespace: string; name: string },
  kind: LeaseKind,
  ports: Pick<LeasePorts, 'lease' | 'jobsOf'>,
  rules: WorkRules,
): Promise<string | undefined> {
  const holder = holderOf(await seeLease(cluster, kind, ports, rules), rules.now)
  return holder && called(holder)
}

/** Who holds the Lease; undefined when it is free, whatever stands in it. */
export function holderOf({ lease, jobs }: SeenLease, now: Date): Holder | undefined {
  const holder = lease && holderIn(lease)
  if (jobs === undefined || jobs.some(isUnfinished)) return holder
  // Before its first Job: one that has ended is the end of the hold.
  return jobs.length === 0 && Math.abs(ageOf(lease, now)) < LEASE_SECONDS ? holder : undefined
}

/** What a claim is about. */
export interface About {
  cluster: Cluster
  now: Date
  /** Of a helm run: its number. Jobs of earlier runs of the VecCluster are not those of this hold. */
  run?: number
  /** What nobody else may hold either, and is not taken. */
  free?: SeenLease[]
}

/**
 * What to do for a claimant without a Job that needs all these Leases, or none: a restore passes both,
 * `backup` first. They are taken in that order and no further than the first that fails: as every claimant
 * needs `backup`, two never hold one each and wait for one another. Who waits notes itself in the queue and gives back what it holds.
 */
export function claim(seen: SeenLease[], claimant: Holder, about: About): Claim {
  const { now, free = [] } = about
  for (const one of [...free, ...seen]) {
    const holder = holderOf(one, now)
    if (holder !== undefined && holder.uid !== claimant.uid) {
      return { state: 'waiting', holder, writes: waits(seen, claimant, now) }
    }
  }
  const missing = seen.filter((one) => !isSecure(one, claimant, about))
  if (missing.length === 0) return { state: 'held' }
  const queued = queueIn(seen)
  const other = otherWaiter(queued, claimant, now)
  if (other !== undefined && isSpent(queued, claimant, about)) {
    return { state: 'waiting', holder: other, writes: goesBehind(seen, claimant, now) }
  }
  const first = firstWaiter(queued, now)
  if (first !== undefined && first.uid !== claimant.uid && !standsIn(queued, claimant)) {
    return { state: 'waiting', holder: first, writes: waits(seen, claimant, now) }
  }
  return { state: 'taking', writes: missing.flatMap((one) => taken(one, claimant, about)) }
}

/** Gives back what a claimant without a Job holds. */
export function givenBack(seen: SeenLease[], claimant: Holder): LeaseWrite[] {
  return seen.flatMap(({ lease }) => (standsIn(lease, claimant) ? [vacated(lease, claimant)] : []))
}

/** A Lease with a queue is only left: deleted, it would take the queue along. */
function vacated(lease: Lease, claimant: Holder): LeaseWrite {
  if (!hasWaiters(lease, claimant)) return { act: 'drop', lease }
  return { act: 'take', lease: { ...lease, spec: {} } }
}

/** Every claimant needs the Lease `backup`: so its queue is that of the cluster. */
function queueIn(seen: SeenLease[]): Lease | undefined {
  return seen.find(({ kind }) => kind === 'backup')?.lease
}

/** Gives back the others, and is noted in the queue. */
function waits(seen: SeenLease[], claimant: Holder, now: Date): LeaseWrite[] {
  const queued = queueIn(seen)
  if (queued === undefined || standsIn(queued, claimant)) return givenBack(seen, claimant)
  const noted = enqueued(queued, claimant, now)
  return [...givenBack(seen, claimant), ...(noted ? [{ act: 'take' as const, lease: noted }] : [])]
}

/** Leaves the Lease to those who wait, and waits behind them. */
function goesBehind(seen: SeenLease[], claimant: Holder, now: Date): LeaseWrite[] {
  const queued = queueIn(seen)
  const others = givenBack(
    seen.filter(({ kind }) => kind !== 'backup'),
    claimant,
  )
  if (queued === undefined) return others
  const lease = { ...requeued(queued, claimant, now), spec: {} }
  return [...others, { act: 'take', lease }]
}

/** It was held for as long as a hold without a Job may last. */
function isSpent(lease: Lease | undefined, claimant: Holder, { cluster, now }: About): boolean {
  return (
    standsIn(lease, claimant) &&
    isOwned(lease, cluster) &&
    Math.abs(ageOf(lease, now)) >= LEASE_SECONDS - LEASE_MARGIN_SECONDS
  )
}

/** Number of the first Job that belongs to the hold; 0: all of them do. */
function heldRun({ metadata }: Lease): number {
  const run = Number(metadata.annotations?.[ANNOTATIONS.run] ?? 0)
  return Number.isInteger(run) ? run : 0
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
  ports: Pick<LeasePorts, 'lease' | 'takeLease' | 'dropLease'>,
): Promise<void> {
  for (const kind of kinds) {
    try {
      const lease = await ports.lease(cluster.namespace, leaseName(cluster.name, kind))
      if (standsIn(lease, claimant)) await writeLeases([vacated(lease, claimant)], ports)
    } catch (error) {
      if (!(error instanceof KubernetesError)) throw error
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

/** As messages name it. */
export function called({ kind, namespace, name }: Holder): string {
  const holder = `${kind} ${namespace}/${name}`
  return kind === 'VecCluster' ? `the helm run of ${holder}` : holder
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
  { cluster, now, run = 0 }: About,
): boolean {
  return (
    standsIn(lease, claimant) &&
    isOwned(lease, cluster) &&
    heldRun(lease) === run &&
    // One that could not be listed, or has ended meanwhile, was the Job of this hold.
    jobs?.length === 0 &&
    Math.abs(ageOf(lease, now)) < LEASE_SECONDS - LEASE_MARGIN_SECONDS
  )
}

function isOwned(lease: Lease, { metadata }: Cluster): boolean {
  return lease.metadata.ownerReferences?.some(({ uid }) => uid === metadata.uid) === true
}

function taken({ kind, lease }: SeenLease, claimant: Holder, about: About): LeaseWrite[] {
  const { cluster } = about
  const fresh = newLease(kind, claimant, about)
  if (lease === undefined) return [{ act: 'take', lease: fresh }]
  // That of a former cluster of this name is deleted with its owner, at any moment.
  if (!isOwned(lease, cluster)) {
    return [
      { act: 'drop', lease },
      { act: 'take', lease: fresh },
    ]
  }
  const { resourceVersion } = lease.metadata
  const annotations = { ...waitersWithout(lease, claimant), ...fresh.metadata.annotations }
  const metadata = {
    ...fresh.metadata,
    ...(Object.keys(annotations).length > 0 && { annotations }),
    ...(resourceVersion !== undefined && { resourceVersion }),
  }
  return [{ act: 'take', lease: { ...fresh, metadata } }]
}

function newLease(kind: LeaseKind, claimant: Holder, { cluster, now, run }: About): Lease {
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
      holderIdentity: identityOf(claimant),
      // The API wants exactly six digits of a second.
      acquireTime: now.toISOString().replace('Z', '000Z'),
    },
  }
}
