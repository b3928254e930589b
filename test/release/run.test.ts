/**
 * What makes `.ci/run` fail. npm, go and git are stand-ins that end as a case says: what is checked is what the
 * script counts, and that nothing that fails, is missing or is skipped ends as a success.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'

const ROOT = join(import.meta.dirname, '../..')
const STAND_INS = 'real parts: engine a stand-in, chart a stand-in'
const REAL = 'real parts: engine 1.18.3, chart 1.18.3'
const CONTRACTS = 'npm run --silent test:real -- ^test/contract/'

/** What a call prints, and its code; other calls print nothing and end with 0. */
type Answers = Record<string, { prints?: string; code?: number }>

const FINE: Answers = {
  'npm run --silent real-parts': { prints: STAND_INS },
  'npm test --silent': { prints: 'ok 1 - a\n# { total: 5, pass: 5 }' },
  'npm run --silent test:cluster': { prints: 'ok 1 - b\n# { total: 7, pass: 7 }' },
}

/** Runs `.ci/run` in a copy of the files that it reads. */
function run(t: Test, changed: Answers = {}) {
  const root = t.testdir({ bin: {}, '.ci': { skips: '2 x no engine is here\n' } })
  for (const path of ['.ci/run', '.ci/new-skips']) cpSync(join(ROOT, path), join(root, path))
  const log = join(root, 'calls')
  writeFileSync(log, '')
  const cases = Object.entries({ ...FINE, ...changed }).map(
    ([call, { prints = '', code = 0 }]) => `'${call}') echo '${prints}'; exit ${code} ;;`,
  )
  const standIn = `#!/bin/bash
call="\${0##*/} $*"
echo "$call" >>'${log}'
case $call in
${cases.join('\n')}
'git '*) echo 0123456789 ;;
esac
`
  for (const program of ['npm', 'go', 'git']) {
    writeFileSync(join(root, 'bin', program), standIn)
    chmodSync(join(root, 'bin', program), 0o755)
  }
  mkdirSync(join(root, 'tmp'))
  const { status, stdout } = spawnSync(join(root, '.ci/run'), [], {
    encoding: 'utf8',
    env: {
      PATH: `${join(root, 'bin')}:${process.env['PATH'] ?? ''}`,
      ...{ TMPDIR: join(root, 'tmp'), XDG_CACHE_HOME: join(root, 'cache') },
    },
  })
  const [, passed, failed] = /^(\d+) passed, (\d+) failed$/m.exec(stdout) ?? []
  return {
    ...{ code: status, passed: Number(passed), failed: Number(failed) },
    lines: stdout.trimEnd().split('\n'),
    failures: stdout.split('\n').filter((line) => line.startsWith('FAILED')),
    calls: readFileSync(log, 'utf8').split('\n'),
  }
}

t.test('a run in which all holds counts checks and tests, and names the real parts', async (t) => {
  const { code, passed, failures, lines, calls } = run(t)
  const checks = lines.filter((line) => line.startsWith('=== ') && !line.includes('begins'))
  // The line of the real parts, and both suites, are no checks.
  t.equal(passed, checks.length - 3 + 5 + 7)
  t.strictSame(failures, [])
  t.strictSame(lines.slice(-2), [STAND_INS, `${passed} passed, 0 failed`])
  t.equal(code, 0)
  t.notOk(calls.includes(CONTRACTS))
})

t.test('where all parts are real, the contracts are run and counted', async (t) => {
  const parts = { 'npm run --silent real-parts': { prints: REAL } }
  const contracts = { [CONTRACTS]: { prints: '# { total: 9, pass: 9 }' } }
  const { code, passed, lines } = run(t, { ...parts, ...contracts })
  t.equal(passed, run(t).passed + 9)
  t.strictSame(lines.slice(-2), [REAL, `${passed} passed, 0 failed`])
  t.equal(code, 0)
  const { failures, code: without } = run(t, parts)
  t.strictSame(failures, ['FAILED: contracts on the real parts ended with code 0 after 0 tests'])
  t.equal(without, 1)
})

t.test('each check that fails is named and counted, and the others are run', async (t) => {
  const whole = run(t)
  const title = (call: string) => {
    const { code, passed, failed, failures } = run(t, { [call]: { code: 1 } })
    t.strictSame({ code, passed, failed }, { code: 1, passed: whole.passed - 1, failed: 1 }, call)
    return failures
  }
  t.strictSame(title('npm run --silent lint'), ['FAILED: lint'])
  t.strictSame(title('npm run --silent typecheck'), ['FAILED: types'])
  t.strictSame(title('npm run --silent generate:check'), ['FAILED: generated files'])
  t.strictSame(title('npm run --silent test:defects'), ['FAILED: known defects'])
  t.strictSame(title('npm run --silent test:model -- --short'), ['FAILED: states'])
})

t.test('nothing is run after an installation that failed', async (t) => {
  const call = 'npm ci --no-progress --no-audit --no-fund'
  const { code, calls, failures } = run(t, { [call]: { code: 1 } })
  t.equal(code, 1)
  t.strictSame(failures, ['FAILED: npm ci'])
  t.strictSame(calls, [call, ''])
})

t.test('a suite fails for a failed test, for its code, and when it tests nothing', async (t) => {
  const others = run(t).passed - 5
  const suite = (prints: string, code: number) => {
    const ended = run(t, { 'npm test --silent': { prints, code } })
    t.equal(ended.code, 1)
    return { ...ended, passed: ended.passed - others }
  }
  const oneFailed = suite('# { total: 5, pass: 4, fail: 1 }', 1)
  t.strictSame([oneFailed.passed, oneFailed.failed], [4, 1])
  const unsaid = suite('# { total: 5, pass: 5 }', 1)
  t.strictSame([unsaid.passed, unsaid.failed], [5, 1])
  t.strictSame(unsaid.failures, ['FAILED: npm test ended with code 1 after 5 tests'])
  const silent = suite('nothing to say', 0)
  t.strictSame([silent.passed, silent.failed], [0, 1])
  t.strictSame(silent.failures, ['FAILED: npm test ended with code 0 after 0 tests'])
})

t.test('a skipped test that is not on the list fails the run', async (t) => {
  const skips = (...titles: string[]) => {
    const prints = titles.map((title, index) => `    ok ${index} - ${title} # SKIP`).join('\n')
    const counts = `${prints}\n# { total: 5, pass: 5 }`
    return run(t, { 'npm test --silent': { prints: counts } })
  }
  t.equal(skips('no engine is here', 'no engine is here').code, 0)
  const { code, failed, lines } = skips('no engine is here', 'it is late')
  t.strictSame({ code, failed }, { code: 1, failed: 1 })
  t.ok(lines.includes('1 x it is late (listed: 0)'))
  const listed = { prints: '# SKIP\n  ok 1 - it is late # SKIP\n# { total: 7, pass: 7 }' }
  t.equal(run(t, { 'npm run --silent test:cluster': listed }).code, 1, 'of each suite')
})
