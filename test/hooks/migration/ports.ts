/** Ports of the VecMigration hooks over plain data, and a record of what was written through them. */
import type { MigrationPorts } from '../../../hooks/migration/observe.ts'
import { fakeDataJobPorts } from '../data-job/fixtures.ts'

/** Ports that find nothing, unless a test says otherwise. */
export function fakePorts(overrides: Partial<MigrationPorts> = {}): {
  ports: MigrationPorts
  writes: string[]
} {
  const writes: string[] = []
  const ports: MigrationPorts = {
    ...fakeDataJobPorts(writes),
    migration: async () => undefined,
    notReadyReason: async () => undefined,
    ...overrides,
  }
  return { ports, writes }
}
