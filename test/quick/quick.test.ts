import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { matchWhole } from '../match-whole.ts'
import { Report } from './report.ts'
import { runTests } from './run.ts'
import { changedFiles, selectTests } from './select.ts'
import { watchTests } from './watch.ts'

const PASSING = "import t from 'tap'\nt.test('it holds', async (t) => t.ok(true))\n"
const FAILING = "import t from 'tap'\nt.test('it does not hold', async (t) => t.equal(1, 2))\n"

/** A project of a few files. */
function project(t: Test, files: Record<string, string>): string {
  const root = t.testdir({})
  for (const folder of ['crds', 'hooks', 'jobs', 'metacontroller', 'chart', 'docs', 'test/hooks']) {
    mkdirSync(join(root, folder), { recursive: true })
  }
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(root, path, '..'), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  return root
}

t.test(
  'a change selects the tests that import it, its own folder and the nearest first',
  async (t) => {
    const root = project(t, {
      'hooks/backup/sync.ts': 'export const sync = 1\n',
      'hooks/backup/index.ts': "export { sync } from './sync.ts'\n",
      'hooks/alone.ts': 'export const alone = 1\n',
      'test/hooks/backup/sync.test.ts': "import { sync } from '../../../hooks/backup/sync.ts'\n",
      'test/hooks/all.test.ts': "import { sync } from '../../hooks/backup/index.ts'\n",
      'test/crds/near.test.ts': "import { sync } from '../../hooks/backup/sync.ts'\n",
      'test/stage.ts':
        "import { createServer } from 'node:http'\nimport '../hooks/backup/sync.ts'\n",
      'test/hooks/backup/server.test.ts': "import '../../stage.ts'\n",
      'test/hooks/other.test.ts': "import type { sync } from '../../hooks/backup/sync.ts'\n",
      'test/model/model.test.ts': "import { sync } from '../../hooks/backup/sync.ts'\n",
      'test/docs/docs.test.ts': "import t from 'tap'\n",
    })
    t.strictSame(selectTests(['hooks/backup/sync.ts'], root), {
      pure: ['test/hooks/backup/sync.test.ts', 'test/crds/near.test.ts', 'test/hooks/all.test.ts'],
      starting: ['test/hooks/backup/server.test.ts'],
      untested: [],
    })
    t.strictSame(
      selectTests(['docs/page.md', 'hooks/alone.ts', 'test/docs/docs.test.ts'], root),
      { pure: ['test/docs/docs.test.ts'], starting: [], untested: ['hooks/alone.ts'] },
      'a page is read by the tests of its folder; a file without a test is named',
    )
  },
)

t.test('changed files are those that differ from the merge base with main', async (t) => {
  const root = project(t, { 'hooks/one.ts': '1\n', 'hooks/two.ts': '2\n', 'hooks/three.ts': '3\n' })
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@t.example', ...args], {
      cwd: root,
    })
  git('init', '--quiet', '--initial-branch=main')
  git('add', '.')
  git('commit', '--quiet', '--message=first')
  git('checkout', '--quiet', '-b', 'topic')
  writeFileSync(join(root, 'hooks/one.ts'), 'committed\n')
  git('commit', '--quiet', '--all', '--message=second')
  writeFileSync(join(root, 'hooks/two.ts'), 'not committed\n')
  writeFileSync(join(root, 'hooks/new.ts'), 'unknown to git\n')
  t.strictSame(changedFiles(root).files, ['hooks/new.ts', 'hooks/one.ts', 'hooks/two.ts'])
  t.strictSame(changedFiles(root, 'HEAD').files, ['hooks/new.ts', 'hooks/two.ts'])
})

