/** What the VecBackup room needs from outside; metacontroller/ports.ts implements it. */
import type { VecBackup } from '../../crds/backup.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import type { KubernetesEvent, Secret, StatefulSet } from '../../crds/kubernetes.ts'
import type { S3Target } from '../../crds/storage.ts'
import type { LeasePorts } from '../lease.ts'

export interface ObjectName {
  namespace: string
  name: string
}

export interface ObjectIdentity extends ObjectName {
  uid: string
}

/** The objects of one backup: those under `<prefix>/<name>/`, as long as its uid owns that prefix. */
export interface PurgeTarget extends ObjectIdentity {
  storage: S3Target
  /** What the batch before this one left. */
  left?: ObjectCount | undefined
}

export interface PurgeResult {
  /** A listing shows nothing of this backup any more. */
  done: boolean
  /** Objects that are left, where that is known. */
  left?: ObjectCount
}

export interface ObjectCount {
  count: number
  /** There are more, which were not counted. */
  isLeast: boolean
}

export interface BackupPorts extends LeasePorts {
  /** A Secret, at most 60 s old; undefined when there is none. */
  secret(namespace: string, name: string): Promise<Secret | undefined>
  /** A copy the service made, read live. */
  copy(namespace: string, name: string): Promise<Secret | undefined>
  /** Makes the copy, or replaces its data; one of another owner stays as it is. */
  writeCopy(copy: Secret): Promise<void>
  /** Deletes a copy of this owner; one that is gone, or of another owner, is fine. */
  deleteCopy(copy: ObjectName & { ownerUid: string }): Promise<void>
  /** The VecCluster, read live; undefined when it, or its kind, is gone. */
  cluster(namespace: string, name: string): Promise<VecCluster | undefined>
  statefulSet(namespace: string, name: string): Promise<StatefulSet | undefined>
  /** The resource itself, read live. */
  backup(namespace: string, name: string): Promise<VecBackup | undefined>
  /** Deletes the resource of exactly this uid; one that is gone is fine. */
  deleteBackup(backup: ObjectIdentity): Promise<void>
  /** VecRestores that name this backup, read live, from all namespaces served; none without the kind. */
  restoresOf(backup: ObjectName): Promise<ObjectIdentity[]>
  /** Whether a namespace is being deleted, or is gone. */
  namespaceEnds(name: string): Promise<boolean>
  /**
   * Deletes at most one batch of objects, and goes on at the next call. A bucket that does not exist
   * is done; what else the store answers is a `StorageError`. The signal ends it between two requests.
   */
  purge(target: PurgeTarget, signal: AbortSignal): Promise<PurgeResult>
  /** Deletes a Job with foreground propagation; one that is gone is fine. */
  deleteJob(job: ObjectIdentity): Promise<void>
  /** Writes an Event; one that exists, or cannot be written, is fine. */
  writeEvent(event: KubernetesEvent): Promise<void>
  /** A warning in the log of the service. */
  warn(backup: ObjectName, message: string): void
}
