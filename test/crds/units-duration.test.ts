import t from 'tap'
import { DURATION_PATTERN, parseDuration } from '../../crds/units.ts'

for (const [text, seconds] of [
  ['720h', 2_592_000],
  ['1h30m', 5400],
  ['30s', 30],
  ['1h1m1s', 3661],
  ['90m', 5400],
  ['0s', 0],
  ['999999h9999999m999999999s', 999_999 * 3600 + 9_999_999 * 60 + 999_999_999],
] as const) {
  t.test(`${text} is a duration of ${seconds} seconds`, async (t) => {
    t.match(text, new RegExp(DURATION_PATTERN))
    t.equal(parseDuration(text), seconds)
  })
}

for (const text of ['30', '1d', '-1h', '1.5h', '30m1h', '1h 30m', '1000000h', 'h']) {
  t.test(`${text} is no duration`, async (t) => {
    t.notMatch(text, new RegExp(DURATION_PATTERN))
    // One that is only too long is rejected for CEL's sake, and still read.
    if (!/^[0-9]{7,}h$/.test(text)) t.equal(parseDuration(text), 0)
  })
}
