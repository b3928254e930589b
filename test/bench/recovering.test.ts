import t from 'tap'
import { waitsIn } from './recovering.ts'

const STEP = 'collection 1 of 1 (docs), 3 of 3 nodes done'

/** What a Job says, and in which second. */
function log(...lines: [second: number, msg: string, fields?: object][]): string {
  return lines
    .map(([second, msg, fields]) => ({ time: `2030-01-01T00:00:${second}Z`, msg, ...fields }))
    .map((line) => JSON.stringify(line))
    .join('\n')
}

t.test('waits of a restore are from the line that begins each to the next', async (t) => {
  const output = log(
    [10, 'run started'],
    [12, 'makes collection docs with one copy of each shard'],
    [15, `${STEP}: node 1: takes 1 GiB; 0 B of 1 GiB`],
    [30, `${STEP}: node 1: takes 1 GiB; 0 B of 1 GiB`, { way: 'fetch' }],
    [31, 'waits until the nodes agree'],
    [34, `${STEP}: counts its points; 1 GiB of 1 GiB`],
    [36, 'docs has 10 points'],
    [36, `${STEP}: waits until it is green; 1 GiB of 1 GiB`],
    [41, 'collection docs is back'],
    [50, 'restore run completed'],
  )
  t.strictSame(waitsIn(output), { making: 3, agreeing: 4, proving: 7 })
})
