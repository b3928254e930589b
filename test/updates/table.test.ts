/** The rows of an update: what clients saw, and how much longer the slowest calls took. */
import t from 'tap'
import { HEAD, rowOf } from './table.ts'

const RESULT = {
  ...{ findings: ['plain: 1 findings', '  lost: point 1'], seconds: 63, compared: 10 },
  reads: { all: 100, failed: 3, wrong: 1, failedTwice: 2 },
  writes: { all: 50, failed: 5, failedTwice: 0 },
  readLatencies: { atRest: [1, 2, 4], during: [2, 4, 10] },
  writeLatencies: { atRest: [], during: [1] },
  repeatedFailures: [],
}

t.test('a row has a cell for each column', async (t) => {
  t.equal(
    rowOf('operator', false, RESULT),
    '| the operator | two of each shard | 63 s | 100, 4, 2 | 50, 5, 0 | 2.5 times | not measured | 2 |',
  )
  t.match(rowOf('chart', true, RESULT), /^\| the chart alone \| one shard has one \|/)
  for (const line of HEAD) t.equal(line.split('|').length, 10)
})
