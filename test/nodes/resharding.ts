/**
 * `npm run test:nodes:resharding -- --rounds N [--seed S] [--minutes M] [--points P] [--kills stages|random|none]`:
 * one or two collections on real engines get 2 -> 6 -> 3 shards from `cluster shards`, under one writer and one reader,
 * and in some rounds a node is removed meanwhile. By default each change is disturbed once, so that six or seven rounds
 * kill the leader, a source, the target and the Job in every step, and let a user call the engine in it. Afterwards each
 * acknowledged point is in exactly one shard, and the replicas of each shard are equal, whole points on every node; no
 * point of another shard is left on any of them.
 */
import { randomInt } from 'node:crypto'
import { inspect, parseArgs } from 'node:util'
import { Dice } from '../faults/machine/dice.ts'
import { ask, pathOf } from '../hard/ask.ts'
import { Ledger } from '../hard/ledger.ts'
import { compareAtRest, comparisons, summaryOf } from '../hard/oracle.ts'
import { readReplicas, unsettled } from '../hard/replicas.ts'
import { engineBin } from '../hard/seed.ts'
import { quantile } from '../hard/quantile.ts'
import { KEYED, PASSING, PLAIN, Traffic } from '../hard/traffic.ts'
import { ShardJobs } from './job.ts'
import { isExcused } from './serving.ts'
import { kindOf, pairs, StageStrikes, type Pair } from './stage-strikes.ts'
import { Strikes } from './strikes.ts'
import { missingReplicas, Watch } from './watch.ts'
import { NodesWorld } from './world.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '1' },
    /** The first seed; default: a random one. */
    seed: { type: 'string' },
    /** No further round is started after this time. */
    minutes: { type: 'string' },
    /** Points of each collection that changes, before anything starts; default: drawn. */
    points: { type: 'string' },
    /** One in each change, at a chosen step; or at any moment; or none. */
    kills: { type: 'string', default: 'stages' },
  },
})

const FIRST_SHARDS = 2
/** Of all collections together. */
const FIRST_POINTS = 400
const STAGES = [6, 3]
const WORK_MS = 600_000
const START_MS = 60_000
const WHOLE_MS = 120_000
const READ_MS = 30_000
/** Reads before the first change, for comparison. */
const REST_MS = 10_000
const MAX_PRINTED = 6
/** Of the writes: their client does not wait until they are applied. */
const QUEUED_PART = 0.3

/** Compared whole after each change: with the keyed one, which only takes writes. */
const COMPARED = [PLAIN, PASSING, KEYED]

interface Plan {
  seed: number
  nodes: number
  factor: number
  /** Of each collection whose number of shards changes, before anything starts. */
  points: number
  churns: boolean
  strikeMs: number
  /** Collections whose number of shards changes; the others only take writes. */
  changed: string[]
  /** A node is removed while the number of shards is lowered. */
  removesNode: boolean
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))
const print = (line: string) => process.stdout.write(`${line}\n`)
const bin = engineBin()
if (bin === undefined) {
  print('no engine: ENGINE_BIN names none, and none is in the cache')
  process.exit(2)
}
const until = Date.now() + Number(values.minutes ?? 'Infinity') * 60_000
const first = Number(values.seed ?? randomInt(1, 2 ** 31))
const octet = randomInt(20, 220)
/** What is left to be killed, by step: all rounds share it. */
const left = pairs(new Dice(first))
const struckPairs: Pair[] = []
const failed: number[] = []
let rounds = 0
print(`engine: ${bin}; seeds from ${first}`)
for (let index = 0; index < Number(values.rounds) && Date.now() < until; index += 1) {
  const plan = draw(first + index)
  rounds += 1
  try {
    const findings = await runRound(plan)
    for (const finding of findings) print(`  ! ${finding}`)
    if (findings.length > 0) failed.push(plan.seed)
  } catch (error) {
    print(`seed ${plan.seed}: the round itself failed: ${inspect(error)}`)
    failed.push(plan.seed)
  }
}
print(
  `${rounds} rounds, ${failed.length} failed${failed.map((seed) => ` --seed ${seed}`).join('')}`,
)
if (values.kills === 'stages') {
  const text = struckPairs.map(({ step, victim }) => `${step}/${victim}`).join(', ')
  print(`struck at ${struckPairs.length} of ${struckPairs.length + left.length} steps: ${text}`)
}
process.exit(rounds > 0 && failed.length === 0 ? 0 : 1)

function draw(seed: number): Plan {
  const dice = new Dice(seed)
  const nodes = dice.between(3, 5)
  const removesNode = dice.next() < 0.5
  return {
    ...{ seed, nodes, removesNode },
    // More replicas than nodes are refused.
    factor: dice.between(1, Math.min(3, removesNode ? nodes - 1 : nodes)),
    points: Number(values.points ?? dice.between(500, 2_000)),
    strikeMs: dice.between(3_000, 15_000),
    ...drawCollections(dice),
  }
}

