/** All that a decision about a VecCluster knows. */
import type { VecCluster } from '../../crds/cluster.ts'
import type { Connection } from '../../crds/contract/connection.ts'
import type { UpgradePlan } from '../../crds/contract/job.ts'
import type { Job, KubernetesEvent, Pod, Secret, StatefulSet } from '../../crds/kubernetes.ts'
import type { LeasePorts, ObservedLease } from '../lease.ts'
import type { ObservedJobs } from '../request.ts'

export interface Observed extends ObservedJobs {
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
  consensusResyncSeconds?: number
  /** The helm run that is due; absent where what was applied is what is wanted. */
  pendingRun?: DesiredRun
  /** Live, and only where a run is due. */
  liveJobs?: Job[]
  /** Helm Jobs of all clusters that have not ended; only where a run is due. */
  unfinishedHelmJobs?: number
  /** Live; only where a run is due, or its Job has not reported yet. */
  leases?: { write: ObservedLease; backup: ObservedLease }
  /** The namespace is being deleted; only in finalize. */
  namespaceEnds?: boolean
}

/** The run that is wanted now; its number is given when a Job is made of it. */
export type DesiredRun = Omit<UpgradePlan, 'run'>

/** What one pod reports of consensus; `unknown` when it could not be asked. */
export interface PodConsensus {
  ordinal: number
  state: 'working' | 'stopped' | 'unknown'
  /** The engine's own words when it stopped. */
  error?: string
  /** Of a node in distributed mode: its id, whom it knows (itself included), and whether one leads. */
  peerId?: number
  peers?: Peer[]
  hasLeader?: boolean
}

export interface Peer {
  id: number
  /** Of the pod at the peer's address; absent where that is no pod of this cluster. */
  ordinal?: number
}

export interface ClusterPorts extends LeasePorts {
  /** A Secret, at most 60 s old; undefined when there is none. */
  secret(namespace: string, name: string): Promise<Secret | undefined>
  /** Number of helm Jobs that have not ended, in all namespaces; at most 5 s old. */
  unfinishedHelmJobs(): Promise<number>
  /** The resource itself, read live. */
  cluster(namespace: string, name: string): Promise<VecCluster | undefined>
  statefulSet(namespace: string, name: string): Promise<StatefulSet | undefined>
  /** The pods of a release, as far as they can be listed; those of the StatefulSet are among them. */
  pods(namespace: string, release: string): Promise<Pod[]>
  /** Whether a namespace is being deleted, or is gone. */
  namespaceEnds(name: string): Promise<boolean>
  /** Asks every pod for `GET /cluster`; a pod that does not answer is `unknown`. */
  consensus(connection: Connection, signal: AbortSignal): Promise<PodConsensus[]>
  /** Deletes a Job with foreground propagation; one that is gone is fine. */
  deleteJob(job: { namespace: string; name: string; uid: string }): Promise<void>
  /** Writes an Event; one that exists, or cannot be written, is fine. */
  writeEvent(event: KubernetesEvent): Promise<void>
}
