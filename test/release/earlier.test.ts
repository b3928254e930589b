/** What a release is compared with: the chart of an earlier commit, the recorded size of the image. */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { growthOf, recordedBytes } from '../cluster/image-size.ts'
import { previousChart } from '../cluster/previous-chart.ts'
import { NotSupported } from '../world/world.ts'

const AUTHOR = ['-c', 'user.name=a', '-c', 'user.email=a@example.com']

/** A repository with these charts, one after the other, and the hash of each commit. */
function repository(t: Test, ...charts: string[]) {
  const folder = t.testdir({ work: { chart: { 'values.yaml': '' } } })
  const work = join(folder, 'work')
  const git = (...args: string[]) =>
    execFileSync('git', ['-C', work, ...args])
      .toString()
      .trim()
  const write = (values: string) => writeFileSync(join(work, 'chart/values.yaml'), values)
  git('init', '--quiet')
  const commits = charts.map((values) => {
    write(values)
    git('add', '.')
    git(...AUTHOR, 'commit', '--quiet', '--message', values)
    return git('rev-parse', 'HEAD')
  })
  const previous = () => previousChart(work, join(folder, 'previous'))
  return { folder, work, git, write, commits, previous }
}

async function valuesIn(found: Promise<{ folder: string }>): Promise<string> {
  return readFileSync(join((await found).folder, 'values.yaml'), 'utf8')
}

t.test('upgraded from is the chart before the last change of it', async (t) => {
  const { commits, git, work, previous } = repository(t, 'one', 'two')
  writeFileSync(join(work, 'other'), '')
  git('add', '.')
  git(...AUTHOR, 'commit', '--quiet', '--message', 'beside the chart')
  t.equal((await previous()).commit, commits[0])
  t.equal(await valuesIn(previous()), 'one')
})

t.test('a change that is not committed is upgraded to from the last commit', async (t) => {
  const { write, previous } = repository(t, 'one', 'two')
  write('three')
  t.equal(await valuesIn(previous()), 'two')
})

t.test('a change that was reverted is no change', async (t) => {
  const { previous } = repository(t, 'one', 'two', 'one')
  t.equal(await valuesIn(previous()), 'two')
})

t.test('a shallow clone has no earlier chart, and the message says how to fetch it', async (t) => {
  const { folder, work } = repository(t, 'one', 'two')
  const shallow = join(folder, 'shallow')
  execFileSync('git', ['clone', '--quiet', '--depth', '1', `file://${work}`, shallow])
  const found = previousChart(shallow, join(folder, 'previous'))
  await t.rejects(
    found,
    new NotSupported('no earlier chart is in this clone: git fetch --unshallow brings it'),
  )
})

t.test('a folder without git has no history', async (t) => {
  const found = previousChart('/', join(t.testdir({}), 'previous'))
  await t.rejects(
    found,
    new NotSupported('there is no history here, so no earlier chart: this is no clone'),
  )
})

t.test('an image may grow by a tenth; the message has the sizes and the change', async (t) => {
  t.strictSame(growthOf(275e6, 250e6), {
    words: '275.0 MB, recorded 250.0 MB (+10.0 %)',
    isTooMuch: false,
  })
  t.equal(growthOf(275_000_001, 250e6).isTooMuch, true)
  t.match(growthOf(200e6, 250e6), { words: /\(-20\.0 %\)$/, isTooMuch: false })
  t.ok(recordedBytes() > 100e6)
})
