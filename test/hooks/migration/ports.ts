/** Ports of the VecMigration room over plain data, and a record of what was written through them. */
import type { MigrationPorts } from '../../../hooks/migration/ports.ts'
import { sharedPorts } from '../transfer.ts'

/** Ports that find nothing, unless a test says otherwise. */
export function portsOf(answers: Partial<MigrationPorts> = {}): {
  ports: MigrationPorts
  written: string[]
} {
  const written: string[] = []
  const ports: MigrationPorts = {
    ...sharedPorts(written),
    migration: async () => undefined,
    isReady: async () => true,
    ...answers,
  }
  return { ports, written }
}
