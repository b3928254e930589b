import { readFileSync } from 'node:fs'
import t from 'tap'
import { PARTS } from './parts.ts'
import { withSection } from './section.ts'

const PAGE = readFileSync(new URL('../../docs/proof.md', import.meta.url), 'utf8')
const part = (name: string, words: string, holds = true) => ({
  ...{ name, title: `title of ${name}`, holds, words },
  ...{ command: `node ${name}.ts`, scope: `scope of ${name}`, fails: `defect of ${name}` },
})

t.test(
  'docs/proof.md has each claim with its last result, run, command, scope and how to make it fail',
  async (t) => {
    const once = withSection(PAGE, [part('faults', 'ten seeds'), part('fuzz', 'a seed')], 'here')
    const faults = `### title of faults

ten seeds

- Run: here
- Command: \`node faults.ts\`
- Scope: scope of faults
- To make it fail: defect of faults
`
    t.match(once, faults)
    const twice = withSection(once, [part('fuzz', 'another', false)], 'there')
    t.match(twice, faults, 'the result of a part that did not run is unchanged')
    t.match(twice, '**Does not hold.** another\n\n- Run: there')
    t.notMatch(twice, 'a seed\n\n- Run: here')
    t.equal(twice.indexOf('<!-- proof faults -->'), twice.lastIndexOf('<!-- proof faults -->'))
  },
)

t.test('a claim without a result is on the page, and says so', async (t) => {
  const text = '<!-- proof: written by `npm run proof -- --write` -->\n<!-- end of the proof -->'
  const empty = withSection(text, [], 'here')
  for (const { title } of PARTS) t.match(empty, `### ${title}\n\nNo result yet.\n`)
  const one = withSection(empty, [part('fuzz', 'a seed')], 'here')
  t.equal(one.split('No result yet.').length, PARTS.length, 'all but one')
})

t.test('the committed page has every claim in its order', async (t) => {
  const names = [...PAGE.matchAll(/^<!-- proof (\w+) -->$/gm)].map(([, name]) => name)
  t.strictSame(
    names,
    PARTS.map(({ name }) => name),
  )
  t.equal(withSection(PAGE, [], 'nowhere'), PAGE, 'a run without parts changes nothing')
})

t.test('the result of a part is the last result that it printed', async (t) => {
  const said = (name: string, output: string) =>
    PARTS.find((one) => one.name === name)?.said(output)
  const seeds = '500 seeds from 7 on, 1804 faults struck, 0 failed, in 7 s'
  t.equal(said('faults', `1 seeds from 1 on, 1 faults\n    3  kill\n${seeds}\n`), seeds)
  for (const { name } of PARTS) t.equal(said(name, 'it crashed'), undefined, name)
  const line = {
    seed: 7,
    failed: 1,
    subjects: { specs: { cases: 9, failures: [] }, hooks: { cases: 3, failures: [{}] } },
  }
  t.equal(
    said('fuzz', `seed 7\n${JSON.stringify(line)}\n`),
    'seed 7, cases: specs 9, hooks 3 (FAILED)',
  )
  const targets = 'targets: 1 of 2 met, 1 missed, 0 groups of rows not measured'
  t.match(
    said('bench', `p99  9 ms  < 10  met\nRSS  198 MiB  < 190  MISSED\n\n${targets}\n`),
    /^targets: 1 of 2 met, 1 missed, .*\n\n<details>.*\n\n```\np99 [^`]*not measured\n```\n/,
  )
  const score = '3 of 4 files: 9 of 10 noticed, 1 explained: 100 %'
  t.equal(said('mutation', `  90 %  x\n${score}\n`), score)
  t.equal(
    said(
      'cluster',
      '# real parts: engine 1.18.3, s3 x\nok 1 - a\n# { total: 7, pass: 6, fail: 1 }\n# time=1ms\n',
    ),
    'total: 7, pass: 6, fail: 1; real parts: engine 1.18.3, s3 x',
  )
})
