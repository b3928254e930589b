/** One seed: a cluster under load, a data job with faults, and the verdict of the oracle on the result. */
import { recordAt, valueAt } from '../world/api/json.ts'
import { Dice } from '../faults/machine/dice.ts'
import { askUntilAnswered, pathOf } from './ask.ts'
import { API_VERSION } from '../../crds/contract/names.ts'
import { Ledger, type PointName } from './ledger.ts'
import { comparisons, compare, textOf, type Replica } from './oracle.ts'
import type { Phase, Plan } from './plan.ts'
import { readReplicas, settle } from './replicas.ts'
import { backup, cluster, migration, restore, SOURCE, TARGET } from './resources.ts'
import { restartStopped } from './repair.ts'
import { Strikes } from './strikes.ts'
import { ALIAS, ALIAS_NAME, COLLECTIONS, KEYED, NAMED, PASSING, PLAIN, Traffic } from './traffic.ts'
import { BUCKET, NAMESPACE, type HardWorld } from './world.ts'

export interface Outcome {
  phase: Phase
  attempt: number
  ended: 'Completed' | 'Failed' | 'waits'
  message: string
}

export interface Result {
  findings: string[]
  outcomes: Outcome[]
  struck: ReadonlyMap<string, number>
  /** Points compared, each on each node. */
  compared: number
  /** Acknowledged points that the source itself has lost: no data job can bring them back. */
  lostByEngine: number
  /** Nodes on which the engine had stopped its consensus, with the error in their log. */
  stopped: string[]
  reads: Traffic['reads']
  writes: Traffic['writes']
}

/** Seconds of the world in which a data job ends once the faults are over. */
const BOUND_SECONDS = 1800
const BOOT_SECONDS = 600
/** Of the machine's time, where the world's is over. */
const REAL_MS = 180_000
const POLL_MS = 500
const SETTLE_MS = 60_000
const ATTEMPTS = 3
const MAX_PRINTED = 8
/** Points that a target has before a migration have ids from here on; the source has smaller ones. */
const FIRST_HELD_ID = 1_000_000_000

const KINDS = { backup: 'VecBackup', restore: 'VecRestore', migration: 'VecMigration' } as const

export async function travel(world: HardWorld, plan: Plan): Promise<Result> {
  const journey = new JourneyRun(world, plan)
  try {
    await journey.run()
  } finally {
    await journey.stop()
  }
  return journey.result()
}

/** When a data job worked, by the ledger. */
interface Span {
  name: string
  from: number
  to: number
}

class JourneyRun {
  readonly #world: HardWorld
  readonly #plan: Plan
  readonly #strikes: Strikes
  readonly #ledger = new Ledger()
  readonly #traffic: Traffic
  /** Points that the target of a migration has before it starts. */
  #held = new Ledger()
  #later: Traffic | undefined
  readonly #findings: string[] = []
  readonly #outcomes: Outcome[] = []
  #compared = 0
  /** Points that the source itself has lost, or of which its replicas differ at rest. */
  readonly #differing = new Set<string>()
  readonly #stopped: string[] = []

