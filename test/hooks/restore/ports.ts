/** Ports of the VecRestore room over plain data, and a record of what was written through them. */
import type { RestorePorts } from '../../../hooks/restore/ports.ts'
import { sharedPorts } from '../transfer.ts'

/** Ports that find nothing, unless a test says otherwise. */
export function portsOf(answers: Partial<RestorePorts> = {}): {
  ports: RestorePorts
  written: string[]
} {
  const written: string[] = []
  const ports: RestorePorts = {
    ...sharedPorts(written),
    statefulSet: async () => undefined,
    backup: async () => undefined,
    restore: async () => undefined,
    othersAt: async () => [],
    ...answers,
  }
  return { ports, written }
}