/** Where shard keys, the alias and a collection come and go, that collection keeps its number of shards. */
function drawCollections(dice: Dice): Pick<Plan, 'changed' | 'churns'> {
  const churns = dice.next() < 0.5
  return { churns, changed: churns || dice.next() < 0.5 ? [PLAIN] : [PLAIN, PASSING] }
}

async function runRound(plan: Plan): Promise<string[]> {
  const world = await NodesWorld.start({ bin: bin ?? '', octet, nodes: plan.nodes, hasGuard: true })
  const watch = new Watch(world)
  const ledger = new Ledger()
  const traffic = new Traffic({
    ledger,
    dice: new Dice(plan.seed + 1),
    urls: () => world.service(),
    replicas: plan.factor,
    shards: FIRST_SHARDS,
    retryMs: READ_MS,
    queuedPart: QUEUED_PART,
  })
  const jobs = new ShardJobs(world)
  const strikes = new Strikes({ world, jobs, watch }, new Dice(plan.seed + 2), plan.strikeMs)
  const aimed =
    values.kills === 'stages'
      ? new StageStrikes(
          { world, jobs, watch },
          { dice: new Dice(plan.seed + 3), left, collection: PLAIN },
        )
      : undefined
  const findings: string[] = []
  const begun = Date.now()
  let compared = 0
  let processes = 0
  let excused = 0
  const lines: string[] = []
  try {
    const isFormed = async () => (await watch.peerIds()).size === plan.nodes
    if (!(await met(isFormed, START_MS))) throw new Error('the nodes do not start')
    world.recordFormation(plan.nodes)
    await traffic.fill(FIRST_POINTS)
    for (const collection of plan.changed) await traffic.fillUp(collection, plan.points)
    traffic.start({ churns: plan.churns })
    await new Promise((resolve) => setTimeout(resolve, REST_MS))
    const atRest = taken(traffic)
    let nodes = plan.nodes
    for (const shards of STAGES) {
      const started = Date.now()
      if (values.kills === 'random') strikes.start()
      const numbers = plan.changed.map((collection) => ({ collection, shards }))
      const base = { lost: [], zones: {}, balance: true }
      const work = { ...base, nodes, resharding: { numbers, mayStart: true } }
      if (plan.removesNode && shards === STAGES.at(-1)) {
        nodes -= 1
        const drain = { ...base, nodes, resharding: { numbers, mayStart: false } }
        const removal = { hasBegun: false }
        onceCopying(jobs, async () => {
          removal.hasBegun = true
          await world.setSpec(drain.nodes)
          jobs.replace(drain)
        })
        const drained = await jobs.until(work, WORK_MS)
        processes += drained.processes
        if (!removal.hasBegun) findings.push('no node was removed while points were copied')
        lines.push(
          `-> ${nodes} nodes meanwhile: ${drained.state ?? 'no end'} ${drained.reason} ${drained.message}`,
        )
      }
      const ended = await jobs.until({ ...work, nodes }, WORK_MS)
      await strikes.stop()
      await aimed?.untilReady()
      processes += ended.processes
      lines.push(
        `-> ${shards} shards: ${Math.round((Date.now() - started) / 1000)} s, ${ended.state ?? 'no end'} ${ended.reason} ${ended.message}, ${ended.processes} processes; ${latencies(atRest, taken(traffic))}`,
      )
      if (ended.state !== 'Done') findings.push(`no end in time: ${ended.reason} ${ended.message}`)
      await traffic.stop()
      let why: string | undefined = 'not looked at'
      const isWhole = async () => {
        why = await defect(world, { ...plan, nodes }, shards)
        return why === undefined
      }
      if (!(await met(isWhole, WHOLE_MS))) findings.push(`with ${shards} shards: ${why}`)
      for (const collection of COMPARED) {
        const replicas = await readReplicas(world.urls(), collection)
        compared += comparisons(replicas)
        const { found } = compareAtRest(ledger, collection, replicas)
        findings.push(...summaryOf(`${collection} with ${shards} shards`, found))
      }
      // A loaded node answers 408.
      let others: string[] = ['the points of other shards could not be counted']
      const isCounted = async () => {
        others = await strays(world, plan.changed, shards)
        return true
      }
      await met(isCounted, WHOLE_MS)
      findings.push(...others)
      traffic.start({ churns: plan.churns })
    }
  } finally {
    await Promise.all([strikes.stop(), traffic.stop()])
    await watch.stop()
    struckPairs.push(...(aimed?.struck ?? []))
    findings.push(
      ...watch.findings.filter((finding) => plan.factor > 1 || !/no Active/.test(finding)),
    )
    const unserved = traffic.unserved.filter((read) => !isExcused(read, watch.seen))
    excused = traffic.unserved.length - unserved.length
    findings.push(...unserved.slice(0, MAX_PRINTED).map(({ text }) => `never read: ${text}`))
    const keepsFolder = findings.length > 0 && process.env['NODES_KEEP'] === '1'
    if (keepsFolder) print(`kept: ${world.folder}`)
    await world.close({ keepsFolder })
  }
  const { reads, writes, queued, failedTwice } = traffic
  print(
    `seed ${plan.seed}: ${findings.length === 0 ? 'ok' : 'FAILED'}, ${Math.round((Date.now() - begun) / 1000)} s, ${plan.nodes} nodes${plan.removesNode ? ' (one removed)' : ''}, factor ${plan.factor}, ${plan.changed.length} collections of ${plan.points} points${plan.churns ? ', and others that come and go' : ''}, ${compared} points compared, ${writes.good}/${writes.failed} writes (${queued.confirmed} of ${queued.written} queued ones confirmed), ${reads.good}/${reads.failed}/${reads.wrong} reads, ${failedTwice.reads} not with one retry either, ${traffic.unserved.length} never served (${excused} of them while no node could), ${processes} processes, hung ${watch.hung}; ${[...strikes.struck].map(([what, times]) => `${times} ${what}`).join(', ')}${(aimed?.struck ?? []).map(({ step, victim }) => `${victim} in ${step}`).join(', ')}`,
  )
  for (const line of lines) print(`  ${line}`)
  return findings
}

