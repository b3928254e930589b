import t from 'tap'
import { told, worseThan, type Run } from './compare.ts'

function run(figures: Run['figures']): Run {
  return { at: '2026-03-01T12:00:00Z', node: 'v24', figures }
}

t.test('a ratio to its yardstick that is worse by more than a tenth is named', async (t) => {
  const before = run({
    answers: { unit: '/s', value: 1000, yardstick: 1000 },
    time: { unit: 'ms', value: 10, yardstick: 20 },
  })
  // The machine was half as fast, and so was the yardstick.
  const same = run({
    answers: { unit: '/s', value: 460, yardstick: 500 },
    time: { unit: 'ms', value: 20, yardstick: 38 },
  })
  t.strictSame(worseThan(before, same), [])
  const worse = run({
    answers: { unit: '/s', value: 800, yardstick: 1000 },
    time: { unit: 'ms', value: 12, yardstick: 20 },
  })
  t.strictSame(
    worseThan(before, worse).map(({ what, by }) => [what, Math.round(100 * by)]),
    [
      ['answers', 20],
      ['time', 20],
    ],
  )
  t.match(told(worseThan(before, worse), before), 'answers: 1.00 -> 0.80, worse by 20 %')
})

t.test('without a yardstick the figure itself is compared; what is new is not', async (t) => {
  const before = run({ writes: { unit: '', value: 0 }, memory: { unit: 'MiB', value: 100 } })
  const now = run({
    writes: { unit: '', value: 1 },
    memory: { unit: 'MiB', value: 109 },
    other: { unit: 's', value: 7 },
  })
  t.strictSame(
    worseThan(before, now).map(({ what }) => what),
    ['writes'],
  )
  t.match(told([], before), 'nothing is worse by more than a tenth')
})

t.test('the oldest lines of the history call the yardstick an echo', async (t) => {
  const before = run({ answers: { unit: '/s', value: 500, echo: 1000 } })
  const now = run({ answers: { unit: '/s', value: 1000, yardstick: 2000 } })
  t.strictSame(worseThan(before, now), [])
})
