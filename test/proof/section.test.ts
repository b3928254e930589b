import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ASKED_AGAIN, RUN_AGAIN } from '../fuzz/subject.ts'
import { matchWhole } from '../match-whole.ts'
import { gate as sampleGate } from '../mutation/sample/gate.ts'
import { gate } from '../mutation/gate.ts'
import { changesSince } from './machine.ts'
import { PARTS } from './parts.ts'
import { prove } from './prove.ts'
import { isWhole, keepResult, recordedResults } from './record.ts'
import { withMarks, withSection } from './section.ts'

const PAGE = readFileSync(new URL('../../docs/proof.md', import.meta.url), 'utf8')
const part = (name: string, words: string, { holds = true, run = 'here' } = {}) => ({
  ...{ name, title: `title of ${name}`, holds, words, run },
  ...{ command: `node ${name}.ts`, scope: `scope of ${name}`, fails: `defect of ${name}` },
})

t.test(
  'docs/proof.md has each claim with its last result, run, command, scope and how to make it fail',
  async (t) => {
    const once = withSection(PAGE, [part('faults', 'ten seeds'), part('fuzz', 'a seed')])
    const faults = `### title of faults

ten seeds

- Run: here
- Command: \`node faults.ts\`
- Scope: scope of faults
- To make it fail: defect of faults
`
    t.match(once, faults)
    const again = part('fuzz', 'another', { holds: false, run: 'there' })
    const twice = withSection(once, [again])
    t.match(twice, faults, 'the result of a part that did not run is unchanged')
    t.match(twice, '**Does not hold.** another\n\n- Run: there')
    t.notMatch(twice, 'a seed\n\n- Run: here')
    t.equal(twice.indexOf('<!-- proof faults -->'), twice.lastIndexOf('<!-- proof faults -->'))
  },
)

t.test('a claim without a result is on the page, and says so', async (t) => {
  const text = '<!-- proof: written by `npm run proof -- --write` -->\n<!-- end of the proof -->'
  const empty = withSection(text, [])
  for (const { title } of PARTS) t.match(empty, `### ${title}\n\nNo result yet.\n`)
  const one = withSection(empty, [part('fuzz', 'a seed')])
  t.equal(one.split('No result yet.').length, PARTS.length, 'all but one')
})

