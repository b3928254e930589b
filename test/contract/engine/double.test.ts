/** The engine double answers as the real engine was seen to: every case against its recording. */
import t from 'tap'
import { CASES } from './cases/all.ts'
import { play, recording, settingOf, sizesOf } from './case.ts'
import { doubleSubject } from './subject.ts'

/** A part of the cases, by a pattern over their titles. */
const chosen = new RegExp(process.env['CASES'] ?? '')

for (const played of CASES.filter(({ title }) => chosen.test(title))) {
  for (const size of sizesOf(played)) {
    t.test(`${played.title} (${size})`, async (t) => {
      const setting = settingOf(played, size)
      const subject = await doubleSubject(setting)
      t.teardown(() => subject.close())
      t.strictSame(await play(subject, setting, played), recording(played)[size])
    })
  }
}
