/** The hooks of VecCollection: observe (with a pass over the engine), decide, write Events. */
import { VecCollection } from '../../crds/collection.ts'
import { Passes } from '../pass.ts'
import { room, type Room } from '../room.ts'
import { customize } from './customize.ts'
import { finalize, observeEnd, type Attempt } from './finalize.ts'
import { observe } from './observe.ts'
import type { CollectionPorts } from './ports.ts'
import type { Result } from './rhythm.ts'
import { SharedEngines } from './shared.ts'
import { sync } from './sync.ts'

/** `inlineMs`: how long a hook waits for a pass before it goes on in the background. */
export function collectionRoom(ports: CollectionPorts, inlineMs?: number): Room {
  const reach = {
    ports,
    // When a pass is due is the room's own rhythm; two in a row are never too many.
    passes: new Passes<Result>(0, inlineMs),
    ends: new Passes<Attempt>(0, inlineMs),
    engines: new SharedEngines(() => ports.now()),
    firstSeen: new Map<string, number>(),
  }
  return room({
    resource: VecCollection,
    childKinds: [],
    customize,
    finalizeReads: ['clusterRef', 'collectionName', 'aliases', 'deletionPolicy'],
    async sync(request, context) {
      const desired = sync(await observe(request, reach, context), context)
      for (const event of desired.events ?? []) await ports.writeEvent(event)
      return desired
    },
    async finalize(request, context) {
      return finalize(await observeEnd(request.parent, reach, context), context)
    },
  })
}
