/** The hooks of VecRestore: observe, decide, act. */
import { VecRestore } from '../../crds/restore.ts'
import { targetOf } from '../../crds/rules/restore-places.ts'
import { act } from '../carry-out.ts'
import { release } from '../lease.ts'
import { JOB_CHILD_KINDS } from '../rights.ts'
import { room, type Room } from '../room.ts'
import { finalize, observeEnd } from '../transfer-end.ts'
import { customize } from './customize.ts'
import { observe } from './observe.ts'
import type { RestorePorts } from './ports.ts'
import { asHolder, sync } from './sync.ts'

export function restoreRoom(ports: RestorePorts): Room {
  return room({
    resource: VecRestore,
    childKinds: JOB_CHILD_KINDS,
    customize,
    finalizeReads: ['targetClusterRef'],
    async sync(request, context) {
      return act(sync(await observe(request, ports, context), context), ports)
    },
    async finalize(request) {
      const decision = finalize(await observeEnd(request, ports))
      const { parent } = request
      if (decision.finalized === true) {
        await release(targetOf(parent), ['write', 'backup'], asHolder(parent), ports)
      }
      return act(decision, ports)
    },
  })
}
