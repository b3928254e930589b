/** What the VecMigration room needs from outside; metacontroller/migration-ports.ts implements it. */
import type { VecCluster } from '../../crds/cluster.ts'
import type { Connection } from '../../crds/connection.ts'
import type { KubernetesEvent, Secret } from '../../crds/kubernetes.ts'
import type { VecMigration } from '../../crds/migration.ts'
import type { WritePorts } from '../carry-out.ts'

export interface MigrationPorts extends WritePorts {
  /** A Secret, at most 60 s old; undefined when there is none. */
  secret(namespace: string, name: string): Promise<Secret | undefined>
  /** The VecCluster, read live; undefined when it, or its kind, is gone. */
  cluster(namespace: string, name: string): Promise<VecCluster | undefined>
  /** The resource itself, read live. */
  migration(namespace: string, name: string): Promise<VecMigration | undefined>
  /** Whether the client Service of a cluster answers `/readyz` with 200; false after two seconds. */
  isReady(connection: Connection): Promise<boolean>
  /** Writes an Event; one that exists, or cannot be written, is fine. */
  writeEvent(event: KubernetesEvent): Promise<void>
}
