/** A decision about a VecCluster as data: the status, the children that stay, and what is written. */
import type { ClusterStatus } from '../../crds/cluster.ts'
import type { AnyObject, ConfigMap, Job, LeaseHolder } from '../../crds/kubernetes.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import type { ConditionReason, NamespacedName } from '../../crds/schema.ts'
import { childrenAfter, latestJob, runNumber } from '../request.ts'
import { expiredJobs } from '../job-watch.ts'
import { holderOf, type ObservedLease, type LeaseWrite } from '../lease.ts'
import { leaseReleases } from '../lease-claim.ts'
import type { Child, Context, Desired } from '../protocol.ts'
import { eventsOf } from './events.ts'
import type { HibernationBackup } from './hibernation-backup.ts'
import { formationRecord } from './consensus.ts'
import { helmJobs } from './helm-result.ts'
import { keysToKeep } from './keys/status.ts'
import type { Observed } from './ports.ts'
import { clusterStatus } from './status.ts'

/** A decision: the hook response and the objects to write. */
export interface Decision extends Desired<ClusterStatus> {
  leases?: LeaseWrite[]
  /** Only a helm slot is missing for the next Job. */
  isWaitingForSlot?: boolean
  /** The keys that the Secret of the operator keeps. */
  validKeys?: { cluster: NamespacedName; fingerprints: readonly string[] }
  /** Records that the cluster was formed. */
  formation?: ConfigMap
}

export interface StateOptions {
  notApplied?: ConditionReason | undefined
  /** How the last helm run failed, if the message of `notApplied` says more than that. */
  failedRun?: ConditionReason | undefined
  /** Work on the shards that is about to start. */
  shardWork?: ConditionReason
  /** The backup that is requested before the pods are stopped. */
  hibernationBackup?: HibernationBackup | undefined
  resyncAfterSeconds: number
  /** Children in addition to the observed ones. */
  more?: Child[]
  /** RBAC objects that only a Job needs; any user who can create pods in the namespace could use them. */
  unused?: AnyObject[]
}

/** Returns every observed child except expired Jobs and unused RBAC objects. */
export function desiredState(
  observed: Observed,
  context: Context,
  options: StateOptions,
): Decision {
  const { notApplied, failedRun, shardWork, hibernationBackup, resyncAfterSeconds } = options
  const { more = [], unused = [] } = options
  const { cluster, jobs, children } = observed
  const latest = latestJob(helmJobs(jobs))
  const reportedRun = cluster.status?.appliedRun ?? 0
  // The Job is the only record of a run that the status does not show yet.
  const isRecorded = (job: Job) => job !== latest || runNumber(job) <= reportedRun
  const reason = 'no Job that needs it is due'
  const pruned = [
    ...expiredJobs(jobs, isRecorded, context),
    ...unused.map(({ kind, metadata: { name } }) => ({ kind, name, reason })),
  ]
  const status = {
    ...clusterStatus(observed, notApplied, context, shardWork),
    ...(failedRun !== undefined && { failedRun }),
    ...(hibernationBackup !== undefined && { hibernationBackup }),
  }
  const formation = formationRecord(cluster, status)
  const fingerprints = keysToKeep(observed)
  const { consensusFailure, shardsFailure, keysFailure } = observed
  const failures = [consensusFailure, shardsFailure, keysFailure].filter(
    (failure) => failure !== undefined,
  )
  return {
    status,
    children: childrenAfter(children, { created: more, pruned }),
    ...(pruned.length > 0 && { pruned }),
    resyncAfterSeconds,
    events: eventsOf(observed, status, context.now),
    ...(formation !== undefined && { formation }),
    ...(fingerprints !== undefined && {
      validKeys: { cluster: clusterName(cluster), fingerprints },
    }),
    ...(failures.length > 0 && { failures }),
  }
}

function clusterName({ metadata: { namespace, name } }: VecCluster): NamespacedName {
  return { namespace, name }
}

export function leaseHolder({ metadata: { namespace, name, uid } }: VecCluster): LeaseHolder {
  return { kind: 'VecCluster', namespace, name, uid }
}

/**
 * In the order of acquisition: all compete for the first one, so two claimants never hold one each.
 */
export function inAcquireOrder({
  write,
  backup,
}: NonNullable<Observed['leases']>): ObservedLease[] {
  return [backup, write]
}

/** A cluster that does not start a Job must not block other lease holders. */
export function releaseLeases({ cluster, leases }: Observed, desired: Decision): Decision {
  if (leases === undefined) return desired
  const writes = leaseReleases(inAcquireOrder(leases), leaseHolder(cluster))
  return writes.length === 0 ? desired : { ...desired, leases: writes }
}

/**
 * The status shows that a Job has reported, also without the report. Such a cluster is Pending only until its
 * first pods are ready.
 */
export function hasStarted({ cluster }: Observed): boolean {
  const { phase = 'Pending' } = cluster.status ?? {}
  return phase !== 'Pending'
}

/** The Job appeared after its Lease had expired, and another holder may be working. */
export function hasLostLease({ cluster, leases }: Observed, { now }: Context): boolean {
  if (leases === undefined) return false
  return inAcquireOrder(leases).some((lease) => {
    const holder = holderOf(lease, now)
    return holder !== undefined && holder.uid !== cluster.metadata.uid
  })
}
