/** Ports of the VecMigration room over plain data, and a record of what was written through them. */
import type { MigrationPorts } from '../../../hooks/migration/ports.ts'

/** Ports that find nothing, unless a test says otherwise. */
export function portsOf(answers: Partial<MigrationPorts> = {}): {
  ports: MigrationPorts
  written: string[]
} {
  const written: string[] = []
  const ports: MigrationPorts = {
    lease: async () => undefined,
    jobsOf: async () => [],
    takeLease: async ({ metadata }) => written.push(`take ${metadata.name}`) > 0,
    dropLease: async ({ metadata }) => written.push(`drop ${metadata.name}`) > 0,
    secret: async () => undefined,
    copy: async () => undefined,
    writeCopy: async ({ metadata }) => void written.push(`copy ${metadata.name}`),
    deleteCopy: async ({ name }) => void written.push(`delete copy ${name}`),
    cluster: async () => undefined,
    migration: async () => undefined,
    isReady: async () => true,
    deleteJob: async ({ name }) => void written.push(`stop ${name}`),
    writeEvent: async ({ reason }) => void written.push(`event ${reason}`),
    ...answers,
  }
  return { ports, written }
}
