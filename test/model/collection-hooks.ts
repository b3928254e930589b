/**
 * The hooks of VecCollection over a small world with an engine in it. Each of their writes to the engine is
 * checked at once, because the data of a collection has no other copy in that world.
 */
import type { VecCollection } from '../../crds/collection.ts'
import { EngineError } from '../../crds/contract/errors.ts'
import type { CollectionPorts } from '../../hooks/collection/ports.ts'
import { collectionHooks } from '../../hooks/collection/index.ts'
import type { Desired, HookRequest, KindHooks } from '../../hooks/protocol.ts'
import { FakeEngine } from '../hooks/collection/engine.ts'
import { recorded } from './calls.ts'
import { Wrong } from './explore.ts'
import { portsOver } from './ports.ts'
import { objects, type SmallWorld } from './small-world.ts'

/** Every collection is reconciled within this time (COLLECTION_RECONCILE_SECONDS). */
const RECONCILE_MS = 60_000

/** A service that has run for a while: it reconciles the collection a second time, a minute later. */
export function longRunning(world: SmallWorld): KindHooks {
  const { hooks, later } = over(world)
  return {
    ...hooks,
    async sync(request, context) {
      await hooks.sync(request, context)
      later()
      const now = new Date(context.now.getTime() + RECONCILE_MS)
      return hooks.sync(request, { ...context, now })
    },
  }
}

/** A service that has just started. */
export function justStarted(world: SmallWorld): KindHooks {
  return over(world).hooks
}

/** A service that is killed after this many writes: its answer is lost. */
export function killedAfter(writes: number): (world: SmallWorld) => KindHooks {
  return (world) => over(world, writes).hooks
}

function over(world: SmallWorld, mostWrites = Infinity): { hooks: KindHooks; later: () => void } {
  const engine = engineIn(world)
  engine.beforeCall = (call) => {
    if (engine.writes.length > mostWrites) throw new Error('the service was killed')
    if (!engine.isReady && call !== 'readyz') throw new EngineError('the engine is away')
  }
  let { now } = world
  const hooks = collectionHooks(portsOf(world, engine, () => new Date(now)))
  const judged = (hook: KindHooks['sync']): KindHooks['sync'] => {
    return async (request, context) => {
      engine.writes.length = 0
      const desired = await hook(request, context)
      judge(world, engine, { request: request as HookRequest<VecCollection>, desired })
      return desired
    }
  }
  const { sync, finalize = sync } = hooks
  return {
    hooks: { ...hooks, sync: judged(sync), finalize: judged(finalize) },
    later: () => void (now += RECONCILE_MS),
  }
}

function engineIn({ engine }: SmallWorld): FakeEngine {
  const { collections, aliasTargets, isReady } = engine
  // Reads are never stale here; test/hooks/collection covers stale reads.
  return Object.assign(new FakeEngine(), { collections, aliasTargets, isReady, staleReads: 0 })
}

function portsOf(world: SmallWorld, engine: FakeEngine, now: () => Date): CollectionPorts {
  const ports = portsOver(world)
  return {
    now,
    engine: () => recorded(world, engine),
    cluster: ({ namespace, name }) => ports.cluster(namespace, name),
    writeEvent: (event) => ports.writeEvent(event),
    ...recorded(world, {
      collectionsOf: async () => ({
        claims: structuredClone(objects(world.live, 'VecCollection')) as unknown as VecCollection[],
        unreadable: [],
      }),
      writeHolder: async () => world.engine.holder,
      podVersions: async () => ['1.18.3'],
    }),
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
  if (engine.holder !== undefined)
    throw new Wrong(`writes while ${engine.holder} holds the Lease: ${words}`)
  if (!engine.isReady) throw new Wrong(`writes to an engine that is not ready: ${words}`)
  if (request.finalizing !== mayDelete) throw new Wrong(`writes during deletion: ${words}`)
  if (!mayDelete && words.includes('deleteCollection')) throw new Wrong('data is deleted')
  const isLeft = live['VecCluster/a'] !== undefined && engine.collections.has(metadata.name)
  if (desired.finalized === true && isLeft)
    throw new Wrong('the collection remains after its deletion')
}
