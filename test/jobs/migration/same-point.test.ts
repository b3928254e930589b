import t from 'tap'
import { samePoint } from '../../../jobs/migration/same-point.ts'

const SAME: [string, string][] = [
  ['{"id":1,"payload":{"a":1,"b":2}}', '{"id":1,"payload":{"b":2,"a":1}}'],
  ['{"a":{"x":[{"p":1,"q":2}]}}', '{"a":{"x":[{"q":2,"p":1}]}}'],
  ['{"s":"\\u00e9"}', '{"s":"é"}'],
]
for (const [one, other] of SAME) {
  t.test(`${one} and ${other} are one point`, async (t) => t.ok(samePoint(one, other)))
}

const OTHERS: [string, string | undefined][] = [
  ['{"n":9007199254740993}', '{"n":9007199254740992}'],
  ['{"n":1.0}', '{"n":1}'],
  ['{"n":[1,2]}', '{"n":[2,1]}'],
  ['{"n":1}', '{"n":"1"}'],
  ['{"n":1}', '{"n":"n1"}'],
  ['{"n":null}', '{}'],
  ['{}', undefined],
]
for (const [one, other] of OTHERS) {
  t.test(`${one} and ${other} are two`, async (t) => t.notOk(samePoint(one, other)))
}
