/** Ports of the VecBackup room over plain data, and a record of what was written through them. */
import type { BackupPorts } from '../../../hooks/backup/ports.ts'
import { sharedPorts } from '../transfer.ts'

/** Ports that find nothing, unless a test says otherwise. */
export function portsOf(answers: Partial<BackupPorts> = {}): {
  ports: BackupPorts
  written: string[]
} {
  const written: string[] = []
  const ports: BackupPorts = {
    ...sharedPorts(written),
    statefulSet: async () => undefined,
    backup: async () => undefined,
    deleteBackup: async ({ name, uid }) => void written.push(`expire ${name} ${uid}`),
    replaceReport: async ({ name }, { backup }) =>
      void written.push(`report ${name} ${backup?.collections.length ?? 0}`),
    apiTime: async () => undefined,
    restoresOf: async () => [],
    helmJobsAt: async () => [],
    schedulePolicy: async () => undefined,
    namespaceEnds: async () => false,
    purge: async () => ({ done: true }),
    warn: (_, message) => void written.push(`warn ${message}`),
    ...answers,
  }
  return { ports, written }
}
