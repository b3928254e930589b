/** Implements the ports of VecMigration with the real clients of jobs/clients. */
import { VecMigration } from '../../crds/migration.ts'
import type { MigrationPorts } from '../../hooks/migration/observe.ts'
import { engineClient, type EngineDependencies } from './engine-client.ts'
import { migrations } from '../../jobs/clients/kubernetes/api-resources.ts'
import { dataJobPorts, type DataJobDependencies } from './common.ts'

/** The answer of a slow target must arrive while it is recent (hooks/migration/observe.ts). */
const READY_TIMEOUT_MS = 2_000

export function migrationPorts(
  dependencies: EngineDependencies & DataJobDependencies,
): MigrationPorts {
  const { kubernetes } = dependencies
  return {
    ...dataJobPorts(dependencies),
    migration: (namespace, name) =>
      kubernetes.get(migrations(namespace), name, VecMigration.schema),
    notReadyReason: (connection, signal) =>
      engineClient(dependencies, connection).notReadyReason(signal, READY_TIMEOUT_MS),
  }
}