  constructor(world: HardWorld, plan: Plan) {
    this.#world = world
    this.#plan = plan
    this.#strikes = new Strikes(world, plan)
    this.#traffic = new Traffic({
      ledger: this.#ledger,
      dice: new Dice(plan.seed + 1),
      urls: () => this.#open(SOURCE),
      replicas: 2,
      shards: plan.nodes,
    })
  }

  async run(): Promise<void> {
    const { nodes, targetNodes, journey, into, points } = this.#plan
    const needsTarget = journey === 'migration' || into === 'other cluster'
    await this.#world.apply(cluster(SOURCE, nodes))
    if (needsTarget) await this.#world.apply(cluster(TARGET, targetNodes))
    await this.#running(SOURCE, nodes)
    if (needsTarget) await this.#running(TARGET, targetNodes)
    say('clusters are Running')
    await this.#traffic.fill(points)
    say('filled')
    this.#traffic.start({ churns: churnsDuring(this.#plan) })
    if (journey === 'migration') await this.#migrate()
    else await this.#backUpAndRestore()
  }

  async stop(): Promise<void> {
    await Promise.all([this.#traffic.stop(), this.#later?.stop()])
    await this.#strikes.end().catch(() => undefined)
  }

  result(): Result {
    const { struck } = this.#strikes
    const { reads, writes } = this.#traffic
    return {
      findings: this.#findings,
      outcomes: this.#outcomes,
      struck,
      compared: this.#compared,
      lostByEngine: this.#differing.size,
      stopped: this.#stopped,
      reads,
      writes,
    }
  }

  async #backUpAndRestore(): Promise<void> {
    const { journey, into, nodes, targetNodes } = this.#plan
    const method = journey === 'backup by node' ? 'Node' : 'Shard'
    const taken = await this.#untilCompleted('backup', nodes, (name) =>
      backup(name, this.#world.endpoint, method),
    )
    if (taken === undefined) return
    const backedUp = this.#collectionsOf(taken.name)
    await this.#lookAtSource(taken)
    const mapping = into === 'beside' ? renamed(backedUp) : {}
    const target = into === 'other cluster' ? TARGET : SOURCE
    if (into === 'over') await this.#makeSpace()
    await this.#traffic.only('busy')
    this.#traffic.start()
    const back = await this.#untilCompleted(
      'restore',
      target === SOURCE ? nodes : targetNodes,
      (name) => restore(name, { backup: taken.name, target, collections: backedUp, mapping }),
    )
    if (back === undefined) return
    // Elsewhere the alias still names what it named before, and is left there.
    if (into === 'other cluster') await this.#judgeAlias(taken)
    await this.#judge(taken, target, (name) => mapping[name] ?? name)
    await this.#purge(taken.name)
  }

  async #migrate(): Promise<void> {
    const collections = [PLAIN, KEYED]
    await this.#fillTarget()
    const copied = await this.#untilCompleted('migration', this.#plan.nodes, (name) =>
      migration(name, collections),
    )
    if (copied === undefined) return
    await this.#lookAtSource(copied)
    await this.#judge(copied, TARGET, (name) => name, collections)
  }

  /** Creates the collections at the target, with points of their own, if the plan asks for it. */
  async #fillTarget(): Promise<void> {
    const { seed, targetHolds } = this.#plan
    if (targetHolds === undefined) return
    this.#held = new Ledger()
    const traffic = new Traffic({
      ...{ ledger: this.#held, dice: new Dice(seed + 3), urls: () => this.#world.urls(TARGET) },
      ...{ replicas: 1, shards: 1, firstId: FIRST_HELD_ID },
    })
    await traffic.fill(targetHolds)
  }

  /** A disaster before a restore over what is there: one collection is gone, the other has moved on. */
  async #makeSpace(): Promise<void> {
    for (const collection of [KEYED, PASSING])
      await this.#traffic.drop(collection).catch(() => undefined)
  }

  /** Makes the resource until it is Completed; each attempt may fail with a cause as long as faults strike. */
  async #untilCompleted(
    phase: Phase,
    nodes: number,
    make: (name: string) => object,
  ): Promise<Span | undefined> {
    const struckCluster =
      phase === 'restore' && this.#plan.into === 'other cluster' ? TARGET : SOURCE
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      const name = `${phase}-${attempt}`
      const from = this.#ledger.now()
      say(`${name} begins`)
      await this.#world.apply(make(name))
      const isOver = () => this.#isOver(KINDS[phase], name)
      if (attempt === 1) this.#strikes.begin(phase, struckCluster, nodes, isOver)
      const calls = this.#world.calls()
      const outcome = await this.#ended(phase, name, attempt)
      const to = this.#ledger.now()
      this.#outcomes.push(outcome)
      say(`${name}: ${outcome.ended}: ${outcome.message}; ${this.#world.calls() - calls} calls`)
      if (outcome.ended === 'Completed') {
        await this.#faultsOver(nodes, struckCluster)
        return { name, from, to }
      }
      const { ended, message } = outcome
      if (!namesCause(message)) {
        this.#findings.push(`${name} is ${ended} and names no cause: "${message}"`)
      }
      if (ended === 'waits') break
      await this.#faultsOver(nodes, struckCluster)
      // Shard keys that come and go while a snapshot is taken are a fault too.
      this.#traffic.churn(false)
      await this.#restartStopped()
      if (phase === 'migration') await this.#prepareMigration(attempt, outcome)
      await this.#deleteAsAdvised(message, struckCluster)
      if (attempt > 1) await this.#waitUntilStable(struckCluster)
    }
    this.#findings.push(`no ${phase} completes after the faults have ended`)
    return undefined
  }

  async #ended(phase: Phase, name: string, attempt: number): Promise<Outcome> {
    const kind = KINDS[phase]
    const phaseNow = () => recordAt(this.#world.find(kind, name), 'status')['phase']
    const isOver = () => this.#isOver(kind, name)
    await this.#world.until(() => isOver() || !this.#strikes.active, BOUND_SECONDS)
    let message = this.#messageOf(kind, name)
    say(`${name} is ${String(phaseNow())} once the faults are over: ${message}`)
    if (!isOver()) {
      if (!namesCause(message)) message = this.#messageOf(kind, name)
      await this.#strikes.end()
      // Shard keys that come and go while a snapshot is taken are a fault too.
      this.#traffic.churn(false)
      await this.#restartStopped()
      if (phase === 'migration') await this.#traffic.stop()
      await this.#until(isOver, BOUND_SECONDS)
      message = this.#messageOf(kind, name)
    }
    const ended = String(phaseNow())
    return {
      phase,
      attempt,
      ended: ended === 'Completed' || ended === 'Failed' ? ended : 'waits',
      message,
    }
  }

  /**
   * A source that takes writes may never compare equal, so the next attempt copies one at rest. It begins
   * with a target as it was before the first attempt: points of that attempt would stay there.
   * Replicas of the source can still differ, after a write whose coordinator was killed: such points are
   * written again. An attempt at rest that names a difference without one of them is wrong.
   */
  async #prepareMigration(attempt: number, { message }: Outcome): Promise<void> {
    await this.#traffic.stop()
    const differing = await this.#alignSource()
    if (attempt > 1 && /(on|only) (the )?target/.test(message) && differing.length === 0) {
      this.#findings.push(
        `a difference is named, and the replicas of a source at rest are equal: ${message}`,
      )
    }
    const [url = ''] = this.#world.urls(TARGET)
    for (const collection of COLLECTIONS) await askUntilAnswered(url, 'DELETE', pathOf(collection))
    await this.#fillTarget()
  }

  /** Writes points of the source again whose replicas differ, and returns them. */
  async #alignSource(): Promise<PointName[]> {
    const all: PointName[] = []
    for (const collection of [PLAIN, KEYED]) {
      await settle(() => this.#world.urls(SOURCE), collection, SETTLE_MS)
      const replicas = await readReplicas(this.#world.urls(SOURCE), collection)
      const now = this.#ledger.now()
      const found = compare({ ledger: this.#ledger, collection, from: now, to: now }, replicas)
      for (const { kind, id, key } of found) {
        if (kind !== 'replicas differ') continue
        this.#differing.add(nameOf(collection, id, key))
        all.push({ collection, id, ...(key !== undefined && { key }) })
      }
    }
    say(`${all.length} points differ between replicas of the source`)
    await this.#traffic.rewrite(all)
    return all
  }

  /** As the condition of the VecCluster advises; no data job completes before that. */
  async #restartStopped(): Promise<void> {
    for (const cluster of [SOURCE, TARGET]) {
      this.#stopped.push(...(await restartStopped(this.#world, cluster)))
    }
  }

  /** What a restore that cannot go on asks the user for. */
  async #deleteAsAdvised(message: string, name: string): Promise<void> {
    const [url = ''] = this.#world.urls(name)
    for (const [, collection = ''] of message.matchAll(/(\S+): [^;()]*: delete the collection/g)) {
      await askUntilAnswered(url, 'DELETE', pathOf(collection.replace('(', '')))
    }
  }

  #isOver(kind: string, name: string): boolean {
    const phase = recordAt(this.#world.find(kind, name), 'status')['phase']
    return phase === 'Completed' || phase === 'Failed'
  }

  #messageOf(kind: string, name: string): string {
    const object = this.#world.find(kind, name)
    const conditions = (valueAt(object, 'status.conditions') ?? []) as {
      type: string
      reason?: string
      message?: string
    }[]
    const complete = conditions.find(({ type }) => type === 'Complete')
    const error = valueAt(object, 'status.error')
    const said = `${complete?.reason ?? ''}: ${complete?.message ?? ''}`
    return typeof error === 'string' ? `${said} (${error})` : said
  }

  #collectionsOf(backupName: string): string[] {
    const found = valueAt(this.#world.find('VecBackup', backupName), 'status.collections')
    return ((found ?? []) as { name: string }[]).map(({ name }) => name)
  }

  /**
   * What every node has of each collection, against what was acknowledged before the data job began; then
   * again after clients have written for a while: what was acknowledged to them must stay.
   */
  async #judge(
    { from, to }: Span,
    target: string,
    targetName: (collection: string) => string,
    collections: readonly string[] = COLLECTIONS,
  ): Promise<void> {
    const later = new Ledger()
    const traffic = new Traffic({
      ledger: later,
      dice: new Dice(this.#plan.seed + 2),
      urls: () => this.#open(target),
      replicas: 1,
      shards: 1,
    })
    this.#later = traffic
    const names: string[] = []
    for (const collection of collections) {
      const name = targetName(collection)
      const why = await settle(() => this.#world.urls(target), name, SETTLE_MS)
      if (why !== undefined && why !== 'no collection') {
        this.#findings.push(`${name} does not settle: ${why}`)
      }
      const replicas = await readReplicas(this.#world.urls(target), name)
      this.#compared += comparisons(replicas)
      const found = compare(
        { ledger: this.#ledger, collection, from, to },
        pointsWhere(replicas, (id) => id < FIRST_HELD_ID),
      ).filter(({ id, key }) => !this.#differing.has(nameOf(collection, id, key)))
      this.#report(`${name} after ${this.#plan.journey}`, found.map(textOf))
      const now = this.#held.now()
      const changed = compare(
        { ledger: this.#held, collection, from: now, to: now },
        pointsWhere(replicas, (id) => id >= FIRST_HELD_ID),
      )
      this.#report(`points that ${name} had before the ${this.#plan.journey}`, changed.map(textOf))
      if (replicas.length === 0) continue
      names.push(name)
      const points = new Map(
        replicas.flatMap(({ key, points: held }) =>
          [...held.values()].map((point) => [`${key ?? ''}/${point.id}`, [point, key]] as const),
        ),
      )
      traffic.adopt(name, points.values())
    }
    traffic.start()
    await pause(this.#plan.afterwardsMs)
    await traffic.stop()
    for (const name of names) {
      await settle(() => this.#world.urls(target), name, SETTLE_MS)
      const replicas = await readReplicas(this.#world.urls(target), name)
      this.#compared += comparisons(replicas)
      const now = later.now()
      const found = compare({ ledger: later, collection: name, from: now, to: now }, replicas)
      this.#report(`${name} after later writes`, found.map(textOf))
    }
  }

  /**
   * Deletes the backup while the store refuses to delete one of its objects: the resource stays and names
   * the object until the store deletes it, and then nothing of the backup is left.
   */
  async #purge(name: string): Promise<void> {
    const store = this.#world.bucket.buckets.get(BUCKET)
    const prefix = `${name}/`
    const keys = () => store?.keys(prefix) ?? []
    const [refused] = keys().filter((key) => !key.endsWith('owner.json'))
    if (store === undefined || refused === undefined) {
      this.#findings.push(`${name} has no object in the store: ${keys().join(', ')}`)
      return
    }
    store.undeletable.set(refused, 'AccessDenied')
    await this.#world.client.delete(
      { apiVersion: API_VERSION, kind: KINDS.backup, namespace: NAMESPACE, name },
      {},
    )
    const isGone = () => this.#world.find(KINDS.backup, name) === undefined
    const isRefused = () =>
      JSON.stringify(this.#world.find(KINDS.backup, name)?.['status'] ?? {}).includes('PurgeFailed')
    await this.#until(() => isGone() || isRefused(), BOUND_SECONDS)
    if (isGone())
      this.#findings.push(`${name} is gone while the store refuses to delete ${refused}`)
    else if (!isRefused()) this.#findings.push(`${name} does not say that its purge failed`)
    store.undeletable.clear()
    if (!(await this.#until(isGone, BOUND_SECONDS))) {
      this.#findings.push(`${name} is not gone although the store deletes its objects`)
    }
    if (keys().length > 0) this.#findings.push(`${name} left objects: ${keys().join(', ')}`)
  }

  /** On every node of a cluster that had none, the alias names what it named while the backup was made. */
  async #judgeAlias({ from, to }: Span): Promise<void> {
    const allowed = [...this.#ledger.allowed(ALIAS_NAME, from, to)].map((at) => NAMED[at ?? -1])
    for (const [node, url] of this.#world.urls(TARGET).entries()) {
      const { aliases } = (await askUntilAnswered(url, 'GET', '/aliases')) as {
        aliases: { alias_name: string; collection_name: string }[]
      }
      const found = aliases.find(({ alias_name }) => alias_name === ALIAS)?.collection_name
      if (allowed.some((name) => name === found)) continue
      const expected = allowed.map(String).join(' or ')
      this.#findings.push(
        `alias ${ALIAS} names ${found ?? 'nothing'} on node ${node}, not ${expected}`,
      )
    }
  }

  /** What the engine itself has lost is noted: no data job can bring it. */
  async #lookAtSource({ from }: Span): Promise<void> {
    await this.#traffic.stop()
    for (const collection of COLLECTIONS) {
      await settle(() => this.#world.urls(SOURCE), collection, SETTLE_MS)
      const replicas = await readReplicas(this.#world.urls(SOURCE), collection)
      this.#compared += comparisons(replicas)
      const found = compare({ ledger: this.#ledger, collection, from, to: Infinity }, replicas)
      for (const { id, key } of found) this.#differing.add(nameOf(collection, id, key))
      if (found.length > 0)
        say(`source ${collection}: ${found.slice(0, MAX_PRINTED).map(textOf).join('\n')}`)
    }
  }

  #report(what: string, found: readonly string[]): void {
    if (found.length === 0) return
    this.#findings.push(`${what}: ${found.length} findings`)
    this.#findings.push(...found.slice(0, MAX_PRINTED).map((line) => `  ${line}`))
  }

  /** Nodes of a cluster that clients may use: one without its volume may have started a cluster of its own. */
  #open(name: string): string[] {
    const lost = this.#strikes.lost.get(name)
    return this.#world.urls(name).filter((_, ordinal) => ordinal !== lost)
  }

  async #waitUntilStable(name: string): Promise<void> {
    for (const collection of COLLECTIONS) {
      await settle(() => this.#world.urls(name), collection, SETTLE_MS)
    }
  }

  /** The clock of the world jumps where everything waits, and engines need time of the machine too. */
  async #until(met: () => boolean, seconds: number): Promise<boolean> {
    const end = Date.now() + REAL_MS
    for (;;) {
      if (await this.#world.until(met, seconds)) return true
      if (Date.now() > end) return false
      await pause(POLL_MS)
    }
  }

  /** Also a rollout that a fault began has ended: the oracle reads nodes that stay. */
  async #faultsOver(nodes: number, name: string): Promise<void> {
    await this.#strikes.end()
    // A node that starts takes minutes to catch up while shard keys come and go.
    const churned = this.#traffic.churn(false)
    const statefulSet = () => recordAt(this.#world.statefulSet(`vec-${name}`), 'status')
    const isRolledOut = () => {
      const { readyReplicas, updatedReplicas, currentRevision, updateRevision } = statefulSet()
      const isNewest = updatedReplicas === nodes || currentRevision === updateRevision
      return readyReplicas === nodes && isNewest
    }
    const end = Date.now() + REAL_MS
    while (Date.now() < end) {
      await this.#until(isRolledOut, BOUND_SECONDS)
      // The status of the StatefulSet may be of before a pod was deleted.
      if (isRolledOut() && (await areReady(this.#world.urls(name)))) {
        this.#traffic.churn(churned)
        return
      }
      await this.#world.until(() => false, 1)
      await pause(POLL_MS)
    }
    throw new Error(`${name} is not rolled out: ${JSON.stringify(statefulSet())}`)
  }

  async #running(name: string, nodes: number): Promise<void> {
    const isRunning = () =>
      recordAt(this.#world.find('VecCluster', name), 'status')['phase'] === 'Running'
    if (!(await this.#until(isRunning, BOOT_SECONDS))) {
      const status = JSON.stringify(recordAt(this.#world.find('VecCluster', name), 'status'))
      throw new Error(`cluster ${name} of ${nodes} is not Running: ${status}`)
    }
  }
}

async function areReady(urls: readonly string[]): Promise<boolean> {
  const answers = await Promise.all(
    urls.map((url) =>
      fetch(`${url}/readyz`).then(
        ({ ok }) => ok,
        () => false,
      ),
    ),
  )
  return answers.every(Boolean)
}

/**
 * Not in a run that loses a volume: a shard key that is created at that moment may have its only Active
 * replica on the lost node, and a repair of the cluster has to delete it.
 */
function churnsDuring({ calm = false, strikes }: Plan): boolean {
  return !calm && !strikes.some(({ fault }) => fault === 'volume lost')
}

/** The replicas with these points only. */
function pointsWhere(replicas: readonly Replica[], isIncluded: (id: number) => boolean): Replica[] {
  return replicas.map((replica) => ({
    ...replica,
    points: new Map([...replica.points].filter(([id]) => isIncluded(id))),
  }))
}

function nameOf(collection: string, id: number, key: string | undefined): string {
  return JSON.stringify([collection, key ?? null, id])
}

function renamed(collections: readonly string[]): Record<string, string> {
  return Object.fromEntries(collections.map((name) => [name, `${name}-again`]))
}

/** A message helps only if it names the part at fault. */
export function namesCause(message: string): boolean {
  const [, said = ''] = /^[^:]*: (.*)$/s.exec(message) ?? []
  const part =
    /node|shard|collection|cluster|store|bucket|s3|pod|job|peer|alias|engine|point|lease/i
  return said.trim().length > 15 && part.test(said)
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** Progress output for a user who watches a run. */
function say(line: string): void {
  if (process.env['HARD_VERBOSE'] === '1')
    console.error(new Date().toISOString().slice(11, 23), line)
}
