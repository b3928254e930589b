/** What the rooms of VecBackup, VecRestore and VecMigration need from outside in the same way. */
import type { VecCluster } from '../crds/cluster.ts'
import type { KubernetesEvent, Secret } from '../crds/kubernetes.ts'
import type { WritePorts } from './carry-out.ts'

export interface TransferPorts extends WritePorts {
  /** A Secret, at most 60 s old; undefined when there is none. */
  secret(namespace: string, name: string): Promise<Secret | undefined>
  /** The VecCluster, read live; undefined when it, or its kind, is gone. */
  cluster(namespace: string, name: string): Promise<VecCluster | undefined>
  /** Writes an Event; one that exists, or cannot be written, is fine. */
  writeEvent(event: KubernetesEvent): Promise<void>
}
