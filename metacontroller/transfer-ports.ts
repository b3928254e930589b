/** What the rooms of VecBackup, VecRestore and VecMigration read and write in the same way. */
import type { TransferPorts } from '../hooks/transfer-ports.ts'
import { commonPorts, type CommonTools } from './common-ports.ts'
import { copyPorts } from './copies.ts'
import { leasePorts } from './leases.ts'

export interface TransferTools extends CommonTools {
  /** From a short memory. */
  secret: TransferPorts['secret']
}

export function transferPorts({ secret, ...tools }: TransferTools) {
  const { kubernetes } = tools
  return { ...commonPorts(tools), ...leasePorts(kubernetes), ...copyPorts(kubernetes), secret }
}
