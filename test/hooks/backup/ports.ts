/** Ports of the VecBackup hooks over plain data, and a record of what was written through them. */
import type { BackupPorts } from '../../../hooks/backup/observe.ts'
import { fakeDataJobPorts } from '../data-job/fixtures.ts'

/** Ports that find nothing, unless a test says otherwise. */
export function fakePorts(overrides: Partial<BackupPorts> = {}): {
  ports: BackupPorts
  writes: string[]
} {
  const writes: string[] = []
  const ports: BackupPorts = {
    ...fakeDataJobPorts(writes),
    statefulSet: async () => undefined,
    serviceAccount: async () => undefined,
    configMap: async () => undefined,
    backup: async () => undefined,
    deleteBackup: async ({ name, uid }) => void writes.push(`expire ${name} ${uid}`),
    replaceReport: async ({ name }, { backup }) =>
      void writes.push(`report ${name} ${backup?.collections.length ?? 0}`),
    apiTime: async () => undefined,
    restoresReading: async () => [],
    backupsToRestore: async () => new Map(),
    helmJobsAt: async () => [],
    schedulePolicy: async () => undefined,
    isNamespaceTerminating: async () => false,
    purge: async () => ({ done: true }),
    warn: (_, message) => void writes.push(`warn ${message}`),
    ...overrides,
  }
  return { ports, writes }
}
