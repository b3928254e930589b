/** What the VecCluster room needs from outside; metacontroller/ports.ts implements it. */
import type { VecCluster } from '../../crds/cluster.ts'
import type { Connection } from '../../crds/connection.ts'
import type { KubernetesEvent, Pod, Secret, StatefulSet } from '../../crds/kubernetes.ts'
import type { LeasePorts } from '../lease.ts'

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
