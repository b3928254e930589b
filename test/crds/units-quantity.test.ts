import t from 'tap'
import { parseQuantity } from '../../crds/units.ts'
import { canonicalQuantity } from '../world/api/quantity.ts'

for (const [quantity, amount] of [
  ['7', 7],
  ['1.5', 1.5],
  ['500m', 0.5],
  ['2k', 2000],
  ['3M', 3e6],
  ['4G', 4e9],
  ['5T', 5e12],
  ['6P', 6e15],
  ['7E', 7e18],
  ['1Ki', 1024],
  ['1Mi', 1024 ** 2],
  ['1.5Gi', 1.5 * 1024 ** 3],
  ['1Ti', 1024 ** 4],
  ['1Pi', 1024 ** 5],
  ['1Ei', 1024 ** 6],
] as const) {
  t.test(`the amount ${quantity} is ${amount}`, async (t) => {
    t.equal(parseQuantity(quantity), amount)
  })
}

t.test('the same amount may be written in several ways', async (t) => {
  t.equal(parseQuantity('10Gi'), parseQuantity('10240Mi'))
  t.equal(parseQuantity('1000m'), parseQuantity('1'))
  t.equal(parseQuantity('0.5k'), parseQuantity('500'))
  t.equal(parseQuantity('.5k'), parseQuantity('500.'))
  t.equal(parseQuantity('7000u'), parseQuantity('7m'))
  t.equal(parseQuantity('7000n'), parseQuantity('7u'))
})

for (const unit of ['Mi', 'Gi', 'Ti', 'M', 'G', 'T']) {
  t.test(`fractions in ${unit} are the amounts that the API server writes for them`, async (t) => {
    const differing = Array.from(
      { length: 20_000 },
      (_, hundredths) => `${(hundredths / 100).toFixed(2)}${unit}`,
    ).filter((text) => parseQuantity(text) !== parseQuantity(canonicalQuantity(text)))
    t.strictSame(differing, [])
  })
}

t.test('a fraction that Kubernetes does not keep is rounded up', async (t) => {
  t.equal(parseQuantity('0.0000000001'), parseQuantity('1n'))
})

for (const text of [
  '',
  'Gi',
  'some',
  '10 Gi',
  '-1',
  '1Xi',
  'x1',
  '1Gi!',
  '.',
  '1.2.3',
  '1constructor',
]) {
  t.test(`"${text}" is no amount`, async (t) => {
    t.ok(Number.isNaN(parseQuantity(text)))
  })
}
