/**
 * One round: a cluster that grows, shrinks, loses every volume once and is killed at random, under one writer
 * and one reader, and the verdict of the oracle on each node's own replicas.
 */
import { Dice } from '../faults/machine/dice.ts'
import { Ledger } from '../hard/ledger.ts'
import { compareAtRest, comparisons, summaryOf, type Replica } from '../hard/oracle.ts'
import { ask } from '../hard/ask.ts'
import { readReplicas, unsettled } from '../hard/replicas.ts'
import { COLLECTIONS, Traffic, type UnservedRead } from '../hard/traffic.ts'
import { ShardJobs, type Ended } from './job.ts'
import type { Plan, Stage, Strike } from './plan.ts'
import { isExcused } from './serving.ts'
import { Strikes } from './strikes.ts'
import { missingReplicas, replicasByPeer, Watch, type Mark, type Sample } from './watch.ts'
import { NodesWorld } from './world.ts'

export interface RoundOptions {
  bin: string
  octet: number
  /** Without the operator: the StatefulSet is scaled, volumes are lost, and nothing else is done. */
  isControl: boolean
}

export interface Result {
  findings: string[]
  /** The error of a known engine defect that ended the round: no stage after it was judged. */
  engineDefect?: string
  /** What was done and how it ended, in order. */
  log: string[]
  samples: readonly Sample[]
  marks: readonly Mark[]
  struck: ReadonlyMap<Strike, number>
  /** Points compared, each on each node. */
  compared: number
  /** Points whose replicas differ and whose last write failed: the client has to repeat it. */
  uncertain: number
  volumesLost: number
  /** Nodes that stopped applying consensus entries and were killed. */
  hung: number
  jobs: number
  processes: number
  reads: Traffic['reads']
  unserved: readonly UnservedRead[]
  /** Those of them that no node could serve. */
  excused: number
  writes: Traffic['writes']
}

const COPIES = 2
const FIRST_NODES = 3
/** A stage without faults takes about a minute. */
const WORK_MS = 900_000
/** What the chart alone gets: nothing changes afterwards. */
const CONTROL_MS = 30_000
const WHOLE_MS = 120_000
const START_MS = 60_000
const POLL_MS = 500
/** How long a read is repeated, also once the load is to rest. */
const READ_MS = 30_000
/** Each change goes through consensus, which a loaded machine slows down. */
const CHURN_MS = 6_000
const MAX_PRINTED = 6
/** Of the writes: these do not wait until they are applied. */
const QUEUED_PART = 0.3

export async function runRound(plan: Plan, options: RoundOptions): Promise<Result> {
  const { bin, octet, isControl } = options
  const world = await NodesWorld.start({ bin, octet, nodes: FIRST_NODES, hasGuard: !isControl })
  const round = new Round(world, plan, isControl)
  try {
    await round.run()
  } finally {
    await round.stop()
    if (process.env['NODES_KEEP'] !== '1' || round.result().findings.length === 0) {
      await world.close()
    } else {
      console.error(`kept: ${world.folder}`)
      await world.close({ keepsFolder: true })
    }
  }
  return round.result()
}

class Round {
  readonly #world: NodesWorld
  readonly #plan: Plan
  readonly #isControl: boolean
  readonly #ledger = new Ledger()
  readonly #traffic: Traffic
  readonly #watch: Watch
  readonly #jobs: ShardJobs
  readonly #strikes: Strikes
  readonly #findings: string[] = []
  readonly #log: string[] = []
  #engineDefect: string | undefined
  readonly #counts = { compared: 0, uncertain: 0, volumesLost: 0, jobs: 0, processes: 0 }

