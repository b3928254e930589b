/** The hooks of VecMigration: observe, decide, act. */
import { VecMigration } from '../../crds/migration.ts'
import { act } from '../carry-out.ts'
import { JOB_CHILD_KINDS } from '../rights.ts'
import { room, type Room } from '../room.ts'
import { finalize, observeEnd } from '../transfer-end.ts'
import { customize } from './customize.ts'
import { observe } from './observe.ts'
import type { MigrationPorts } from './ports.ts'
import { sync } from './sync.ts'

export function migrationRoom(ports: MigrationPorts): Room {
  return room({
    resource: VecMigration,
    childKinds: JOB_CHILD_KINDS,
    customize,
    finalizeReads: [],
    async sync(request, context) {
      return act(sync(await observe(request, ports, context), context), ports)
    },
    async finalize(request) {
      return act(finalize(await observeEnd(request, ports)), ports)
    },
  })
}
