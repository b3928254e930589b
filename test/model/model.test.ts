import t from 'tap'
import { explore, Wrong, type Model } from './explore.ts'
import { lifeOf } from './life.ts'
import { LIVES } from './lives.ts'

/** All of them are looked at by `npm run test:model`. */
const FIRST_STATES = 400

for (const [kind, life] of Object.entries(LIVES)) {
  t.test(`${kind}: nothing flaps, no child is lost, and no ended Job comes back`, async (t) => {
    const { states, steps, wrong, deadEnds } = await explore(lifeOf(life), FIRST_STATES)
    t.comment(`${states} states, ${steps} steps`)
    t.strictSame(wrong, [])
    t.strictSame(deadEnds, [])
  })
}

interface Counter {
  value: number
}

/** Counts up to three, and from two on never comes to its goal. */
const counter: Model<Counter> = {
  start: { value: 0 },
  text: ({ value }) => String(value),
  steps: ({ value }) => [
    { name: 'up', take: async (to) => void (to.value = Math.min(value + 1, 3)) },
    {
      name: 'break',
      take: async () => {
        if (value === 3) throw new Wrong('broke at three')
      },
    },
  ],
  wrong: () => [],
  isGoal: ({ value }) => value === 1,
  isBeyond: () => false,
}

t.test('what is wrong is told with the way that leads there, and so is a dead end', async (t) => {
  t.strictSame(await explore(counter), {
    states: 4,
    steps: 8,
    wrong: ['start > up > up > up > break: broke at three'],
    deadEnds: ['start > up > up', 'start > up > up > up'],
  })
})