  constructor(world: NodesWorld, plan: Plan, isControl: boolean) {
    this.#world = world
    this.#plan = plan
    this.#isControl = isControl
    this.#traffic = new Traffic({
      ledger: this.#ledger,
      dice: new Dice(plan.seed + 1),
      urls: () => world.service(),
      replicas: COPIES,
      shards: plan.shards,
      retryMs: READ_MS,
      churnMs: CHURN_MS,
      queuedPart: QUEUED_PART,
    })
    this.#watch = new Watch(world)
    this.#jobs = new ShardJobs(world)
    const targets = { world, jobs: this.#jobs, watch: this.#watch }
    this.#strikes = new Strikes(targets, new Dice(plan.seed + 2), plan.strikeMs)
  }

  async run(): Promise<void> {
    const members = async () => (await this.#watch.peerIds()).size === FIRST_NODES
    if (!(await until(members, START_MS))) throw new Error('the first nodes do not start')
    this.#world.recordFormation(FIRST_NODES)
    await this.#traffic.fill(this.#plan.points)
    this.#traffic.start({ churns: true })
    await Promise.race([this.#stages(), this.#untilBroken()])
  }

  async #stages(): Promise<void> {
    for (const stage of this.#plan.stages) {
      if (this.#engineDefect !== undefined) return
      await this.#stage(stage)
    }
  }

  /** This cluster cannot be continued: what it has lost until then is still a finding. */
  async #untilBroken(): Promise<void> {
    this.#engineDefect = await this.#watch.broken
    this.#jobs.stop()
    this.#log.push(`ended by the engine: ${this.#engineDefect}`)
  }

  async stop(): Promise<void> {
    await Promise.all([this.#strikes.stop(), this.#traffic.stop()])
    await this.#watch.stop()
  }

  result(): Result {
    const { reads, writes, unserved } = this.#traffic
    // No node answers reads for long once an error has stopped the consensus of all of them.
    const end = this.#engineDefect === undefined ? Infinity : this.#watch.stoppedSince
    const unexcused = unserved.filter((read) => read.to < end && !isExcused(read, this.#watch.seen))
    const reading = unexcused
      .slice(0, MAX_PRINTED)
      .map(({ text }) => `a read never succeeded: ${text}`)
    return {
      findings: [...this.#findings, ...this.#watch.findings, ...reading],
      ...(this.#engineDefect !== undefined && { engineDefect: this.#engineDefect }),
      log: this.#log,
      samples: this.#watch.samples,
      marks: this.#watch.marks,
      struck: this.#strikes.struck,
      ...this.#counts,
      hung: this.#watch.hung,
      ...{ reads, writes, unserved, excused: unserved.length - unexcused.length },
    }
  }

  async #stage({ nodes, lost }: Stage): Promise<void> {
    const before = this.#world.replicas
    this.#watch.mark(nodes === 1 ? '1 node' : `${nodes} nodes`)
    await this.#world.setSpec(nodes)
    if (nodes > before || this.#isControl) await this.#world.scale(nodes)
    const what = `${before} -> ${nodes} nodes`
    await this.#work(what, nodes, [])
    this.#findings.push(...(await this.#zoneFindings(what)))
    this.#world.recordFormation(nodes)
    await this.#judge(`with ${nodes} nodes`)
    for (const victim of lost) {
      const leader = (await this.#watch.leader()) ?? 0
      const ordinal = victim === 'leader' ? leader : victim
      const peer = (await this.#watch.peerIds()).get(ordinal)
      this.#watch.mark(`volume ${ordinal} lost`)
      await this.#world.loseVolume(ordinal)
      this.#counts.volumesLost += 1
      const loss = `volume of node ${ordinal}${ordinal === leader ? ', the leader,' : ''} lost`
      await this.#work(loss, nodes, peer === undefined ? [] : [peer])
      await this.#judge(`after the loss of volume ${ordinal}`)
    }
  }

  /** The operator's work, or the time that the chart alone gets; then everything must be whole. */
  async #work(what: string, nodes: number, lost: number[]): Promise<void> {
    const started = Date.now()
    say(what)
    this.#strikes.start()
    const { zones } = this.#plan
    // As the hook decides: balance is due after the number of nodes has changed.
    const balance = lost.length === 0
    let ended: Ended | undefined
    if (this.#isControl) await pause(CONTROL_MS)
    else ended = await this.#jobs.until({ nodes, lost, zones, balance }, WORK_MS)
    await this.#strikes.stop()
    const why = await this.#incomplete(nodes)
    if (this.#engineDefect !== undefined) return
    const took = `${Math.round((Date.now() - started) / 1000)} s`
    this.#log.push(`${what}: ${took}${describe(ended)}; ${await this.#placement()}`)
    say(this.#log.at(-1) ?? '')
    if (ended !== undefined) {
      this.#counts.jobs += ended.jobs
      this.#counts.processes += ended.processes
      if (ended.state === undefined) {
        this.#findings.push(`${what}: no end in time: ${ended.reason} ${ended.message}`)
      }
    }
    if (why !== undefined) this.#findings.push(`${what}: ${why}`)
    say(`${this.#findings.length + this.#watch.findings.length} findings so far`)
  }

  /** Shards of the collection without shard keys whose replicas share a zone, while another one has a node. */
  async #zoneFindings(what: string): Promise<string[]> {
    const { zones } = this.#plan
    if (this.#engineDefect !== undefined || this.#isControl) return []
    const used = new Set(this.#world.ordinals().map((ordinal) => zones[String(ordinal)]))
    const [url] = this.#world.service()
    if (used.size < 2 || url === undefined) return []
    const ordinalOf = new Map([...(await this.#watch.peerIds())].map(([one, peer]) => [peer, one]))
    const zonesByShard = new Map<string, (string | undefined)[]>()
    for (const [peer, shards] of await replicasByPeer(url)) {
      const zone = zones[String(ordinalOf.get(peer))]
      for (const shard of shards.filter((name) => name.startsWith('plain/'))) {
        zonesByShard.set(shard, [...(zonesByShard.get(shard) ?? []), zone])
      }
    }
    return [...zonesByShard]
      .filter(([, all]) => all.length > 1 && new Set(all).size === 1)
      .map(([shard, [zone]]) => `${what}: all replicas of ${shard} are in zone ${zone}`)
  }

  /** Why the cluster is not as it should be; undefined once it is. */
  async #incomplete(nodes: number): Promise<string | undefined> {
    let why: string | undefined
    const isWhole = async () => {
      why = await this.#defect(nodes)
      return why === undefined
    }
    if (this.#engineDefect !== undefined) return undefined
    await until(isWhole, this.#isControl ? 0 : WHOLE_MS)
    return why
  }

  async #defect(nodes: number): Promise<string | undefined> {
    const world = this.#world
    const ordinals = world.ordinals()
    if (ordinals.length !== nodes) return `${ordinals.length} pods instead of ${nodes}`
    const unready = ordinals.filter((ordinal) => !world.isReady(ordinal))
    if (unready.length > 0) return `not ready: node ${unready.join(', ')}`
    const peers = await this.#watch.peerIds()
    for (const ordinal of ordinals) {
      const { url } = world.node(ordinal)
      const known = (await ask(url, 'GET', '/cluster')) as { peers: object }
      const ids = Object.keys(known.peers)
      const isSame =
        ids.length === peers.size && [...peers.values()].every((id) => ids.includes(String(id)))
      if (!isSame) return `node ${ordinal} lists ${ids.length} peers, ${peers.size} answer`
    }
    for (const collection of COLLECTIONS) {
      const view = await unsettled(world.urls(), collection)
      if (view !== undefined && view !== 'no collection') return `${collection}: ${view}`
    }
    const [url = ''] = world.urls()
    return (await missingReplicas(url, Math.min(COPIES, nodes)))[0]
  }

  async #placement(): Promise<string> {
    try {
      const peers = await this.#watch.peerIds()
      const [url = ''] = this.#world.service()
      const held = await replicasByPeer(url)
      const counts = [...peers].map(([, id]) => held.get(id)?.length ?? 0)
      return `replicas by node: ${counts.join(', ')}`
    } catch {
      return 'no node answers'
    }
  }

  /** Each node's own replicas against what was acknowledged. Traffic rests while the oracle reads. */
  async #judge(when: string): Promise<void> {
    if (this.#engineDefect !== undefined) return
    await this.#traffic.stop()
    const urls = this.#isControl ? this.#world.service() : this.#world.urls()
    for (const collection of COLLECTIONS) {
      try {
        await until(async () => (await unsettled(urls, collection)) === undefined, POLL_MS * 20)
        const replicas = await readReplicas(urls, collection)
        this.#counts.compared += comparisons(replicas)
        this.#locate(collection, replicas)
        const { found, uncertain } = compareAtRest(this.#ledger, collection, replicas)
        this.#counts.uncertain += uncertain
        this.#findings.push(...summaryOf(`${collection} ${when}`, found))
      } catch (error) {
        this.#findings.push(`${collection} ${when} cannot be read: ${String(error)}`)
      }
    }
    this.#traffic.start({ churns: true })
  }

  /** In which shards the points are that could not be read. A number of shards does not change in a round. */
  #locate(collection: string, replicas: readonly Replica[]): void {
    for (const read of this.#traffic.unserved) {
      if (read.collection !== collection || read.shard !== undefined) continue
      const holder = replicas.find(({ key, points }) => key === read.key && points.has(read.id))
      if (holder !== undefined) read.shard = holder.shard
    }
  }
}

function describe(ended: Ended | undefined): string {
  if (ended === undefined) return ''
  const { state, jobs, processes } = ended
  return `, ${state ?? 'no end'}, ${jobs} Jobs, ${processes} processes`
}

async function until(met: () => Promise<boolean>, ms: number): Promise<boolean> {
  const end = Date.now() + ms
  for (;;) {
    try {
      if (await met()) return true
    } catch {
      // A node that does not answer yet.
    }
    if (Date.now() > end) return false
    await pause(POLL_MS)
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

function say(line: string): void {
  if (process.env['NODES_VERBOSE'] === '1') {
    console.error(new Date().toISOString().slice(11, 23), line)
  }
}
