import t from 'tap'
import { pointsEqual, vectorTolerances } from '../../../jobs/migration/compare-points.ts'

function isSame(one: string, other: string | undefined): boolean {
  return pointsEqual(Buffer.from(one), other === undefined ? undefined : Buffer.from(other))
}

const SAME: [string, string][] = [
  ['{"id":1,"payload":{"a":1,"b":2}}', '{"id":1,"payload":{"b":2,"a":1}}'],
  ['{"a":{"x":[{"p":1,"q":2}]}}', '{"a":{"x":[{"q":2,"p":1}]}}'],
  ['{"s":"\\u00e9"}', '{"s":"é"}'],
  ['{"n":1e5}', '{"n":100000.0}'],
  ['{"id":1,"payload":{},"vector":{}}', '{"id":1,"payload":null}'],
  ['{"vector":[1,0.5]}', '{"vector":[1.0,5e-1]}'],
  [
    '{"vector":{"words":{"indices":[1,9],"values":[0.5,2.0]}}}',
    '{"vector":{"words":{"values":[2.0,0.5],"indices":[9,1]}}}',
  ],
  ['{"vector":{"a":[1.0],"b":[[2.0],[3.0]]}}', '{"vector":{"b":[[2.0],[3.0]],"a":[1.0]}}'],
]
for (const [one, other] of SAME) {
  t.test(`${one} and ${other} are one point`, async (t) => t.ok(isSame(one, other)))
}

const OTHERS: [string, string | undefined][] = [
  [
    '{"vector":{"words":{"indices":[1,9],"values":[0.5,2.0]}}}',
    '{"vector":{"words":{"indices":[9,1],"values":[0.5,2.0]}}}',
  ],
  ['{"n":9007199254740993}', '{"n":9007199254740992}'],
  ['{"n":1.0}', '{"n":1}'],
  ['{"n":[1,2]}', '{"n":[2,1]}'],
  ['{"n":1}', '{"n":"1"}'],
  ['{"n":1}', '{"n":"n1"}'],
  ['{"payload":{"n":null}}', '{"payload":{"m":null}}'],
  ['{"id":1}', '{"id":1,"payload":{"n":1}}'],
  ['{"n":1.5}', '{"n":1.50000001}'],
  ['{"n":0.0}', '{"n":-0.0}'],
  ['{"payload":{"vector":[1.0]}}', '{"payload":{"vector":[1.0000001]}}'],
  ['{"n":1,"m":1}', '{"n":1,"l":1}'],
  ['{"n":[1,2]}', '{"n":[1]}'],
  ['{"n":"a"}', '{"n":"b"}'],
  ['{}', undefined],
]
for (const [one, other] of OTHERS) {
  t.test(`${one} and ${other} are two`, async (t) => t.notOk(isSame(one, other)))
}

const COSINE = vectorTolerances({
  vectors: {
    text: { size: 2, distance: 'Cosine' },
    half: { size: 2, distance: 'Cosine', datatype: 'float16' },
    byte: { size: 2, distance: 'Cosine', datatype: 'uint8' },
    dot: { size: 2, distance: 'Dot' },
  },
})

/** A vector, how far it is moved, and whether that is the engine's rounding. */
const MOVED: [string, number, boolean][] = [
  ['text', 5e-6, true],
  ['text', 5e-5, false],
  ['half', 2 ** -11, true],
  ['half', 2 ** -8, false],
  ['byte', 1e-7, false],
  ['dot', 1e-7, false],
]
for (const [name, moved, isSame] of MOVED) {
  t.test(`${name} may${isSame ? '' : ' not'} differ by ${moved}`, async (t) => {
    for (const many of [false, true]) {
      const point = (value: number) => {
        const vector = [value, 0.5]
        return Buffer.from(JSON.stringify({ id: 1, vector: { [name]: many ? [vector] : vector } }))
      }
      t.equal(pointsEqual(point(0.75), point(0.75 * (1 + moved)), COSINE), isSame)
    }
  })
}

t.test('the unnamed vector has its tolerance under the empty name', async (t) => {
  const tolerances = vectorTolerances({ vectors: { size: 2, distance: 'Cosine' } })
  const [one, other] = ['[0.6,0.8]', '[0.6000001,0.8]'].map((vector) =>
    Buffer.from(`{"id":1,"vector":${vector}}`),
  )
  t.ok(one && pointsEqual(one, other, tolerances))
  t.notOk(one && pointsEqual(one, other))
})
