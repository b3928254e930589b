/** What the VecBackup room needs from outside; metacontroller/ports.ts implements it. */
import type { VecBackup } from '../../crds/backup.ts'
import type { Progress } from '../../crds/command.ts'
import type { StatefulSet } from '../../crds/kubernetes.ts'
import type { S3Target } from '../../crds/storage.ts'
import type { TransferPorts } from '../transfer-ports.ts'
import type { SchedulePolicy } from './fate.ts'

export interface ObjectName {
  namespace: string
  name: string
}

export interface ObjectIdentity extends ObjectName {
  uid: string
}

/** A VecRestore that reads a backup. */
export interface Reader extends ObjectIdentity {
  /** What it names: the VecBackup, or its place in the bucket, for which it needs no permission. */
  by: 'name' | 'place'
}

/** The objects that one backup wrote under `<prefix>/<name>/`, as long as its uid owns that prefix. */
export interface PurgeTarget extends ObjectIdentity {
  storage: S3Target
  /** Of the batch before this one. */
  survey?: PurgeSurvey | undefined
}

export interface PurgeResult {
  /** A listing shows nothing that this backup wrote any more. */
  done: boolean
  survey?: PurgeSurvey
  /** Objects in the folder that this backup did not write. They stay. */
  others?: { count: number; example: string }
  /** A restore that recorded in the bucket that it reads the backup: nothing is deleted before it ends. */
  reader?: ObjectName & { until: string }
}

/** What need not be looked for again at the next batch. */
export interface PurgeSurvey {
  /** Objects that are left. */
  left: number
  /** Folders inside that belong to other backups. */
  inner: string[]
}

export interface BackupPorts extends TransferPorts {
  statefulSet(namespace: string, name: string): Promise<StatefulSet | undefined>
  /** The resource itself, read live. */
  backup(namespace: string, name: string): Promise<VecBackup | undefined>
  /** Deletes the resource of exactly this uid; one that is gone is fine. */
  deleteBackup(backup: ObjectIdentity): Promise<void>
  /**
   * Writes the report on the resource of exactly this uid. One that is gone, or cannot be written, is fine.
   */
  replaceReport(backup: ObjectIdentity, report: Progress): Promise<void>
  /**
   * VecRestores that read this backup, by its name or by its place in the bucket, read live, from all
   * namespaces served; none without the kind.
   */
  restoresOf(backup: ObjectName & { storage: S3Target }): Promise<Reader[]>
  /** What a VecBackupSchedule says of the objects of its backups, read live; undefined when it is gone. */
  schedulePolicy(namespace: string, name: string): Promise<SchedulePolicy | undefined>
  /** helm Jobs of a cluster that have not ended, read live, as messages name them. */
  helmJobsAt(cluster: ObjectName): Promise<string[]>
  /** Whether a namespace is being deleted, or is gone. */
  namespaceEnds(name: string): Promise<boolean>
  /**
   * Deletes at most one batch of objects, and goes on at the next call. A bucket that does not exist
   * is done; what else the store answers is a `StorageError`. The signal ends it between two requests.
   */
  purge(target: PurgeTarget, signal: AbortSignal): Promise<PurgeResult>
  /** The time of the API server, as it says with an answer; undefined when it does not. */
  apiTime(namespace: string): Promise<Date | undefined>
  /** A warning in the log of the service. */
  warn(backup: ObjectName, message: string): void
}
