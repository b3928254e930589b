/** The progress bar at the bottom of a terminal, and the log above it. */
import t from 'tap'
import { ProgressBar } from '../../jobs/progress.ts'

function stage(columns = 200) {
  const written: string[] = []
  let time = 0
  const bar = new ProgressBar({ columns, write: (text) => written.push(text) }, () => time)
  return { bar, written, later: (milliseconds: number) => void (time += milliseconds) }
}

t.test('a bar is filled by its share and fits one line', async (t) => {
  const { bar, written, later } = stage(40)
  for (const share of [0, 0.5, 1, 7, Number.NaN]) {
    later(100)
    bar.show(() => 'x'.repeat(100), share)
  }
  t.strictSame(
    written.map((line) => line.replace(/x+$/, '')),
    [
      '-'.repeat(24),
      '############------------',
      '#'.repeat(24),
      '#'.repeat(24),
      '-'.repeat(24),
    ].map((cells) => `\r\u001b[2K[${cells}] `),
  )
  t.ok(written.every((line) => line.length === '\r\u001b[2K'.length + 39))
})

t.test('a terminal without a known width uses the default width', async (t) => {
  const { bar, written } = stage(0)
  bar.show(() => 'x'.repeat(100), 0)
  t.equal(written[0]?.length, '\r\u001b[2K'.length + 79)
})

t.test('a bar is drawn at most ten times a second', async (t) => {
  const { bar, written, later } = stage()
  for (let piece = 0; piece < 1000; piece += 1) {
    bar.show(() => String(piece), piece / 1000)
    later(1)
  }
  t.equal(written.length, 10)
})

t.test('log lines appear above the bar without remains of it', async (t) => {
  const { bar, written } = stage()
  const output = bar.logAbove({ write: (line) => written.push(line) })
  output.write('one\n')
  bar.show(() => 'half', 0.5)
  output.write('two\n')
  output.write('three\n')
  bar.clear()
  t.strictSame(written, [
    'one\n',
    '\r\u001b[2K[############------------] half',
    '\r\u001b[2K',
    'two\n',
    'three\n',
  ])
})
