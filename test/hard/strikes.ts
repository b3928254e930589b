/** Lets the faults of a plan happen to a world, each at its time and for its time, and ends them. */
import { API_VERSION } from '../../crds/contract/names.ts'
import type { EngineCluster } from '../doubles/engine/cluster.ts'
import type { Unfinished } from '../doubles/engine/collection.ts'
import { holdRecoveries } from '../doubles/engine/running.ts'
import { settle } from './replicas.ts'
import type { Fault, Phase, Plan, Strike } from './plan.ts'
import { repair } from './repair.ts'
import { COLLECTIONS } from './traffic.ts'
import { BUCKET, NAMESPACE, STORE_TAGS, type HardWorld } from './world.ts'

/** Ends the fault. */
type Undo = () => Promise<void> | void

interface Blow {
  world: HardWorld
  strike: Strike
  /** The cluster whose nodes are struck. */
  cluster: string
  /** Ordinal that this cluster has. */
  node: number
  other: number
}

/** Where a strike may fall: due once the data job has come so far, too late once it is over. */
interface Scene {
  cluster: string
  nodes: number
  isDue: () => boolean
  isOver: () => boolean
}

const POLL_MS = 20
const SLOW_NODES = 30_000
const SLOW_JOB = 60_000
/** A shard of the load takes some ten seconds. */
const SLOW_STORE = 25_000
const STABLE_MS = 5_000

export class Strikes {
  /** How often each fault has struck. */
  readonly struck = new Map<Fault, number>()
  /** Nodes of a cluster without their volume, until they are repaired. */
  readonly lost = new Map<string, number>()
  readonly #world: HardWorld
  readonly #plan: Plan
  readonly #running = new Set<Promise<void>>()

  constructor(world: HardWorld, plan: Plan) {
    this.#world = world
    this.#plan = plan
  }

  /** Starts what is to strike in a phase, at the cluster that takes part in it. */
  begin(phase: Phase, cluster: string, nodes: number, isOver: () => boolean): void {
    const base = this.#world.calls()
    for (const strike of this.#plan.strikes) {
      if (strike.during !== phase) continue
      const release = this.#world.hold()
      const isDue = () => this.#world.calls() - base >= strike.afterCalls
      const work = this.#strike(strike, { cluster, nodes, isDue, isOver })
        .catch((error: unknown) => {
          // A fault that cannot happen, as on a pod that is not there, does not.
          if (process.env['HARD_VERBOSE'] === '1') console.error(strike.fault, error)
        })
        .finally(() => {
          release()
          this.#running.delete(work)
        })
      this.#running.add(work)
    }
  }

  /** Whether any fault is still to come or at work. */
  get active(): boolean {
    return this.#running.size > 0
  }

