import t from 'tap'
import { keptCases } from './corpus.ts'
import { SUBJECTS } from './subjects.ts'

for (const subject of SUBJECTS) {
  const kept = keptCases().filter((one) => one.subject === subject.name)
  if (kept.length === 0) continue
  t.test(`what failed once holds: ${subject.title}`, async (t) => {
    const check = await subject.open()
    t.teardown(() => check.close())
    for (const { why, case: one } of kept) await t.resolves(check.holds(one as never), why)
  })
}
