/** The ports of the VecCluster hooks, and the state that is observed through them. */
import type { VecBackup } from '../../crds/backup.ts'
import type { VecBackupSchedule } from '../../crds/backup-schedule.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import type { Connection } from '../../crds/contract/connection.ts'
import type { UpgradePlan } from '../../crds/contract/job.ts'
import type {
  ConfigMap,
  Job,
  KubernetesEvent,
  Pod,
  Secret,
  StatefulSet,
} from '../../crds/kubernetes.ts'
import type { NamespacedName } from '../../crds/schema.ts'
import type { BlockingRules } from '../cross-namespace.ts'
import type { LeasePorts, ObservedLease } from '../lease.ts'
import type { ObservedJobs } from '../request.ts'
import type { KeyPorts, KeyRotation, ObservedKeys } from './keys/ports.ts'
import type { ShardPorts, ShardsSummary } from './shards/summary.ts'

export interface Observed extends ObservedJobs {
  cluster: VecCluster
  /** Settings.stepVersions. */
  stepVersions?: readonly string[]
  statefulSet?: StatefulSet
  /** The pods of the StatefulSet; set only if some are not ready or may be outdated. */
  pods?: Pod[]
  /** Objects of the release that do not exist; not read while the cluster is hibernated. */
  missingObjects?: ReleaseObject[]
  /** The existing Secrets that the spec references, by name. */
  secrets: ReadonlyMap<string, Secret>
  /** The keys of a cluster with spec.apiKey.rotation, and what follows from them. */
  keys?: ObservedKeys
  rotation?: KeyRotation
  /** Why the latest query for the keys that nodes accept failed. */
  keysFailure?: { error: unknown }
  keysResyncSeconds?: number
  /** Without a rotation: `vec-<name>-apikey` has no key, or one of another client, and a helm run is to write it. */
  isKeyReplaced?: true
  /** Consensus as the pods report it; absent before the first answer. */
  consensus?: PodConsensus[]
  /** Why the latest query failed. */
  consensusFailure?: { error: unknown }
  consensusResyncSeconds?: number
  /** Shards and nodes as last observed, and what is planned for them; absent before the first answer. */
  shards?: ShardsSummary
  /** Why the latest query for them failed. */
  shardsFailure?: { error: unknown }
  shardsResyncSeconds?: number
  /** Claims of removed nodes that the spec would use again; read only if a helm run would add nodes. */
  retainedVolumes?: string[]
  /** Work on the cluster without a Lease; read only if work on the shards, or a run that stops the pods, is due. */
  conflictingWork?: string[]
  /** Read live while the helm run that stops the pods has to wait for a backup. */
  hibernationBackup?: ObservedHibernationBackup
  /** The helm run that is due; absent if the applied state is the desired state and its StatefulSet exists. */
  pendingRun?: DesiredRun
  /** Read live; set only if a run or work on the shards is due. */
  liveJobs?: Job[]
  /** Number of unfinished helm Jobs that count towards the limit; set only if a run is due. */
  unfinishedHelmJobs?: number
  /** Read live; set only if a run or work on the shards is due, or its Job has not reported yet. */
  leases?: { write: ObservedLease; backup: ObservedLease }
  /** The namespace is being deleted; set only in finalize. */
  isNamespaceTerminating?: boolean
}

/** What exists of the backup before hibernation; read live while the helm run has to wait for it. */
export interface ObservedHibernationBackup {
  schedule?: VecBackupSchedule
  /** The VecBackup of the name that the status requests. */
  backup?: VecBackup
}

/** An object of the Helm release that is not its StatefulSet. */
export interface ReleaseObject {
  kind: 'Service' | 'ConfigMap' | 'ServiceAccount' | 'Secret' | 'PodDisruptionBudget'
  name: string
}

/** The desired run; it gets its number when its Job is created. */
export type DesiredRun = Omit<UpgradePlan, 'run'>

/** Consensus as one pod reports it; `unknown` if the pod did not answer. */
export interface PodConsensus {
  ordinal: number
  state: 'working' | 'stopped' | 'unknown'
  /** The engine's error message if consensus has stopped; why there is no answer if it is `unknown`. */
  error?: string
  /** Status code with which an `unknown` pod refused the API key: 401 or 403. */
  rejection?: number
  /** In distributed mode, of a node that answers: its id, and the peers it knows (itself included). */
  peerId?: number
  peers?: Peer[]
  /** Of a `working` node in distributed mode. */
  hasLeader?: boolean
  /** When a `working` node's consensus thread last did something, by the clock of the node. */
  lastUpdate?: string
  /** Since when `lastUpdate` has been the same, by the clock of the service. */
  unchangedSince?: Date
}

export interface Peer {
  id: number
  /** Ordinal of the pod at the peer's address; absent if that is not a pod of this cluster. */
  ordinal?: number
}

export interface FormationPorts {
  /** Read live; undefined if it does not exist. */
  configMap(namespace: string, name: string): Promise<ConfigMap | undefined>
  /** Creates it, or replaces the version given by its resourceVersion; false on a conflict. */
  writeConfigMap(configMap: ConfigMap): Promise<boolean>
}

export interface ClusterPorts extends LeasePorts, FormationPorts, KeyPorts, ShardPorts {
  /** Work on a cluster without a Lease, as messages name it: migrations, and writes to its collections. */
  conflictingWork(cluster: NamespacedName, rules: BlockingRules): Promise<string[]>
  /**
   * Number of helm Jobs that count towards the limit for a cluster of this namespace, at most 5 s old: all of this
   * namespace, and of each other one at most one less than the limit.
   */
  unfinishedHelmJobs(namespace: string, limit: number): Promise<number>
  /** The resource itself, read live. */
  cluster(namespace: string, name: string): Promise<VecCluster | undefined>
  statefulSet(namespace: string, name: string): Promise<StatefulSet | undefined>
  /**
   * Which of these objects do not exist, read live. That an object exists is at most 60 s old. One that the service may
   * not read counts as existing; any other error is thrown.
   */
  missingObjects(namespace: string, objects: readonly ReleaseObject[]): Promise<ReleaseObject[]>
  /** A VecBackupSchedule, read live. */
  schedule(namespace: string, name: string): Promise<VecBackupSchedule | undefined>
  /** A VecBackup, read live. */
  backup(namespace: string, name: string): Promise<VecBackup | undefined>
  /** The listable pods of a release, including those of the StatefulSet. */
  pods(namespace: string, release: string): Promise<Pod[]>
  /** Whether a namespace is being deleted or no longer exists. */
  isNamespaceTerminating(name: string): Promise<boolean>
  /** Asks every pod for `GET /cluster`; a pod that does not answer is `unknown`. */
  consensus(connection: Connection, signal: AbortSignal): Promise<PodConsensus[]>
  /** Deletes a Job with foreground propagation; a missing Job is not an error. */
  deleteJob(job: { namespace: string; name: string; uid: string }): Promise<void>
  /** Writes an Event; an Event that exists or cannot be written is not an error. */
  writeEvent(event: KubernetesEvent): Promise<void>
}