  /** Waits until all faults are over, and repairs what does not recover on its own. */
  async end(): Promise<void> {
    await Promise.all(this.#running)
    for (const [cluster, node] of this.lost) await repair(this.#world, cluster, node)
    this.lost.clear()
  }

  async #strike(strike: Strike, { cluster, nodes, isDue, isOver }: Scene): Promise<void> {
    while (!isDue()) {
      if (isOver()) return
      await pause(POLL_MS)
    }
    await pause(strike.afterMs)
    const node = strike.node % nodes
    const other = strike.other % nodes
    const blow = { world: this.#world, strike, cluster, node, other }
    const end = await this.#hit(blow)
    if (end === undefined) return
    this.struck.set(strike.fault, (this.struck.get(strike.fault) ?? 0) + 1)
    await pause(strike.seconds * 1000)
    await end()
  }

  /** Answers how the fault ends; undefined when it could not happen. */
  async #hit(blow: Blow): Promise<Undo | undefined> {
    const { world, strike, cluster, node, other } = blow
    const { engines, store, bucket } = world
    const set = `vec-${cluster}`
    const nothing = () => undefined
    switch (strike.fault) {
      case 'node restarted':
        return signalled(blow, 'SIGTERM')
      case 'node killed':
        return signalled(blow, 'SIGKILL')
      case 'pod deleted':
        await world.client.delete(pod(`${set}-${node}`), {})
        return nothing
      case 'node frozen':
        engines?.node(set, node).signal('SIGSTOP')
        return () => engines?.node(set, node).signal('SIGCONT')
      case 'node frozen and replaced':
        return frozen(blow)
      case 'volume lost':
        return this.#loseVolume(blow)
      case 'link between nodes cut':
        if (node === other) return undefined
        engines?.between(set, node, other, { cut: true })
        return () => engines?.between(set, node, other)
      case 'node isolated':
        return isolated(blow)
      case 'link between nodes slow':
        if (node === other) return undefined
        engines?.between(set, node, other, { rate: SLOW_NODES })
        return () => engines?.between(set, node, other)
      case 'Job cut off from node':
        return away(blow, { cut: true })
      case 'Job slow to node':
        return away(blow, { rate: SLOW_JOB })
      case 'store slow':
        store.set('odd', { rate: SLOW_STORE })
        return () => store.set('odd')
      case 'store unreachable':
        for (const tag of STORE_TAGS) store.set(tag, { cut: true })
        return () => STORE_TAGS.forEach((tag) => store.set(tag))
      case 'store fails':
        bucket.misbehave(failing())
        return () => bucket.misbehave()
      case 'store refuses deletions':
        return refusesDeletions(world)
      case 'Job killed':
        return ofJobs(world, (name) => world.controllers.kubelet.kill(NAMESPACE, name))
      case 'Job drained':
        return ofJobs(world, (name) => world.client.delete(pod(name), {}))
      case 'service killed':
        await world.operator.stopService()
        return () => world.operator.startService()
      case 'helm run':
        return helmRun(blow)
      case 'rollout beside the Lease':
        await world.client.patch(
          { apiVersion: 'apps/v1', kind: 'StatefulSet', namespace: NAMESPACE, name: set },
          { spec: { template: { metadata: { annotations: { restarted: String(Date.now()) } } } } },
        )
        return nothing
      case 'replica falls behind':
        return fallsBehind(blow)
      case 'recoveries are slow':
        return slowRecoveries(blow)
      case 'collections are yellow':
        return unfinished(blow, 'yellow')
      case 'collections are grey':
        return unfinished(blow, 'grey')
    }
  }

  /** Only where every point is on another node too. */
  async #loseVolume({ world, cluster, node }: Blow): Promise<Undo | undefined> {
    const { engines } = world
    if (engines === undefined || this.lost.size > 0) return undefined
    const urls = () => world.urls(cluster)
    if (urls().length < 3) return undefined
    for (const collection of COLLECTIONS) {
      if ((await settle(urls, collection, STABLE_MS)) !== undefined) return undefined
    }
    this.lost.set(cluster, node)
    engines.node(`vec-${cluster}`, node).loseVolume()
    return () => undefined
  }
}

function signalled({ world, cluster, node }: Blow, signal: NodeJS.Signals): Undo {
  const { engines, controllers } = world
  const set = `vec-${cluster}`
  if (engines === undefined) controllers.kubelet.kill(NAMESPACE, `${set}-${node}`)
  else engines.node(set, node).signal(signal)
  return () => undefined
}

/** It never runs again: another pod continues with its volume. */
function frozen({ world, cluster, node }: Blow): Undo | undefined {
  const set = `vec-${cluster}`
  const engine = world.engines?.node(set, node)
  if (engine?.pid === undefined) return undefined
  engine.signal('SIGSTOP')
  return async () => {
    engine.signal('SIGKILL')
    await world.client.delete(pod(`${set}-${node}`), {})
  }
}

function isolated({ world: { engines }, cluster, node }: Blow): Undo {
  const set = `vec-${cluster}`
  const others = engines?.nodes(set).filter(({ ordinal }) => ordinal !== node) ?? []
  for (const { ordinal } of others) engines?.between(set, node, ordinal, { cut: true })
  return () => {
    for (const { ordinal } of others) engines?.between(set, node, ordinal)
  }
}