t.test('a run passes only when each of its files ran and no test failed', async (t) => {
  const root = project(t, {
    'test/hooks/good.test.ts': PASSING,
    'test/hooks/bad.test.ts': FAILING,
    'test/hooks/broken.test.ts': "import '../missing.ts'\n",
    'test/hooks/empty.test.ts': '',
    'test/hooks/exits.test.ts': 'process.exit(0)\n',
  })
  const run = async (names: string[], seconds = 60) => {
    const printed: string[] = []
    const outcome = await runTests({
      ...{ root, seconds, print: (text: string) => printed.push(text) },
      pure: names.map((name) => `test/hooks/${name}.test.ts`),
      starting: ['test/hooks/good.test.ts'].filter(() => seconds === 0),
    })
    return { ...outcome, text: printed.join('') }
  }
  matchWhole(t, await run(['good']), { passes: true, passed: 1, failed: 0, left: [] })
  matchWhole(t, await run(['bad', 'good']), {
    ...{ passes: false, passed: 1, failed: 1, failing: ['test/hooks/bad.test.ts'] },
    text: /it does not hold[^]*FAILED: test\/hooks\/bad\.test\.ts/,
  })
  matchWhole(t, await run(['broken', 'good']), {
    ...{ passes: false, passed: 1, failed: 1, failing: ['test/hooks/broken.test.ts'] },
    text: /broken\.test\.ts cannot be loaded/,
  })
  t.match(await run(['empty']), { passes: false, passed: 0, text: /FAILED: the process ended/ })
  matchWhole(t, await run(['exits']), { passes: false, files: [] })
  matchWhole(t, await run([], 0), {
    left: ['test/hooks/good.test.ts'],
    text: /not run within 0 s/,
  })
})

t.test('failures are printed in full, of the rest the numbers', async (t) => {
  const printed: string[] = []
  const report = new Report((text) => printed.push(text))
  const tap = `# Subtest: good
    ok 1 - fine
    1..1
ok 1 - good # time=1ms
ok 2 - not here # SKIP no engine
# Subtest: bad
    ok 1 - fine
    not ok 2 - should be equal
      ---
      diff: 1
      ...
    1..2
not ok 3 - bad # time=1ms
  ---
  at: here
  ...
# Subtest: end of a.test.ts
ok 4 - end of a.test.ts # time=1ms
ok 5 - last`
  for (const line of tap.split('\n')) report.add(line)
  const { passed, failed, skipped, failing } = report.totals
  t.strictSame([passed, failed, skipped, failing], [2, 1, 1, ['a.test.ts']])
  t.match(printed.join(''), /# Subtest: bad\n {4}not ok 2[^]*diff: 1[^]*at: here[^]*a\.test\.ts/)
  t.notMatch(printed.join(''), 'fine')
})

t.test('a saved file runs its tests; what failed runs again until it passes', async (t) => {
  const test = 'test/hooks/one.test.ts'
  const root = project(t, {
    'hooks/one.ts': '',
    'hooks/two.ts': '',
    [test]: `import '../../hooks/one.ts'\n${PASSING}`,
    'test/hooks/two.test.ts': `import '../../hooks/two.ts'\n${PASSING}`,
  })
  let text = ''
  const stop = new AbortController()
  const print = (more: string) => (text += more)
  const watching = watchTests({ root, seconds: 60, print }, stop.signal)
  const printed = async (pattern: RegExp) => {
    while (!pattern.test(text)) await sleep(20)
    text = ''
  }
  await printed(/watching/)
  writeFileSync(join(root, test), `import '../../hooks/one.ts'\n${FAILING}`)
  await printed(/one\.test\.ts: 1 test files[^]*1 failed/)
  writeFileSync(join(root, 'hooks/two.ts'), '// changed\n')
  await printed(/two\.ts: 2 test files[^]*1 passed, 1 failed/)
  writeFileSync(join(root, test), `import '../../hooks/one.ts'\n${PASSING}`)
  await printed(/one\.test\.ts: 1 test files[^]*1 passed, 0 failed/)
  writeFileSync(join(root, 'hooks/two.ts'), '// changed again\n')
  await printed(/two\.ts: 1 test files[^]*1 passed, 0 failed/)
  stop.abort()
  await watching
})
