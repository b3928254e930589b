/** Ports of the VecRestore hooks over plain data, and a record of what was written through them. */
import type { RestorePorts } from '../../../hooks/restore/observe.ts'
import { fakeDataJobPorts } from '../data-job/fixtures.ts'

/** Ports that find nothing, unless a test says otherwise. */
export function fakePorts(overrides: Partial<RestorePorts> = {}): {
  ports: RestorePorts
  writes: string[]
} {
  const writes: string[] = []
  const ports: RestorePorts = {
    ...fakeDataJobPorts(writes),
    statefulSet: async () => undefined,
    serviceAccount: async () => undefined,
    configMap: async () => undefined,
    backup: async () => undefined,
    restore: async () => undefined,
    conflictingWork: async () => [],
    ...overrides,
  }
  return { ports, writes }
}
