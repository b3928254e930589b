/** What the VecMigration room reads and writes, by the real clients of jobs/clients. */
import { EngineError } from '../crds/errors.ts'
import { VecMigration } from '../crds/migration.ts'
import type { MigrationPorts } from '../hooks/migration/ports.ts'
import { engineOn, type EngineTools } from './engines.ts'
import { migrations } from './places.ts'
import { transferPorts, type TransferTools } from './transfer-ports.ts'

/** A hook waits no longer to hear whether an engine is ready. */
const READY_MS = 2_000

export function migrationPorts(tools: EngineTools & TransferTools): MigrationPorts {
  const { kubernetes } = tools
  return {
    ...transferPorts(tools),
    migration: (namespace, name) =>
      kubernetes.get(migrations(namespace), name, VecMigration.schema),
    async isReady(connection) {
      const signal = AbortSignal.timeout(READY_MS)
      try {
        return await engineOn(tools, connection).readyz(signal)
      } catch (error) {
        if (signal.aborted || error instanceof EngineError) return false
        throw error
      }
    },
  }
}
