/**
 * The short run of a subject: FUZZ_RUNS cases, and FUZZ_WORLD through a whole world, drawn from FUZZ_SEED: the
 * same ones everywhere, so that a change is judged by what it changed. The long one, `npm run test:fuzz`,
 * draws anew.
 */
import type { Test } from 'tap'
import { lineOf } from './corpus.ts'
import { fuzz, type Fuzzed } from './run.ts'
import type { Subject } from './subject.ts'

const count = Number(process.env['FUZZ_RUNS'] ?? 2000)
const worldCount = Number(process.env['FUZZ_WORLD'] ?? 20)
const seed = Number(process.env['FUZZ_SEED'] ?? 1)

export async function shortRun<Case>(t: Test, subject: Subject<Case>): Promise<void> {
  const { name, title, inWorld, cost = 1 } = subject
  await t.test(title, async (t) => {
    const fuzzed = await fuzz(subject, { seed, count: Math.ceil(count / cost) })
    tell(t, name, fuzzed)
    // Both sides of the border were met, or nothing was.
    t.ok(Object.keys(fuzzed.kinds).length > 1, 'several kinds of cases were drawn')
  })
  if (inWorld === undefined) return
  await t.test(`${title}, in a whole world`, async (t) => {
    tell(t, name, await fuzz(subject, { seed, count: worldCount, open: inWorld }))
  })
}

function tell(t: Test, subject: string, { cases, kinds, failures: [failure] }: Fuzzed): void {
  t.comment(`seed ${seed}: ${cases} cases, ${JSON.stringify(kinds)}`)
  if (failure === undefined) t.pass('every case held')
  else t.fail(failure.why, { line: lineOf({ subject, why: '', case: failure.case }) })
}
