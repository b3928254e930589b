import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import { matchWhole } from '../match-whole.ts'
import { manifests } from './manifests.ts'
import { fuzz } from './run.ts'
import { fuzzAll, type Part } from './side-by-side.ts'
import { RUN_AGAIN } from './subject.ts'

const SEED = 7
const COUNT = 40

t.test('the same seed gives the same cases, also while other processes run', async (t) => {
  const part: Part = { subject: manifests.name, isWorld: false, seed: SEED, count: COUNT }
  const reported: string[] = []
  const [one, other] = await fuzzAll([part, part], ({ subject }) => void reported.push(subject))
  const alone = await fuzz(manifests, { seed: SEED, count: COUNT })
  t.strictSame(one?.kinds, alone.kinds)
  t.strictSame(other?.kinds, alone.kinds)
  t.strictSame(reported, [manifests.name, manifests.name])
})

t.test('a run that is stopped early reports its results so far', async (t) => {
  const end = new AbortController()
  const part: Part = { subject: manifests.name, isWorld: false, seed: SEED, count: 1_000_000 }
  const last: Part = { ...part, count: COUNT }
  const [long] = await fuzzAll([part, last], () => end.abort(), { enough: end.signal })
  t.ok((long?.cases ?? 0) < part.count)
  t.strictSame(long?.failures, [])
})

t.test('a run that was ended before it began ends at once', async (t) => {
  const { cases, failures } = await fuzz(manifests, {
    ...{ seed: SEED, count: COUNT, enough: AbortSignal.abort() },
  })
  t.ok(cases < COUNT)
  t.strictSame(failures, [])
})

t.test('a process without a subject is a failure', async (t) => {
  const part: Part = { subject: 'nothing', isWorld: false, seed: SEED, count: COUNT }
  const [lost] = await fuzzAll([part], () => undefined)
  t.equal(lost?.cases, 0)
  matchWhole(t, lost?.failures, [{ why: `the process of seed ${SEED} ended with 1` }])
})

const EMPTY = { cases: COUNT, kinds: { refused: COUNT }, seconds: 0, failures: [] }
const DEATHS: [how: string, die: string, runs: number, ended: string][] = [
  ['with an exit code', 'process.exit(7)', 1, '7'],
  ['with a full heap', "process.kill(process.pid, 'SIGABRT')", 1, 'SIGABRT'],
  ['by SIGKILL each time', "process.kill(process.pid, 'SIGKILL')", 2, 'SIGKILL'],
]

/** A program that writes down each of its runs. */
function program(t: Test, script: string) {
  const folder = t.testdir({
    'worker.mjs': `import { appendFileSync, readFileSync } from 'node:fs'
const runs = new URL('runs', import.meta.url)
appendFileSync(runs, 'x')
${script}
`,
  })
  return {
    worker: pathToFileURL(join(folder, 'worker.mjs')),
    runs: () => readFileSync(join(folder, 'runs')).length,
  }
}

const ONE: Part = { subject: 'any', isWorld: false, seed: SEED, count: COUNT }

for (const [how, die, times, ended] of DEATHS) {
  t.test(`a process that ends ${how} is a failure after ${times} of its runs`, async (t) => {
    const { worker, runs } = program(t, die)
    const [lost] = await fuzzAll([ONE], () => undefined, { worker })
    t.equal(runs(), times)
    matchWhole(t, lost?.failures, [{ why: `the process of seed ${SEED} ended with ${ended}` }])
  })
}

t.test('a process that SIGKILL ends once is run again, and the result says so', async (t) => {
  const { worker, runs } = program(
    t,
    `if (readFileSync(runs).length === 1) process.kill(process.pid, 'SIGKILL')
process.send(${JSON.stringify(EMPTY)}, () => process.exit())`,
  )
  const [result] = await fuzzAll([ONE], () => undefined, { worker })
  t.equal(runs(), 2)
  t.strictSame(result, { ...EMPTY, kinds: { ...EMPTY.kinds, [RUN_AGAIN]: 1 } })
})
