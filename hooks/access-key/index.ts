/** The hooks of VecAccessKey: observe, decide, act. Deletion needs none: the Secret is owned. */
import { VecAccessKey } from '../../crds/access-key.ts'
import { room, type Room } from '../room.ts'
import { customize } from './customize.ts'
import { observe } from './observe.ts'
import type { AccessKeyPorts } from './ports.ts'
import { sync } from './sync.ts'

export function accessKeyRoom(ports: AccessKeyPorts): Room {
  return room({
    resource: VecAccessKey,
    childKinds: ['Secret.v1'],
    customize,
    finalizeReads: [],
    async sync(request, context) {
      const desired = await sync(await observe(request, ports, context), context)
      for (const event of desired.events ?? []) await ports.writeEvent(event)
      return desired
    },
  })
}
