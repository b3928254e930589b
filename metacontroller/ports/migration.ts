/** Implements the ports of VecMigration with the real clients of jobs/clients. */
import { EngineError } from '../../crds/contract/errors.ts'
import { VecMigration } from '../../crds/migration.ts'
import type { MigrationPorts } from '../../hooks/migration/observe.ts'
import { engineClient, type EngineDependencies } from './engine-client.ts'
import { migrations } from '../../jobs/clients/kubernetes/api-resources.ts'
import { dataJobPorts, type DataJobDependencies } from './common.ts'

/** Maximum time a hook waits for the readiness of an engine. */
const READY_TIMEOUT_MS = 2_000

export function migrationPorts(
  dependencies: EngineDependencies & DataJobDependencies,
): MigrationPorts {
  const { kubernetes } = dependencies
  return {
    ...dataJobPorts(dependencies),
    migration: (namespace, name) =>
      kubernetes.get(migrations(namespace), name, VecMigration.schema),
    async isReady(connection) {
      const signal = AbortSignal.timeout(READY_TIMEOUT_MS)
      try {
        return await engineClient(dependencies, connection).readyz(signal)
      } catch (error) {
        if (signal.aborted || error instanceof EngineError) return false
        throw error
      }
    },
  }
}
