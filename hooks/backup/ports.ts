/** What the VecBackup room needs from outside; metacontroller/ports.ts implements it. */
import type { VecBackup } from '../../crds/backup.ts'
import type { StatefulSet } from '../../crds/kubernetes.ts'
import type { S3Target } from '../../crds/storage.ts'
import type { TransferPorts } from '../transfer-ports.ts'

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

export interface BackupPorts extends TransferPorts {
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
  /** A warning in the log of the service. */
  warn(backup: ObjectName, message: string): void
}