function away({ world, cluster, node }: Blow, condition: object): Undo {
  const { engines } = world
  const set = `vec-${cluster}`
  if (engines !== undefined) {
    engines.node(set, node).meetsJobs(condition)
    return () => engines.node(set, node).meetsJobs()
  }
  world.access(`${set}-${node}`)?.set('', condition)
  return () => world.access(`${set}-${node}`)?.set('')
}

/** What the nodes of a cluster of doubles agree on. */
function doubleOf({ world, cluster }: Blow): EngineCluster | undefined {
  return world.controllers.engines.cluster(NAMESPACE, `vec-${cluster}`)
}

/**
 * The replicas of a node are empty and it calls them Active; the other nodes call them Dead until it has
 * caught up.
 */
function fallsBehind(blow: Blow): Undo | undefined {
  const engine = doubleOf(blow)
  if (engine === undefined) return undefined
  const { id } = engine.peer(blow.node)
  const others = engine.peers().filter(({ ordinal }) => ordinal !== blow.node)
  const struck = [...engine.collections.values()].flatMap(({ shards }) =>
    shards.filter(({ peers }) => peers.length > 1 && peers.includes(id)),
  )
  for (const shard of struck) {
    shard.lost = { ...shard.lost, [blow.node]: Infinity }
    shard.reportedStates = Object.fromEntries(
      others.map(({ ordinal }) => [ordinal, { [id]: 'Dead' }]),
    )
  }
  return () => {
    for (const shard of struck) {
      delete shard.lost
      delete shard.reportedStates
    }
  }
}

/** Recoveries take long, also those whose client has disconnected. */
function slowRecoveries(blow: Blow): Undo | undefined {
  const engine = doubleOf(blow)
  if (engine === undefined) return undefined
  const over = Promise.withResolvers<undefined>()
  holdRecoveries(engine, () => over.promise)
  return () => {
    holdRecoveries(engine)
    over.resolve(undefined)
  }
}

/** All collections, and those that are created meanwhile. A grey one stays so until its next update. */
function unfinished(blow: Blow, status: Unfinished): Undo | undefined {
  const engine = doubleOf(blow)
  if (engine === undefined) return undefined
  engine.newStatus = status
  for (const collection of engine.collections.values()) collection.status = status
  return () => {
    engine.newStatus = undefined
    if (status === 'grey') return
    for (const collection of engine.collections.values()) delete collection.status
  }
}

/** Every third call is refused, in one way or another. */
function failing() {
  let calls = 0
  return () => {
    calls += 1
    switch (calls % 9) {
      case 0:
        return { status: 503, code: 'SlowDown' }
      case 3:
        return { status: 500, code: 'InternalError' }
      case 6:
        return { lost: true } as const
      default:
        return undefined
    }
  }
}

/** Of the keys of each deletion, some are deleted and some are refused. */
function refusesDeletions({ bucket }: HardWorld): Undo | undefined {
  const store = bucket.buckets.get(BUCKET)
  if (store === undefined) return undefined
  const codes = ['AccessDenied', undefined, 'InternalError', undefined]
  let keys = 0
  store.refuseDeletion = () => codes[keys++ % codes.length]
  return () => {
    store.refuseDeletion = undefined
  }
}

function ofJobs(world: HardWorld, strike: (pod: string) => unknown): Undo | undefined {
  const pods = world.jobPods()
  for (const name of pods) strike(name)
  return pods.length === 0 ? undefined : () => undefined
}

let memory = 33

/** A change of the spec that rolls the pods. */
async function helmRun({ world, cluster }: Blow): Promise<Undo> {
  memory += 1
  const name = { apiVersion: API_VERSION, kind: 'VecCluster', namespace: NAMESPACE, name: cluster }
  const requests = { cpu: '10m', memory: `${memory}Mi` }
  await world.client.patch(name, { spec: { resources: { requests } } })
  return () => undefined
}

function pod(name: string) {
  return { apiVersion: 'v1', kind: 'Pod', namespace: NAMESPACE, name }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
