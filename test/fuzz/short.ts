/**
 * The short run of a subject: FUZZ_RUNS cases (200; 2,000 with `TEST_DEPTH=full`), and FUZZ_WORLD (4; 20) through a
 * whole world, drawn from FUZZ_SEED: the same cases on every machine, so that a difference comes from the change. The long run, `npm run test:fuzz`,
 * draws other cases each time.
 */
import type { Test } from 'tap'
import { depth } from '../depth.ts'
import { lineOf } from './corpus.ts'
import { fuzz, type Fuzzed } from './run.ts'
import type { Subject } from './subject.ts'

const count = Number(process.env['FUZZ_RUNS'] ?? depth(200, 2000))
const worldCount = Number(process.env['FUZZ_WORLD'] ?? depth(4, 20))
const seed = Number(process.env['FUZZ_SEED'] ?? 1)

export async function shortRun<Case>(t: Test, subject: Subject<Case>): Promise<void> {
  const { name, title, inWorld, cost = 1 } = subject
  await t.test(title, async (t) => {
    const fuzzed = await fuzz(subject, { seed, count: Math.ceil(count / cost) })
    report(t, name, fuzzed)
    // Both sides of the border were met, or nothing was.
    t.ok(Object.keys(fuzzed.kinds).length > 1, 'several kinds of cases were drawn')
  })
  if (inWorld === undefined) return
  await t.test(`${title}, in a whole world`, async (t) => {
    report(t, name, await fuzz(subject, { seed, count: worldCount, open: inWorld }))
  })
}

function report(t: Test, subject: string, { cases, kinds, failures: [failure] }: Fuzzed): void {
  t.comment(`seed ${seed}: ${cases} cases, ${JSON.stringify(kinds)}`)
  if (failure === undefined) t.pass('every case held')
  else t.fail(failure.why, { line: lineOf({ subject, why: '', case: failure.case }) })
}
