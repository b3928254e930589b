/**
 * `npm run test:faults`: runs the load once per seed. Prints the seeds that failed with the arguments that
 * reproduce them, and how often each fault has struck.
 */
import { parseArgs } from 'node:util'
import { newSeed } from '../fuzz/run.ts'
import { openMachine } from './computer.ts'
import type { Strike } from './faults.ts'
import { simulate, type Run } from './simulate.ts'

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '500' },
    /** The first seed; default: random. */
    from: { type: 'string' },
    /** Strikes as JSON, instead of those that the seed draws. */
    strikes: { type: 'string' },
    verbose: { type: 'boolean', default: false },
  },
})

const now = performance.now.bind(performance)
const print = (line: string) => process.stdout.write(`${line}\n`)
const started = now()
// Drawn before the machine takes over: its random numbers are the same in every run.
const first = values.from === undefined ? newSeed() : Number(values.from)
const machine = await openMachine()
// The first run loads modules that are imported on demand, which takes real time.
await simulate(machine, { seed: 0, strikes: [] })
const calm = await simulate(machine, { seed: 0, strikes: [] })
for (const line of calm.broken) print(`without any fault: ${line}`)

const counts = new Map<string, number>()
let failed = calm.broken.length > 0 ? 1 : 0
const last = first + Number(values.seeds) - 1
const strikes = values.strikes === undefined ? undefined : (JSON.parse(values.strikes) as Strike[])
print(`seeds from ${first} on: --from ${first} repeats them`)
// On SIGUSR2 the run stops after the current seed and prints its summary.
const enough = new AbortController()
process.once('SIGUSR2', () => enough.abort())
let seeds = 0
for (let seed = first; seed <= last && !enough.signal.aborted; seed += 1) {
  seeds += 1
  const run = await simulate(machine, { seed, strikes, calls: calm.calls })
  for (const { fault } of run.struck) counts.set(fault, (counts.get(fault) ?? 0) + 1)
  if (run.broken.length > 0) failed += 1
  if (run.broken.length > 0 || values.verbose) printRun(run)
}

const again = await simulate(machine, { seed: 0, strikes: [] })
if (again.trace !== calm.trace) {
  failed += 1
  print(`the same seed gave another run: ${calm.trace}, ${again.trace}`)
}

for (const [fault, count] of [...counts].sort(([, one], [, other]) => other - one)) {
  print(`${String(count).padStart(6)}  ${fault}`)
}
const struck = [...counts.values()].reduce((sum, count) => sum + count, 0)
const seconds = Math.round((now() - started) / 1000)
print(`${seeds} seeds from ${first} on, ${struck} faults struck, ${failed} failed, in ${seconds} s`)
process.exit(failed === 0 ? 0 : 1)

function printRun({ seed, trace, broken, struck: happened, world }: Run): void {
  print(`seed ${seed}, trace ${trace}, ${world.doors.count} calls, ${broken.length} broken`)
  for (const line of broken) print(`  ${line}`)
  print(`  --seeds 1 --from ${seed} --strikes '${JSON.stringify(happened)}'`)
}
