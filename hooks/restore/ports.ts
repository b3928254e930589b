/** What the VecRestore room needs from outside; metacontroller/restore-ports.ts implements it. */
import type { VecBackup } from '../../crds/backup.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import type { KubernetesEvent, Secret, StatefulSet } from '../../crds/kubernetes.ts'
import type { VecRestore } from '../../crds/restore.ts'
import type { WritePorts } from '../carry-out.ts'

export interface RestorePorts extends WritePorts {
  /** A Secret, at most 60 s old; undefined when there is none. */
  secret(namespace: string, name: string): Promise<Secret | undefined>
  /** The VecCluster, read live; undefined when it, or its kind, is gone. */
  cluster(namespace: string, name: string): Promise<VecCluster | undefined>
  statefulSet(namespace: string, name: string): Promise<StatefulSet | undefined>
  /** The VecBackup, read live. */
  backup(namespace: string, name: string): Promise<VecBackup | undefined>
  /** The resource itself, read live. */
  restore(namespace: string, name: string): Promise<VecRestore | undefined>
  /**
   * Who works on a cluster without a Lease, for people: its helm Jobs and migrations (from or to it)
   * that have not ended, read live, and passes of this service that write to its collections.
   */
  othersAt(cluster: { namespace: string; name: string }): Promise<string[]>
  /** Writes an Event; one that exists, or cannot be written, is fine. */
  writeEvent(event: KubernetesEvent): Promise<void>
}
