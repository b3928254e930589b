/** All that a decision about a VecCluster knows. */
import type { UpgradePlan } from '../../crds/command.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import type { Job, Pod, Secret, StatefulSet } from '../../crds/kubernetes.ts'
import type { SeenLease } from '../lease.ts'
import type { ShownJobs } from '../observations.ts'
import type { PodConsensus } from './ports.ts'

export interface Observed extends ShownJobs {
  cluster: VecCluster
  statefulSet?: StatefulSet
  /** The pods of the StatefulSet; only where some are not ready. */
  pods?: Pod[]
  /** The Secrets the spec names, as far as they exist. */
  secrets: ReadonlyMap<string, Secret>
  /** What the pods say of consensus; absent before the first answer. */
  consensus?: PodConsensus[]
  /** Why they could not be asked again since. */
  consensusFailure?: { error: unknown }
  consensusAgainAfterSeconds?: number
  /** The helm run that is due; absent where what was applied is what is wanted. */
  due?: Wanted
  /** Live, and only where a run is due. */
  liveJobs?: Job[]
  /** Helm Jobs of all clusters that have not ended; only where a run is due. */
  unfinishedHelmJobs?: number
  /** Live; only where a run is due, or its Job has not reported yet. */
  leases?: { write: SeenLease; backup: SeenLease }
  /** The namespace is being deleted; only in finalize. */
  namespaceEnds?: boolean
}

/** The run that is wanted now; its number is given when a Job is made of it. */
export type Wanted = Omit<UpgradePlan, 'run'>
