import t from 'tap'
import { corpusCases } from './corpus.ts'
import { SUBJECTS } from './subjects.ts'

for (const subject of SUBJECTS) {
  const cases = corpusCases().filter((one) => one.subject === subject.name)
  if (cases.length === 0) continue
  t.test(`cases that failed once pass: ${subject.title}`, async (t) => {
    const check = await subject.open()
    t.teardown(() => check.close())
    for (const { why, case: one } of cases) await t.resolves(check.holds(one as never), why)
  })
}
