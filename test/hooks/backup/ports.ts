/** Ports of the VecBackup room over plain data, and a record of what was written through them. */
import type { BackupPorts } from '../../../hooks/backup/ports.ts'

/** Ports that find nothing, unless a test says otherwise. */
export function portsOf(answers: Partial<BackupPorts> = {}): {
  ports: BackupPorts
  written: string[]
} {
  const written: string[] = []
  const ports: BackupPorts = {
    lease: async () => undefined,
    jobsOf: async () => [],
    takeLease: async ({ metadata }) => written.push(`take ${metadata.name}`) > 0,
    dropLease: async ({ metadata }) => written.push(`drop ${metadata.name}`) > 0,
    secret: async () => undefined,
    copy: async () => undefined,
    writeCopy: async ({ metadata }) => void written.push(`copy ${metadata.name}`),
    deleteCopy: async ({ name }) => void written.push(`delete copy ${name}`),
    cluster: async () => undefined,
    statefulSet: async () => undefined,
    backup: async () => undefined,
    deleteBackup: async ({ name, uid }) => void written.push(`expire ${name} ${uid}`),
    restoresOf: async () => [],
    namespaceEnds: async () => false,
    purge: async () => ({ done: true }),
    deleteJob: async ({ name }) => void written.push(`stop ${name}`),
    writeEvent: async ({ reason }) => void written.push(`event ${reason}`),
    warn: (_, message) => void written.push(`warn ${message}`),
    ...answers,
  }
  return { ports, written }
}
