/**
 * `npm run test:nodes -- --rounds N [--seed S] [--minutes M] [--at-once K] [--control]`: real engines that are
 * added, removed and replaced by `cluster shards`, under load and random kills. `--control` does the same with
 * the chart alone.
 */
import { randomInt } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { inspect, parseArgs } from 'node:util'
import { engineBin } from '../hard/seed.ts'
import { picture } from './picture.ts'
import { draw, type Plan } from './plan.ts'
import { runRound, type Result } from './round.ts'
import { recordRun } from '../proof/record.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '1' },
    /** The first seed; default: a random one. */
    seed: { type: 'string' },
    /** No further round is started after this time. */
    minutes: { type: 'string' },
    'at-once': { type: 'string', default: '1' },
    /** The chart alone, without the operator. */
    control: { type: 'boolean', default: false },
    /** Writes a picture of the first round: Active replicas of each shard over time, as SVG. */
    picture: { type: 'string' },
    /** A plan as JSON, instead of one drawn from a seed. */
    plan: { type: 'string' },
  },
})

recordRun('nodes')
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))
const print = (line: string) => process.stdout.write(`${line}\n`)
const bin = engineBin()
if (bin === undefined) {
  print('no engine: ENGINE_BIN names none, and none is in the cache')
  process.exit(2)
}
const isControl = values.control
const started = Date.now()
const until = started + Number(values.minutes ?? 'Infinity') * 60_000
const first = Number(values.seed ?? randomInt(1, 2 ** 31))
const plans =
  values.plan === undefined
    ? Array.from({ length: Number(values.rounds) }, (_, index) => draw(first + index))
    : [JSON.parse(values.plan) as Plan]
print(`engine: ${bin}; seeds from ${first}${isControl ? '; the chart alone' : ''}`)

const total = {
  rounds: 0,
  failed: 0,
  ended: 0,
  compared: 0,
  volumesLost: 0,
  processes: 0,
  unserved: 0,
  excused: 0,
}
const reads = { good: 0, failed: 0, wrong: 0 }
const writes = { good: 0, failed: 0 }
const struck = new Map<string, number>()
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
// Rounds that the engine ended prove nothing.
process.exit(total.failed === 0 && total.rounds > total.ended ? 0 : 1)

async function runOne(plan: Plan, ownOctet: number): Promise<void> {
  const begun = Date.now()
  total.rounds += 1
  try {
    const result = await runRound(plan, { bin: bin ?? '', octet: ownOctet, isControl })
    count(result)
    printResult(plan, result, Math.round((Date.now() - begun) / 1000))
    if (values.picture !== undefined && plan === plans[0]) {
      writeFileSync(values.picture, picture(result, `seed ${plan.seed}`))
    }
    if (result.engineDefect !== undefined && result.findings.length === 0) total.ended += 1
    if (result.findings.length === 0) return
  } catch (error) {
    print(`seed ${plan.seed}: the round itself failed: ${inspect(error)}`)
  }
  total.failed += 1
  failing.push(plan)
  print(`  --plan '${JSON.stringify(plan)}'`)
}

function count(result: Result): void {
  total.compared += result.compared
  total.volumesLost += result.volumesLost
  total.processes += result.processes
  total.unserved += result.unserved.length
  total.excused += result.excused
  for (const key of ['good', 'failed', 'wrong'] as const) reads[key] += result.reads[key]
  for (const key of ['good', 'failed'] as const) writes[key] += result.writes[key]
  for (const [what, times] of result.struck) struck.set(what, (struck.get(what) ?? 0) + times)
}

function printResult({ seed }: Plan, result: Result, took: number): void {
  const { findings, log, compared, uncertain } = result
  print(
    `seed ${seed}: ${outcomeOf(result)}, ${took} s, ${compared} points compared, ` +
      `${result.volumesLost} volumes lost, ${result.writes.good}/${result.writes.failed} writes, ` +
      `${result.reads.good}/${result.reads.failed}/${result.reads.wrong} reads, ` +
      `${result.unserved.length} reads never served (${result.excused} of them while no node could)` +
      (result.hung > 0 ? `, ${result.hung} hung nodes killed` : '') +
      (uncertain > 0 ? `, ${uncertain} differ whose write failed` : ''),
  )
  for (const line of log) print(`  ${line}`)
  for (const finding of findings) print(`  ! ${finding}`)
}

function outcomeOf({ findings, engineDefect }: Result): string {
  if (findings.length > 0) return 'FAILED'
  return engineDefect === undefined ? 'ok' : 'NOT FINISHED, ended by a known defect of the engine'
}

function summary(): void {
  print('')
  for (const [what, times] of [...struck].toSorted(([, a], [, b]) => b - a)) {
    print(`${String(times).padStart(6)}  ${what}`)
  }
  print(
    `${total.rounds} rounds in ${Math.round((Date.now() - started) / 60_000)} min, ${total.failed} failed, ` +
      `${total.ended} ended by a known defect of the engine; ` +
      `${total.compared} points compared, ${total.volumesLost} volumes lost, ${total.processes} Job processes; ` +
      `${writes.good} writes acknowledged, ${writes.failed} failed; ${reads.good} reads, ` +
      `${reads.failed + reads.wrong} served by a retry or not at all, ${total.unserved} never served (${total.excused} of them while no node could)`,
  )
  for (const { seed } of failing) print(`failed: --seed ${seed} --rounds 1`)
}
