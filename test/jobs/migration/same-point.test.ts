import t from 'tap'
import { samePoint } from '../../../jobs/migration/same-point.ts'

function isSame(one: string, other: string | undefined): boolean {
  return samePoint(Buffer.from(one), other === undefined ? undefined : Buffer.from(other))
}

const SAME: [string, string][] = [
  ['{"id":1,"payload":{"a":1,"b":2}}', '{"id":1,"payload":{"b":2,"a":1}}'],
  ['{"a":{"x":[{"p":1,"q":2}]}}', '{"a":{"x":[{"q":2,"p":1}]}}'],
  ['{"s":"\\u00e9"}', '{"s":"é"}'],
]
for (const [one, other] of SAME) {
  t.test(`${one} and ${other} are one point`, async (t) => t.ok(isSame(one, other)))
}

const OTHERS: [string, string | undefined][] = [
  ['{"n":9007199254740993}', '{"n":9007199254740992}'],
  ['{"n":1.0}', '{"n":1}'],
  ['{"n":[1,2]}', '{"n":[2,1]}'],
  ['{"n":1}', '{"n":"1"}'],
  ['{"n":1}', '{"n":"n1"}'],
  ['{"n":null}', '{}'],
  ['{"n":1,"m":1}', '{"n":1,"l":1}'],
  ['{"n":[1,2]}', '{"n":[1]}'],
  ['{"n":"a"}', '{"n":"b"}'],
  ['{}', undefined],
]
for (const [one, other] of OTHERS) {
  t.test(`${one} and ${other} are two`, async (t) => t.notOk(isSame(one, other)))
}