t.test('the committed page has every claim in its order', async (t) => {
  const names = [...PAGE.matchAll(/^<!-- proof (\w+) -->$/gm)].map(([, name]) => name)
  t.strictSame(
    names,
    PARTS.map(({ name }) => name),
  )
  t.equal(withSection(PAGE, []), PAGE, 'a run without parts changes nothing')
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
    subjects: {
      specs: { cases: 9, kinds: { refused: 9 } as Record<string, number>, failures: [] },
      hooks: { cases: 3, kinds: {}, failures: [{}] },
    },
  }
  t.equal(
    said('fuzz', `seed 7\n${JSON.stringify(line)}\n`),
    'seed 7, cases: specs 9, hooks 3 (FAILED)',
  )
  line.subjects.specs.kinds = { refused: 7, [RUN_AGAIN]: 1, [ASKED_AGAIN]: 2 }
  t.equal(
    said('fuzz', `seed 7\n${JSON.stringify(line)}\n`),
    `seed 7, cases: specs 9, hooks 3 (FAILED); 1 ${RUN_AGAIN}; 2 ${ASKED_AGAIN}`,
    'what was done twice is said',
  )
  const targets = 'targets: 1 of 2 met, 1 missed, 0 groups of rows not measured'
  t.match(
    said('bench', `p99  9 ms  < 10  met\nRSS  198 MiB  < 190  MISSED\n\n${targets}\n`),
    /^targets: 1 of 2 met, 1 missed, .*\n\n<details>.*\n\n```\np99 [^`]*not measured\n```\n/,
  )
  const score = gate([], {
    ...{ changed: [], expired: [] },
    scope: { files: 4, lines: 0, ofFiles: 9, ofLines: 90 },
  }).lines.join('\n')
  t.equal(said('mutation', `  90 %  x\n${score}\n`), score)
  const drawn = { drawn: 1, explained: 0, expired: 0, least: 85 }
  const sample = sampleGate({
    ...{ ...drawn, outcomes: ['killed' as const], scope: { files: 1, lines: 2, mutants: 3 } },
  }).says
  t.equal(said('sample', `1 files of 2 lines\n${sample}; seed 7, 9 s\n`), `${sample}; seed 7, 9 s`)
  t.equal(
    said(
      'cluster',
      '# real parts: engine 1.18.3, s3 x\nok 1 - a\n# { total: 7, pass: 6, fail: 1 }\n# time=1ms\n',
    ),
    'total: 7, pass: 6, fail: 1; real parts: engine 1.18.3, s3 x',
  )
})

t.test('a result that is older than what it covers is marked, and only then', async (t) => {
  const run = '2026-11-22, commit 6883b62, 2 cores'
  const once = withSection(PAGE, [part('hard', 'twenty seeds', { run })])
  const asked: string[] = []
  const mark = (changes: 'none' | 'some' | 'unknown', page = once) =>
    withMarks(page, (commit, covers) => {
      if (commit === '6883b62' && covers.includes('test/hard')) asked.push(commit)
      return changes
    })
  const marked = mark('some')
  const older = `- Run: ${run}
- **Older than what it covers.** Changes since: \`git log 6883b62.. -- crds jobs test/hard\`
- Command: \`node hard.ts\`
`
  t.match(marked, older)
  t.strictSame(asked, ['6883b62'])
  t.equal(mark('some', marked), marked, 'once')
  t.notMatch(mark('none', marked), '6883b62.. --')
  t.match(mark('unknown'), '- **Older than what it covers.** The commit is not in this history.')
  const unknown = withSection(PAGE, [part('hard', 'twenty seeds', { run: '2026-11-22' })])
  t.match(mark('none', unknown), '- **Older than what it covers.** The commit was not recorded.')
})

t.test('files that changed since a commit are found by git', async (t) => {
  const root = t.testdir({ crds: { 'one.ts': '' }, docs: { 'page.md': '' } })
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.org', ...args], {
      cwd: root,
      encoding: 'utf8',
    })
  git('init', '-q')
  git('add', '.')
  git('commit', '-qm', 'first')
  const commit = git('rev-parse', '--short', 'HEAD').trim()
  t.equal(changesSince(root, commit, ['crds']), 'none')
  writeFileSync(join(root, 'docs/page.md'), 'changed')
  t.equal(changesSince(root, commit, ['crds']), 'none', 'something else')
  writeFileSync(join(root, 'crds/one.ts'), '// changed')
  t.equal(changesSince(root, commit, ['crds']), 'some')
  t.equal(changesSince(root, 'f'.repeat(40), ['docs']), 'unknown')
})

t.test('a suite that is run by itself keeps its result for the page', async (t) => {
  const folder = t.testdir({})
  const started = { name: 'cluster', command: ['test/cluster/run.ts'], run: 'a day' }
  const keep = (code: number, output: string) => {
    keepResult(started, { code, output }, folder)
    return recordedResults(PARTS, folder)
  }
  t.strictSame(keep(1, 'broken off'), [])
  const parts = '# real parts: engine 1.18.3'
  const passed = keep(0, `${parts}\n# { total: 7, pass: 7 }\n`)
  matchWhole(t, passed, [
    {
      ...{ name: 'cluster', holds: true, run: 'a day', command: 'node test/cluster/run.ts' },
      words: 'total: 7, pass: 7; real parts: engine 1.18.3',
    },
  ])
  t.strictSame(keep(1, 'broken off'), passed, 'the earlier result')
  matchWhole(t, keep(1, `${parts}\n# { total: 7, pass: 6, fail: 1 }\n`), [{ holds: false }])
  matchWhole(t, keep(0, `${parts}\n# { total: 7, pass: 6, fail: 1 }\n`), [{ holds: false }])
})

