/**
 * The room of VecCollection over a small world with an engine in it. What it writes there is judged at
 * once: what is in a collection has no other copy in that world.
 */
import type { VecCollection } from '../../crds/collection.ts'
import { EngineError } from '../../crds/contract/errors.ts'
import type { CollectionPorts } from '../../hooks/collection/ports.ts'
import { collectionHooks } from '../../hooks/collection/index.ts'
import type { Desired, HookRequest } from '../../hooks/protocol.ts'
import type { KindHooks } from '../../hooks/kind-hooks.ts'
import { FakeEngine } from '../hooks/collection/engine.ts'
import { Wrong } from './explore.ts'
import { portsOver } from './ports.ts'
import { objects, type SmallWorld } from './small-world.ts'

/** Within a minute every collection has its turn (COLLECTION_RECONCILE_SECONDS). */
const TURN_MS = 60_000

/** A service that has run for a while: whatever was just looked at has its turn once more. */
export function inTurn(world: SmallWorld): KindHooks {
  const { room, later } = over(world)
  return {
    ...room,
    async sync(request, context) {
      await room.sync(request, context)
      later()
      const now = new Date(context.now.getTime() + TURN_MS)
      return room.sync(request, { ...context, now })
    },
  }
}

/** One that has just started. */
export function justStarted(world: SmallWorld): KindHooks {
  return over(world).room
}

/** One that is gone after so many writes; nobody hears its answer. */
export function killedAfter(writes: number): (world: SmallWorld) => KindHooks {
  return (world) => over(world, writes).room
}

function over(world: SmallWorld, mostWrites = Infinity): { room: KindHooks; later: () => void } {
  const engine = engineIn(world)
  engine.beforeCall = (call) => {
    if (engine.writes.length > mostWrites) throw new Error('the service is gone')
    if (!engine.isReady && call !== 'readyz') throw new EngineError('the engine is away')
  }
  let { now } = world
  const room = collectionHooks(portsOf(world, engine, () => new Date(now)))
  const judged = (hook: KindHooks['sync']): KindHooks['sync'] => {
    return async (request, context) => {
      engine.writes.length = 0
      const desired = await hook(request, context)
      judge(world, engine, { request: request as HookRequest<VecCollection>, desired })
      return desired
    }
  }
  const { sync, finalize = sync } = room
  return {
    room: { ...room, sync: judged(sync), finalize: judged(finalize) },
    later: () => void (now += TURN_MS),
  }
}

function engineIn({ engine }: SmallWorld): FakeEngine {
  const { collections, aliasTargets, isReady } = engine
  // A read shows what was written: that it may not, the tests of the room have.
  return Object.assign(new FakeEngine(), { collections, aliasTargets, isReady, staleReads: 0 })
}

function portsOf(world: SmallWorld, engine: FakeEngine, now: () => Date): CollectionPorts {
  const ports = portsOver(world)
  return {
    now,
    engine: () => engine,
    cluster: ({ namespace, name }) => ports.cluster(namespace, name),
    writeEvent: (event) => ports.writeEvent(event),
    collectionsOf: async () =>
      structuredClone(objects(world.live, 'VecCollection')) as unknown as VecCollection[],
    writeHolder: async () => world.engine.holder,
    wait: async (_, signal) => signal.throwIfAborted(),
  }
}

interface Judged {
  request: HookRequest<VecCollection>
  desired: Desired<unknown>
}

function judge({ live, engine }: SmallWorld, { writes }: FakeEngine, judged: Judged): void {
  const { request, desired } = judged
  const { metadata, spec } = request.parent
  const mayDelete = request.finalizing && spec.deletionPolicy === 'Delete'
  const [first] = writes
  if (first === undefined) return
  const words = writes.map(([name]) => name).join(', ')
  if (engine.holder !== undefined) throw new Wrong(`writes beside ${engine.holder}: ${words}`)
  if (!engine.isReady) throw new Wrong(`writes to an engine that is not ready: ${words}`)
  if (request.finalizing !== mayDelete) throw new Wrong(`writes at the end: ${words}`)
  if (!mayDelete && words.includes('deleteCollection')) throw new Wrong('data is deleted')
  const isLeft = live['VecCluster/a'] !== undefined && engine.collections.has(metadata.name)
  if (desired.finalized === true && isLeft) throw new Wrong('what is to be deleted is left')
}
