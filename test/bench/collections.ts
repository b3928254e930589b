/**
 * What VecCollections cost: the time of their hook, with an engine that answers at once, and the calls
 * and connections that a thousand of them need of one cluster.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { VecCollection } from '../../crds/collection.ts'
import { API_VERSION } from '../../crds/names.ts'
import type { Desired, HookRequest, Settings } from '../../hooks/protocol.ts'
import { collectionRoom } from '../../hooks/collection/index.ts'
import { EngineCollections } from '../../jobs/clients/engine-collections.ts'
import { EngineConnections, routeTo } from '../../jobs/clients/engine-route.ts'
import { Engine } from '../../jobs/clients/engine.ts'
import { jobLog } from '../../jobs/log.ts'
import { cluster } from '../builders.ts'
import { EngineCluster } from '../doubles/engine/cluster.ts'
import { startEngineNode } from '../doubles/engine/node.ts'
import { SPEC } from './engine.ts'
import { CREATED, stored, uidOf } from './objects.ts'
import { inTurns, speed } from './pairs.ts'
import type { Part, Plan } from './part.ts'
import { withService, type Stage } from './service.ts'
import type { Figure } from './table.ts'

const SYNC = '/veccollections/sync'
const CLUSTERS = 'VecCluster.vec-operator.dev/v1alpha1'
/** Of one cluster, in the measurement of calls and connections. */
const MANY = 1000
const AT_ONCE = 50
const MINUTE_MS = 60_000

export const collections: Part = {
  name: 'collections',
  title: 'VecCollections',
  columns: ['service', 'bare echo'],
  measure: async (plan) => [
    ...(await withService(plan, (stage) => hookTimes(plan, stage))),
    ...(await callsOfMany()),
  ],
}

/** Every hook of a collection whose spec has changed looks at the engine: the most a hook does. */
async function hookTimes(plan: Plan, { sides, api, ask }: Stage): Promise<Figure[]> {
  const settled = requests(1)
  const changed = requests(2)
  // Never the same one twice: it would be known.
  let next = MANY
  const passing = () => changed(next++)
  for (const body of [settled(0), passing()]) checkAnswer(await ask(SYNC, body))
  const known = await inTurns(plan, sides, {
    ...{ path: SYNC, inFlight: 5 },
    body: (n) => settled(n % MANY),
  })
  const before = api.engineCalls()
  const looking = await inTurns(plan, sides, { path: SYNC, inFlight: 5, body: passing })
  const hooks = looking.service.reduce((sum, { answers }) => sum + answers, 0)
  const calls = api.engineCalls() - before
  if (calls < 2 * hooks) throw new Error(`${calls} calls of engines in ${hooks} hooks`)
  if (api.writes.length > 0) throw new Error(`the service wrote: ${api.writes[0] ?? ''}`)
  const titled = (title: string, figures: Figure[]) =>
    figures.map((figure) => ({ ...figure, what: `${title}: ${figure.what}` }))
  return [
    ...titled('between passes', speed(known, 5, { p99: 10 })),
    ...titled('a pass in every hook', speed(looking, 5, { p99: 10 })),
  ]
}

function checkAnswer(text: string): void {
  const { status } = JSON.parse(text) as { status?: VecCollection['status'] }
  if (status?.phase === 'Ready' && status.conditions?.[0]?.status === 'True') return
  throw new Error(`the service does not find the collection settled: ${text.slice(0, 1000)}`)
}

/** The n-th request as text, of that generation; the status is about the first. */
function requests(generation: number): (n: number) => Buffer {
  const template = JSON.stringify(requestOf(settledCollection(0, generation)))
  const [name, uid] = identityOf(0)
  return (n) => {
    const [mine, id] = identityOf(n)
    return Buffer.from(template.replaceAll(name, mine).replaceAll(uid, id))
  }
}

function requestOf(parent: VecCollection): HookRequest<VecCollection> {
  const running = stored(cluster({ name: 'a' }), { object: 'kubectl' })
  return { parent, children: {}, related: { [CLUSTERS]: { 'ns/a': running } }, finalizing: false }
}

/** Of one length, and none a part of another. */
function identityOf(n: number): [name: string, uid: string] {
  const name = `docs-${String(n).padStart(7, '0')}`
  return [name, uidOf('VecCollection', 'ns', name)]
}

function bareCollection(n: number): VecCollection {
  const [name, uid] = identityOf(n)
  return {
    apiVersion: API_VERSION,
    kind: 'VecCollection',
    metadata: { name, namespace: 'ns', uid, generation: 1, creationTimestamp: CREATED },
    spec: SPEC,
  }
}

function settledCollection(n: number, generation: number): VecCollection {
  const bare = bareCollection(n)
  const since = { lastTransitionTime: CREATED, observedGeneration: 1 }
  const status: VecCollection['status'] = {
    ...{ phase: 'Ready', collectionName: bare.metadata.name, health: 'green' },
    ...{ pointsCount: 0, indexedVectorsCount: 0, segmentsCount: 6 },
    payloadIndexes: SPEC.payloadIndexes?.map(({ field }) => field) ?? [],
    aliases: [],
    conditions: [
      {
        ...{ type: 'Ready', status: 'True', reason: 'CollectionReady', ...since },
        message: 'collection, indexes and aliases match spec',
      },
      {
        ...{ type: 'Replicated', status: 'True', reason: 'AllReplicasActive', ...since },
        message: '1 of 1 replicas are Active',
      },
    ],
    observedGeneration: generation,
  }
  const metadata = { ...bare.metadata, generation }
  return stored(
    { ...bare, metadata, status },
    { object: 'kubectl-client-side-apply', status: 'metacontroller' },
  ) as VecCollection
}

/** The room with the real client, on one node of the engine double: made, settled, and looked at again. */
async function callsOfMany(): Promise<Figure[]> {
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
  const route = routeTo(`http://127.0.0.1:${node.port}`, connections)
  const many = new Many(new Engine({ route, log: jobLog(), credentials: async () => ({}) }))
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
  readonly #room
  readonly #parents = Array.from({ length: MANY }, (_, n) => bareCollection(n))
  #time = Date.now()

  constructor(engine: Engine) {
    this.#room = collectionRoom({
      engine: () => new EngineCollections(engine),
      collectionsOf: async () => this.#parents,
      cluster: async () => cluster({ name: 'a' }),
      writeHolder: async () => undefined,
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
    const context = { now: new Date(this.#time), settings: { namespaces: [] as string[] } as Settings }
    const answer = await this.#room.sync(requestOf(parent), context)
    const { status } = answer as Desired<NonNullable<VecCollection['status']>>
    parent.status = status
    // As their jitter spreads them.
    this.#time += MINUTE_MS / MANY
    return status.phase === 'Ready' && status.conditions?.[0]?.status === 'True'
  }
}