/** Why the collection is not as it should be; undefined once it is. */
async function defect(
  world: NodesWorld,
  { factor, changed, nodes }: Plan,
  shards: number,
): Promise<string | undefined> {
  if (world.ordinals().length !== nodes) return `${world.ordinals().length} nodes`
  const unready = world.ordinals().filter((ordinal) => !world.isReady(ordinal))
  if (unready.length > 0) return `not ready: node ${unready.join(', ')}`
  for (const collection of COMPARED) {
    const view = await unsettled(world.urls(), collection)
    if (view !== undefined) return `${collection}: ${view}`
  }
  for (const node of world.urls()) {
    for (const collection of changed) {
      const { resharding_operations: left = [] } = (await ask(
        ...([node, 'GET', `${pathOf(collection)}/cluster`] as const),
      )) as { resharding_operations?: unknown[] | null }
      if (left !== null && left.length > 0) return `${collection} is still resharded at ${node}`
    }
  }
  const [url = ''] = world.urls()
  for (const collection of changed) {
    const info = (await ask(url, 'GET', pathOf(collection))) as {
      config: { params: { shard_number: number } }
    }
    const { shard_number: number } = info.config.params
    if (number !== shards) return `${collection} has ${number} shards instead of ${shards}`
  }
  const missing = await missingReplicas(url, factor)
  return missing.find((text) => changed.some((collection) => text.startsWith(collection)))
}

/** By the engine's own hash ring: points of a replica that belong to other shards. */
async function strays(
  world: NodesWorld,
  collections: readonly string[],
  shards: number,
): Promise<string[]> {
  const found: string[] = []
  const pairsOf = world.urls().flatMap((url) => collections.map((name) => ({ url, name })))
  for (const { url, name } of pairsOf) {
    const view = (await ask(url, 'GET', `${pathOf(name)}/cluster`)) as {
      local_shards: { shard_id: number }[]
    }
    for (const { shard_id: shard } of view.local_shards) {
      for (let other = 0; other < shards; other += 1) {
        if (other === shard) continue
        const path = `${pathOf(name)}/shards/${shard}/points/count`
        const body = { exact: true, hash_ring_filter: { expected_shard_id: other } }
        const { count } = (await ask(url, 'POST', path, body)) as { count: number }
        if (count > 0) found.push(`${count} points of shard ${other} in ${name}/${shard} at ${url}`)
      }
    }
  }
  return found
}

/** What was measured since the last call. */
function taken(traffic: Traffic): number[] {
  return traffic.latencies.splice(0)
}

/** Ratios to the reads before the first change, of the same run. */
function latencies(atRest: readonly number[], during: readonly number[]): string {
  const ratio = (part: number) =>
    (quantile(during, part) / Math.max(quantile(atRest, part), 0.1)).toFixed(1)
  return `reads take ${ratio(0.5)} (p50) and ${ratio(0.99)} (p99) times what they took before (${atRest.length}, ${during.length} reads)`
}

/** Calls it once, when points begin to be copied. */
function onceCopying(jobs: ShardJobs, act: () => Promise<void>): void {
  const earlier = jobs.onStep
  jobs.onStep = (line) => {
    earlier(line)
    if (kindOf(line) !== 'stream') return
    jobs.onStep = earlier
    void act()
  }
}

async function met(isMet: () => Promise<boolean>, ms: number): Promise<boolean> {
  const end = Date.now() + ms
  for (;;) {
    try {
      if (await isMet()) return true
    } catch {
      // A node that does not answer yet.
    }
    if (Date.now() > end) return false
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
}
