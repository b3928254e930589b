/** Whatever claimants do and in whatever order: at no moment do two work on one cluster. */
import fc from 'fast-check'
import t from 'tap'
import { Claimant, LeaseStore } from './lease-store.ts'

const RUNS = Number(process.env['FUZZ_RUNS'] ?? 500)

type What = 'pass' | 'look' | 'decide' | 'write' | 'writeLate' | 'arrive' | 'end' | 'lose' | 'crash'

interface Step {
  who: number
  what: What
  /** What another does between the two reads of a look. */
  between: { who: number; what: Exclude<What, 'look' | 'pass'> } | null
  fails: boolean
  /** Time that passes before. */
  seconds: number
}

/** Whole passes get somewhere, single steps cut them into each other. */
const WEIGHTS: [weight: number, what: Step['what']][] = [
  [12, 'pass'],
  [4, 'look'],
  [3, 'decide'],
  [3, 'write'],
  [2, 'writeLate'],
  [3, 'arrive'],
  [2, 'end'],
  [1, 'lose'],
  [1, 'crash'],
]

const step: fc.Arbitrary<Step> = fc.record({
  who: fc.nat(3),
  what: fc.oneof(...WEIGHTS.map(([weight, what]) => ({ weight, arbitrary: fc.constant(what) }))),
  between: fc.option(
    fc.record({
      who: fc.nat(3),
      what: fc.constantFrom('decide', 'write', 'writeLate', 'arrive', 'end', 'crash'),
    }),
    { freq: 4 },
  ),
  fails: fc.nat(9).map((chance) => chance === 9),
  seconds: fc.oneof(
    { weight: 12, arbitrary: fc.nat(5) },
    { weight: 2, arbitrary: fc.nat(61) },
    { weight: 1, arbitrary: fc.integer({ min: 200, max: 320 }) },
  ),
})

function claimants(store: LeaseStore): Claimant[] {
  return [
    new Claimant('backup-1', ['backup'], store),
    new Claimant('restore-1', ['backup', 'write'], store),
    new Claimant('backup-2', ['backup'], store),
    new Claimant('restore-2', ['backup', 'write'], store),
    new Claimant('helm', ['backup'], store, 2),
  ]
}

async function take(all: Claimant[], store: LeaseStore, one: Step): Promise<void> {
  store.advance(one.seconds)
  const { between, what } = one
  const claimant = all[one.who]
  if (claimant === undefined) return
  if (what === 'look') {
    await claimant.observe(async () => {
      // Metacontroller asks about one resource one call at a time, and drops an answer that came late.
      if (between !== null && between.who !== one.who) await all[between.who]?.[between.what]()
    }, one.fails)
  } else await claimant[what]()
}

function atWork(all: Claimant[]): string[] {
  return all.filter((one) => one.hasActiveJob).map(({ holder }) => holder.name)
}

t.test(
  'over random interleavings, stale reads and crashes never two work at once, and each has its turn',
  async (t) => {
    let acquisitions = 0
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 40, maxLength: 160, size: 'max' }),
        async (steps) => {
          const store = new LeaseStore()
          const all = claimants(store)
          for (const one of steps) {
            await take(all, store, one)
            if (atWork(all).length > 1) throw new Error(`at once: ${atWork(all).join(', ')}`)
          }
          acquisitions += all.filter(({ isDone }) => isDone).length
          await finish(all, store)
        },
      ),
      { numRuns: RUNS },
    )
    t.ok(acquisitions > RUNS / 2, 'many had their turn among the random steps')
  },
)

/** Resources that check every 30 s; the Job of each may be rejected for ever. */
async function rounds(
  all: Claimant[],
  store: LeaseStore,
  { refused = [] }: { refused?: Claimant[] } = {},
): Promise<string[]> {
  const order: string[] = []
  for (let round = 0; round < 200 && !all.every((one) => one.isDone || refused.includes(one));) {
    for (const one of all) {
      await one.observe()
      one.decide()
      await one.write()
      await one.write()
      if (refused.includes(one)) one.rejectAnswer()
      else one.arrive()
      if (one.hasActiveJob && order.at(-1) !== one.holder.name) order.push(one.holder.name)
    }
    round += 1
    store.advance(30)
    if (round % 4 === 0) for (const one of all) one.end()
  }
  return order
}

t.test('waiting resources get the Lease in the order of their requests', async (t) => {
  const store = new LeaseStore()
  const all = ['first', 'second', 'third', 'fourth'].map(
    (name) => new Claimant(name, ['backup'], store),
  )
  const helm = new Claimant('helm', ['backup'], store, 1)
  const [first, second, third, fourth] = all
  const came = [first, second, helm, third, fourth].filter((one) => one !== undefined)
  for (const one of came) await one.pass()
  t.strictSame(
    came.map(({ blockedBy: waitsFor }) => waitsFor),
    [undefined, 'first', 'first', 'first', 'first'],
  )
  // Any order and number of checks.
  t.strictSame(await rounds(came.toReversed(), store), [
    'first',
    'second',
    'helm',
    'third',
    'fourth',
  ])
})

t.test(
  'a claimant whose Job is always refused goes behind the others each time (M2)',
  async (t) => {
    const store = new LeaseStore()
    const refused = new Claimant('refused', ['backup'], store)
    const restore = new Claimant('restore', ['backup', 'write'], store)
    const helm = new Claimant('helm', ['backup'], store, 2)
    const others = [restore, helm]
    t.strictSame(await rounds([refused, ...others], store, { refused: [refused] }), [
      ...['restore', 'helm', 'helm'].filter((name, at, all) => name !== all[at - 1]),
    ])
    t.ok(others.every(({ isDone }) => isDone))
  },
)

/** From any state: when every resource syncs every 30 s and Jobs end, all complete. */
async function finish(all: Claimant[], store: LeaseStore): Promise<void> {
  for (let round = 0; round < 100; round += 1) {
    // All look before any of them decides, and another one is first each time.
    const order = all.map((_, index) => all[(index + round) % all.length])
    for (const one of order) one?.arrive()
    if (atWork(all).length > 1) throw new Error(`at once: ${atWork(all).join(', ')}`)
    for (const one of order) await one?.observe()
    for (const one of order) one?.decide()
    for (const one of order) await one?.writeLate()
    for (let write = 0; write < 4; write += 1) for (const one of order) await one?.write()
    if (round % 2 === 1) for (const one of order) one?.end()
    store.advance(30)
    if (all.every(({ isDone }) => isDone)) return
  }
  const waiting = all.filter(({ isDone }) => !isDone).map(({ holder }) => holder.name)
  throw new Error(`no turn for ${waiting.join(', ')}`)
}
