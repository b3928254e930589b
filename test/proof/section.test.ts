import { readFileSync } from 'node:fs'
import t from 'tap'
import { PARTS } from './parts.ts'
import { withSection } from './section.ts'

const PAGE = readFileSync(new URL('../../docs/proof.md', import.meta.url), 'utf8')
const part = (name: string, words: string, holds = true) => ({ name, title: name, holds, words })

t.test(
  'docs/proof.md has the last result of each part with the machine that it ran on',
  async (t) => {
    const once = withSection(PAGE, [part('faults', 'ten seeds'), part('fuzz', 'a seed')], 'here')
    t.match(once, '**faults**: ten seeds\n\n(here)')
    const twice = withSection(once, [part('fuzz', 'another', false)], 'there')
    t.match(
      twice,
      '**faults**: ten seeds\n\n(here)',
      'the result of a part that did not run is unchanged',
    )
    t.match(twice, '**fuzz**: **does not hold**: another\n\n(there)')
    t.notMatch(twice, 'a seed')
    t.equal(twice.indexOf('<!-- proof faults -->'), twice.lastIndexOf('<!-- proof faults -->'))
  },
)

t.test('the result of a part is the last result that it printed', async (t) => {
  const said = (name: string, output: string) =>
    PARTS.find((one) => one.name === name)?.said(output)
  const seeds = '500 seeds, 1804 faults struck, 0 failed, in 7 s'
  t.equal(said('faults', `    3  kill\n${seeds}\n`), seeds)
  t.equal(said('faults', 'it crashed'), undefined)
  const line = {
    seed: 7,
    failed: 1,
    subjects: { specs: { cases: 9, failures: [] }, hooks: { cases: 3, failures: [{}] } },
  }
  t.equal(
    said('fuzz', `seed 7\n${JSON.stringify(line)}\n`),
    'seed 7, cases: specs 9, hooks 3 (FAILED)',
  )
  const table = 'p99  9 ms  < 10  met\nRSS  198 MiB  < 190  MISSED\nCPU  2 s'
  t.match(said('bench', table), /^1 of 2 targets met\n\n<details>.*\n\n```\np99 [^`]* 2 s\n```\n/)
  const score = '3 of 4 files: 9 of 10 noticed, 1 explained: 100 %'
  t.equal(said('mutation', `  90 %  x\n${score}\n`), score)
})
