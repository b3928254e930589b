/** The hooks of VecBackup: observe, decide, act. */
import { VecBackup } from '../../crds/backup.ts'
import { release } from '../lease.ts'
import { Passes } from '../pass.ts'
import { JOB_CHILD_KINDS } from '../rights.ts'
import { room, type Room } from '../room.ts'
import { act, type Decision } from './act.ts'
import { customize } from './customize.ts'
import { finalize, observeEnd } from './finalize.ts'
import { clusterOf, observe } from './observe.ts'
import type { BackupPorts } from './ports.ts'
import type { Purge } from './purge.ts'
import { asHolder, sync } from './sync.ts'

export function backupRoom(ports: BackupPorts): Room {
  // Every finalize asks for the next batch.
  const purges = new Passes<Purge>(0)
  const acted = async (decision: Decision, backup: VecBackup) => {
    await act(decision, backup.metadata, ports)
    return decision
  }
  return room({
    resource: VecBackup,
    childKinds: JOB_CHILD_KINDS,
    customize,
    finalizeReads: ['clusterRef', 'storage', 'deletionPolicy'],
    async sync(request, context) {
      const observed = await observe(request, ports, context)
      return acted(sync(observed, context), request.parent)
    },
    async finalize(request, context) {
      const end = await observeEnd(request, { ports, purges }, context)
      const decision = finalize(end, context)
      if (decision.finalized === true) {
        await purges.abort(request.parent.metadata.uid)
        await release(clusterOf(request.parent), ['backup'], asHolder(request.parent), ports)
      }
      return acted(decision, request.parent)
    },
  })
}
