/** The generator: a seed always draws the same, and over many seeds everything comes. */
import t from 'tap'
import { draw, FAULTS, NEEDS_DOUBLES, NEEDS_PROCESSES } from './plan.ts'

const SEEDS = Array.from({ length: 400 }, (_, seed) => seed)

t.test('the same seed draws the same plan, another seed another', async (t) => {
  t.strictSame(draw(7), draw(7))
  t.not(JSON.stringify(draw(7)), JSON.stringify(draw(8)))
})

t.test('many seeds together cover every fault, journey and way of restoring', async (t) => {
  const plans = SEEDS.map((seed) => draw(seed))
  const faults = new Set(plans.flatMap(({ strikes }) => strikes.map(({ fault }) => fault)))
  const real = FAULTS.filter((fault) => !NEEDS_DOUBLES.includes(fault))
  t.strictSame([...faults].toSorted(), real.toSorted())
  t.equal(new Set(plans.map(({ journey, into }) => `${journey} ${into}`)).size, 9)
  t.strictSame([...new Set(plans.map(({ nodes }) => nodes))].toSorted(), [3, 5])
})

t.test('a plan can be carried out', async (t) => {
  const bad = SEEDS.map((seed) => draw(seed)).filter((plan) => {
    const { nodes, targetNodes, journey, strikes } = plan
    const lost = strikes.filter(({ fault }) => fault === 'volume lost')
    const isGood =
      strikes.length > 0 &&
      strikes.every(({ node, other }) => node < nodes && other < nodes && node !== other) &&
      (lost.length === 0 || strikes.length === 1) &&
      (journey !== 'backup by node' || targetNodes === nodes)
    return !isGood
  })
  t.strictSame(bad, [])
})

t.test('half of the migrations go into a target that has points of its own', async (t) => {
  const plans = SEEDS.map((seed) => draw(seed))
  const filled = plans.filter(({ targetHolds }) => targetHolds !== undefined)
  t.ok(filled.every(({ journey, targetHolds = 0 }) => journey === 'migration' && targetHolds > 0))
  const migrations = plans.filter(({ journey }) => journey === 'migration')
  t.ok(filled.length > migrations.length / 4 && filled.length < (3 * migrations.length) / 4)
})

t.test('the number of nodes can be asked for', async (t) => {
  t.ok(SEEDS.every((seed) => draw(seed, { nodes: 5 }).nodes === 5))
})

t.test('against doubles only what they can express is drawn', async (t) => {
  const drawn = SEEDS.flatMap((seed) => draw(seed, { short: true }).strikes)
  t.strictSame(
    [...new Set(drawn.map(({ fault }) => fault))].toSorted(),
    FAULTS.filter((fault) => !NEEDS_PROCESSES.includes(fault)).toSorted(),
  )
})
