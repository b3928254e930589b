/** The hooks of VecMigration: observe, decide, act. */
import { VecMigration } from '../../crds/migration.ts'
import { room, type Room } from '../room.ts'
import { act } from '../carry-out.ts'
import { MIGRATION_CHILD_KINDS } from './children.ts'
import { customize } from './customize.ts'
import { finalize, observeEnd } from './finalize.ts'
import { observe } from './observe.ts'
import type { MigrationPorts } from './ports.ts'
import { sync } from './sync.ts'

export function migrationRoom(ports: MigrationPorts): Room {
  return room({
    resource: VecMigration,
    childKinds: MIGRATION_CHILD_KINDS,
    customize,
    async sync(request, context) {
      return act(sync(await observe(request, ports, context), context), ports)
    },
    async finalize(request) {
      return act(finalize(await observeEnd(request, ports)), ports)
    },
  })
}
