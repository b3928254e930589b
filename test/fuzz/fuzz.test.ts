/** The short run: FUZZ_RUNS cases of each subject, drawn from FUZZ_SEED. The long one is `npm run test:fuzz`. */
import t from 'tap'
import { lineOf } from './corpus.ts'
import { fuzz, newSeed } from './run.ts'
import { SUBJECTS } from './subjects.ts'

const count = Number(process.env['FUZZ_RUNS'] ?? 2000)
const seed = Number(process.env['FUZZ_SEED'] ?? newSeed())

for (const subject of SUBJECTS) {
  t.test(`${subject.title} (${subject.name})`, async (t) => {
    const { cases, kinds, failure } = await fuzz(subject, { seed, count })
    t.comment(`seed ${seed}: ${cases} cases, ${JSON.stringify(kinds)}`)
    // Both sides of the border were met, or nothing was.
    t.ok(Object.keys(kinds).length > 1, 'several kinds of cases were drawn')
    if (failure === undefined) return
    t.fail(failure.why, { line: lineOf({ subject: subject.name, why: '', case: failure.case }) })
  })
}