const OUTPUTS: Record<string, string> = {
  sample: 'passed: 9 of 9 killed (0 by time-out)',
  hard: '20 seeds in 9 min, 0 failed',
  nodes: '50 rounds in 90 min, 0 failed',
  updates: '2 updates by the operator from a to b',
  models: '9 states, 9 steps',
}
const FOLDERS = ['--in', 'hooks,crds,jobs,metacontroller']
const RUNS: [part: string, args: string[], isWhole: boolean][] = [
  ['sample', [...FOLDERS, '--size', '2000', '--workers', '4'], true],
  ['sample', [...FOLDERS, '--size', '1500', '--continue'], true],
  ['sample', [...FOLDERS, '--size', '50'], false],
  ['sample', ['--in', 'jobs/restore', '--size', '1500'], false],
  ['sample', [...FOLDERS, '--size', '1500', '--own'], false],
  ['sample', [...FOLDERS, '--size', '1500', '--least', '50'], false],
  ['sample', [...FOLDERS, '--size', '1500', '--minutes', '60'], false],
  ['sample', [], false],
  ['hard', ['--seeds', '100', '--at-once', '3'], true],
  ['hard', ['--seeds', '20', '--doubles'], false],
  ['hard', ['--seeds', '20', '--nodes', '3'], false],
  ['hard', ['--seed', '7', '--seeds', '20'], false],
  ['hard', ['--seeds', '2'], false],
  ['nodes', ['--rounds', '50', '--at-once', '4'], true],
  ['nodes', ['--rounds=10'], false],
  ['nodes', ['--rounds', '50', '--control'], false],
  ['updates', ['--from', '1.17.1', '--to', '1.19.0'], true],
  ['updates', ['--only', 'chart'], false],
  ['models', ['--short'], true],
  ['models', ['VecBackup'], false],
  ['models', ['--short', 'VecBackup'], false],
  ['models', ['--most', '100'], false],
]

for (const [name, args, isResult] of RUNS) {
  const verb = isResult ? 'is kept' : 'is not kept'
  t.test(`${name} ${args.join(' ')}: ${verb} as the result of the claim`, async (t) => {
    const one = PARTS.find((part) => part.name === name) ?? PARTS[0]
    if (one === undefined) throw new Error('no parts')
    const command = [one.command[0] ?? '', ...args]
    t.equal(isWhole(one, command), isResult)
    const folder = t.testdir({})
    keepResult({ name, command, run: 'a day' }, { code: 0, output: OUTPUTS[name] ?? '' }, folder)
    t.equal(recordedResults(PARTS, folder).length, isResult ? 1 : 0)
  })
}

t.test(
  "each claim's own command runs all of it, and a result kept of less is not written",
  async (t) => {
    for (const part of PARTS) t.ok(isWhole(part, part.command), part.name)
    const folder = t.testdir({
      'sample.json': JSON.stringify({
        ...{ holds: true, words: '50 of 50 killed', run: 'a day' },
        command: 'node test/mutation/sample/main.ts --in jobs/restore --size 50 --own',
      }),
    })
    t.strictSame(recordedResults(PARTS, folder), [])
  },
)

t.test('a claim whose command fails, or prints no result, does not hold', async (t) => {
  const root = join(import.meta.dirname, '../..')
  const proved = async (script: string) => {
    const [first] = PARTS
    if (first === undefined) throw new Error('no parts')
    const command = ['-e', script]
    const { holds, words } = await prove({ ...first, command }, { root, isShort: false })
    return { holds, words }
  }
  const said = "console.log('33 of 33 defects noticed')"
  t.strictSame(await proved(said), { holds: true, words: '33 of 33 defects noticed' })
  t.strictSame(await proved(`${said}; process.exitCode = 1`), {
    ...{ holds: false, words: '33 of 33 defects noticed' },
  })
  t.strictSame(await proved('process.exit(1)'), {
    ...{ holds: false, words: 'The command ended with 1 and printed no result.' },
  })
  t.strictSame(await proved(''), {
    ...{ holds: false, words: 'The command ended with 0 and printed no result.' },
  })
})
