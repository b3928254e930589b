/** What the VecRestore room reads and writes, by the real clients of jobs/clients. */
import { VecRestore } from '../crds/restore.ts'
import type { RestorePorts } from '../hooks/restore/ports.ts'
import { othersAt, type OthersTools } from './others.ts'
import { restores } from './places.ts'
import { transferPorts, type TransferTools } from './transfer-ports.ts'

export function restorePorts(tools: TransferTools & OthersTools): RestorePorts {
  const { kubernetes } = tools
  return {
    ...transferPorts(tools),
    restore: (namespace, name) => kubernetes.get(restores(namespace), name, VecRestore.schema),
    othersAt: othersAt(tools),
  }
}
