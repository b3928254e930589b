/** What the VecMigration room needs from outside; metacontroller/migration-ports.ts implements it. */
import type { Connection } from '../../crds/connection.ts'
import type { VecMigration } from '../../crds/migration.ts'
import type { TransferPorts } from '../transfer-ports.ts'

export interface MigrationPorts extends TransferPorts {
  /** The resource itself, read live. */
  migration(namespace: string, name: string): Promise<VecMigration | undefined>
  /** Whether the client Service of a cluster answers `/readyz` with 200; false after two seconds. */
  isReady(connection: Connection): Promise<boolean>
}
