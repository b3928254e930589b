/** What the VecRestore room reads and writes, by the real clients of jobs/clients. */
import { VecRestore } from '../crds/restore.ts'
import type { RestorePorts } from '../hooks/restore/ports.ts'
import { commonPorts, type CommonTools } from './common-ports.ts'
import { copyPorts } from './copies.ts'
import { leasePorts } from './leases.ts'
import { othersAt, type OthersTools } from './others.ts'
import { restores } from './places.ts'

export interface RestoreTools extends CommonTools, OthersTools {
  secret: RestorePorts['secret']
}

export function restorePorts(tools: RestoreTools): RestorePorts {
  const { kubernetes, secret } = tools
  return {
    ...commonPorts(tools),
    ...leasePorts(kubernetes),
    ...copyPorts(kubernetes),
    secret,
    restore: (namespace, name) => kubernetes.get(restores(namespace), name, VecRestore.schema),
    othersAt: othersAt(tools),
  }
}
