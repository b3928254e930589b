/** The bar at the bottom of a terminal, and the log above it. */
import t from 'tap'
import { ProgressBar } from '../../jobs/progress.ts'

function stage(columns = 200) {
  const shown: string[] = []
  let time = 0
  const bar = new ProgressBar({ columns, write: (text) => shown.push(text) }, () => time)
  return { bar, shown, later: (milliseconds: number) => void (time += milliseconds) }
}

t.test('a bar is as full as its share, and one line of the terminal', async (t) => {
  const { bar, shown, later } = stage(40)
  for (const share of [0, 0.5, 1, 7, Number.NaN]) {
    later(100)
    bar.show(() => 'x'.repeat(100), share)
  }
  t.strictSame(
    shown.map((line) => line.replace(/x+$/, '')),
    [
      '-'.repeat(24),
      '############------------',
      '#'.repeat(24),
      '#'.repeat(24),
      '-'.repeat(24),
    ].map((cells) => `\r\u001b[2K[${cells}] `),
  )
  t.ok(shown.every((line) => line.length === '\r\u001b[2K'.length + 39))
})

t.test('a terminal that does not tell its width has the usual one', async (t) => {
  const { bar, shown } = stage(0)
  bar.show(() => 'x'.repeat(100), 0)
  t.equal(shown[0]?.length, '\r\u001b[2K'.length + 79)
})

t.test('a bar is drawn ten times a second, however often it is shown', async (t) => {
  const { bar, shown, later } = stage()
  for (let piece = 0; piece < 1000; piece += 1) {
    bar.show(() => String(piece), piece / 1000)
    later(1)
  }
  t.equal(shown.length, 10)
})

t.test('what is logged stands above the bar, and nothing is left of it', async (t) => {
  const { bar, shown } = stage()
  const output = bar.logAbove({ write: (line) => shown.push(line) })
  output.write('one\n')
  bar.show(() => 'half', 0.5)
  output.write('two\n')
  output.write('three\n')
  bar.clear()
  t.strictSame(shown, [
    'one\n',
    '\r\u001b[2K[############------------] half',
    '\r\u001b[2K',
    'two\n',
    'three\n',
  ])
})
