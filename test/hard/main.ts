/**
 * `npm run test:hard -- --seeds N [--seed S] [--nodes 3|5] [--minutes M] [--at-once K]`: data jobs of the real engine
 * under faults that a seed draws. New seeds each run unless one is given; regressions run first.
 */
import { randomInt } from 'node:crypto'
import { inspect, parseArgs } from 'node:util'
import type { Outcome, Result } from './journey.ts'
import { draw, NEEDS_DOUBLES, type Plan } from './plan.ts'
import { REGRESSIONS } from './regressions.ts'
import { engineBin, runSeed } from './seed.ts'
import { recordRun } from '../proof/record.ts'

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '10' },
    /** The first seed; default: a random one. */
    seed: { type: 'string' },
    nodes: { type: 'string' },
    /** No further seed is started after this time. */
    minutes: { type: 'string' },
    /** Concurrent seeds; much of a run is waiting. */
    'at-once': { type: 'string', default: '1' },
    /** Against engine doubles, in short. */
    doubles: { type: 'boolean', default: false },
    /** A plan as JSON, instead of one drawn from a seed. */
    plan: { type: 'string' },
    'no-regressions': { type: 'boolean', default: false },
  },
})

recordRun('hard')
// Engines are ended when this process exits, also by a signal.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))
const print = (line: string) => process.stdout.write(`${line}\n`)
const bin = values.doubles ? undefined : engineBin()
if (bin === undefined && !values.doubles) {
  print('no engine: ENGINE_BIN names none, and none is in the cache (--doubles runs without one)')
  process.exit(2)
}
if (values.nodes !== undefined && !['3', '5'].includes(values.nodes)) {
  print(`--nodes ${values.nodes}: must be 3 or 5`)
  process.exit(2)
}
const nodes = values.nodes === undefined ? {} : ({ nodes: values.nodes === '5' ? 5 : 3 } as const)
const started = Date.now()
const until = started + Number(values.minutes ?? 'Infinity') * 60_000
const first = Number(values.seed ?? randomInt(1, 2 ** 31))
const drawn = Array.from({ length: Number(values.seeds) }, (_, index) =>
  draw(first + index, { ...nodes, short: values.doubles }),
)
const given = values.plan === undefined ? undefined : (JSON.parse(values.plan) as Plan)
const regressions = values['no-regressions'] || values.seed !== undefined ? [] : playable()
const plans = given === undefined ? [...regressions.map(({ plan }) => plan), ...drawn] : [given]
print(`engine: ${bin ?? 'doubles'}; seeds from ${first}; ${regressions.length} regressions first`)

const total = { seeds: 0, failed: 0, compared: 0, lostByEngine: 0, stopped: 0 }
const struck = new Map<string, number>()
const ended = new Map<string, number>()
const failing: Plan[] = []
const octet = randomInt(20, 220)
const waiting = plans.values()
await Promise.all(
  Array.from({ length: Number(values['at-once']) }, async (_, index) => {
    for (const plan of waiting) {
      if (Date.now() > until) break
      await runOne(plan, octet + index)
    }
  }),
)
summary()
process.exit(total.failed === 0 ? 0 : 1)

/** Regressions whose faults can be set: some only in engine doubles. */
function playable() {
  return REGRESSIONS.filter(
    ({ plan }) =>
      values.doubles || plan.strikes.every(({ fault }) => !NEEDS_DOUBLES.includes(fault)),
  )
}

/** Concurrent runs have different addresses. */
async function runOne(plan: Plan, ownOctet: number): Promise<void> {
  const begun = Date.now()
  total.seeds += 1
  try {
    const result = await runSeed(plan, { ...(bin !== undefined && { bin }), octet: ownOctet })
    count(result)
    printResult(plan, result, seconds(begun))
    if (result.findings.length === 0) return
  } catch (error) {
    print(`seed ${plan.seed}: the run itself failed: ${inspect(error)}`)
  }
  total.failed += 1
  failing.push(plan)
  print(`  --plan '${JSON.stringify(plan)}'`)
}

function count({ compared, lostByEngine, stopped, struck: hit, outcomes }: Result): void {
  total.compared += compared
  total.lostByEngine += lostByEngine
  total.stopped += stopped.length
  for (const [fault, times] of hit) struck.set(fault, (struck.get(fault) ?? 0) + times)
  for (const { phase, ended: how } of outcomes) {
    ended.set(`${phase} ${how}`, (ended.get(`${phase} ${how}`) ?? 0) + 1)
  }
}

function printResult(plan: Plan, result: Result, took: number): void {
  const { seed, nodes: size, journey, into, strikes } = plan
  const { findings, outcomes, compared, lostByEngine, stopped, reads, writes } = result
  const way = journey === 'migration' ? journey : `${journey}, restored ${into}`
  print(
    `seed ${seed}: ${findings.length === 0 ? 'ok' : 'FAILED'}, ${size} nodes, ${way}, ${took} s, ` +
      `${compared} points compared, ${writes.good}/${writes.failed} writes, ` +
      `${reads.good}/${reads.failed}/${reads.wrong} reads` +
      (lostByEngine > 0 ? `, ${lostByEngine} differ in the source itself` : ''),
  )
  print(
    `  ${strikes.map(({ fault, during, afterCalls }) => `${fault} (${during} +${afterCalls} calls)`).join('; ')}`,
  )
  for (const outcome of outcomes) print(`  ${lineOf(outcome)}`)
  for (const node of stopped) print(`  consensus stopped by the engine: ${node}`)
  for (const finding of findings) print(`  ! ${finding}`)
}

function lineOf({ phase, attempt, ended: how, message }: Outcome): string {
  return `${phase} ${attempt}: ${how}${how === 'Completed' ? '' : `: ${message}`}`
}

function summary(): void {
  print('')
  for (const [fault, times] of [...struck].toSorted(([, a], [, b]) => b - a)) {
    print(`${String(times).padStart(6)}  ${fault}`)
  }
  for (const [what, times] of [...ended].toSorted()) print(`${String(times).padStart(6)}  ${what}`)
  print(
    `${total.seeds} seeds in ${Math.round((Date.now() - started) / 60_000)} min, ` +
      `${total.compared} points compared, ${total.lostByEngine} differences in sources themselves, ` +
      `${total.stopped} nodes with stopped consensus, ${total.failed} failed`,
  )
  for (const { seed } of failing) print(`failed: --seed ${seed} --seeds 1`)
}

function seconds(since: number): number {
  return Math.round((Date.now() - since) / 1000)
}
