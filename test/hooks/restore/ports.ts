/** Ports of the VecRestore room over plain data, and a record of what was written through them. */
import type { RestorePorts } from '../../../hooks/restore/ports.ts'

/** Ports that find nothing, unless a test says otherwise. */
export function portsOf(answers: Partial<RestorePorts> = {}): {
  ports: RestorePorts
  written: string[]
} {
  const written: string[] = []
  const ports: RestorePorts = {
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
    restore: async () => undefined,
    othersAt: async () => [],
    deleteJob: async ({ name }) => void written.push(`stop ${name}`),
    writeEvent: async ({ reason }) => void written.push(`event ${reason}`),
    ...answers,
  }
  return { ports, written }
}
