/** The calls and connections that a thousand VecCollections need of one cluster. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { VecCollection } from '../../crds/collection.ts'
import { collectionHooks } from '../../hooks/collection/index.ts'
import type { Desired } from '../../hooks/protocol.ts'
import { EngineCollections } from '../../jobs/clients/engine/collections.ts'
import { EngineConnections, urlTransport } from '../../jobs/clients/engine/transport.ts'
import { Engine } from '../../jobs/clients/engine/client.ts'
import { jobLog } from '../../jobs/log.ts'
import { cluster, settings } from '../builders.ts'
import { EngineCluster } from '../doubles/engine/cluster.ts'
import { startEngineNode } from '../doubles/engine/node.ts'
import { bareCollection, requestOf } from './collection-objects.ts'
import type { Figure } from './table.ts'

const MANY = 1000
const AT_ONCE = 50
const MINUTE_MS = 60_000

/** The hooks with the real client, on one node of the engine double: collections are created, become ready, and are checked again. */
export async function callsOfMany(): Promise<Figure[]> {
  const engine = new EngineCluster({ name: 'vec-a', staleMs: 0 })
  const node = await startEngineNode({ ordinal: 0, cluster: engine })
  const connections = new EngineConnections()
  let calls: string[] = []
  let open = 0
  node.misbehave(({ path }) => {
    calls.push(path.join('/'))
    open = Math.max(open, node.connections().open)
    return undefined
  })
  const route = urlTransport(`http://127.0.0.1:${node.port}`, connections)
  const many = new Many(
    new Engine({ transport: route, log: jobLog(), credentials: async () => ({}) }),
  )
  try {
    const settling = await many.untilReady()
    calls = []
    const looking = await many.aMinuteLater()
    const own = Map.groupBy(
      calls.filter((call) => call.startsWith('collections/')),
      (call) => call.split('/')[1],
    )
    const most = Math.max(...[...own.values()].map(({ length }) => length))
    if (own.size !== MANY) throw new Error(`${own.size} of ${MANY} collections were looked at`)
    const shared = calls.length - [...own.values()].flat().length
    return [
      counted(`connections, ${MANY} of one cluster`, open, 10),
      counted('own calls of a pass without a change', most, 2),
      counted(`shared calls of ${MANY} such passes`, shared),
      { what: `${MANY} made and Ready`, unit: 's', value: settling },
      { what: `${MANY} looked at again`, unit: 's', value: looking },
    ]
  } finally {
    await connections.close()
    await node.close()
  }
}

function counted(what: string, value: number, target?: number): Figure {
  const figure = { what, unit: '', value }
  return target === undefined ? figure : { ...figure, target, met: value <= target }
}

/** All collections of the cluster, synced as Metacontroller does: again when they asked for it. */
class Many {
  readonly #hooks
  readonly #parents = Array.from({ length: MANY }, (_, n) => bareCollection(n))
  #time = Date.now()

  constructor(engine: Engine) {
    this.#hooks = collectionHooks({
      engine: () => new EngineCollections(engine),
      collectionsOf: async () => ({ claims: this.#parents, unreadable: [] }),
      cluster: async () => cluster({ name: 'a' }),
      writeHolder: async () => undefined,
      podVersions: async () => ['1.18.3'],
      writeEvent: async () => undefined,
      now: () => new Date(this.#time),
      wait: (milliseconds, signal) => sleep(milliseconds, undefined, { signal }),
    })
  }

  /** All are synced until each is Ready; the seconds it took. */
  async untilReady(): Promise<number> {
    const started = performance.now()
    for (let left = this.#parents; left.length > 0;) left = await this.#waitingAfter(left)
    return (performance.now() - started) / 1000
  }

  /** All are due, and synced once; the seconds it took. */
  async aMinuteLater(): Promise<number> {
    const started = performance.now()
    this.#time += MINUTE_MS
    await this.#waitingAfter(this.#parents)
    return (performance.now() - started) / 1000
  }

  /** Those that are not Ready after a sync of each. */
  async #waitingAfter(parents: VecCollection[]): Promise<VecCollection[]> {
    const waiting: VecCollection[] = []
    for (let from = 0; from < parents.length; from += AT_ONCE) {
      const some = parents.slice(from, from + AT_ONCE)
      const areReady = await Promise.all(some.map((parent) => this.#isReady(parent)))
      waiting.push(...some.filter((_, index) => areReady[index] === false))
    }
    return waiting
  }

  async #isReady(parent: VecCollection): Promise<boolean> {
    const context = { now: new Date(this.#time), settings }
    const answer = await this.#hooks.sync(requestOf(parent), context)
    const { status } = answer as Desired<NonNullable<VecCollection['status']>>
    parent.status = status
    // As their jitter spreads them.
    this.#time += MINUTE_MS / MANY
    return status.phase === 'Ready' && status.conditions?.[0]?.status === 'True'
  }
}
