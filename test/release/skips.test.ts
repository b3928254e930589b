/** `.ci/new-skips`: a test that is skipped must be listed, with the number of tests that say the same. */
import { spawnSync } from 'node:child_process'
import { cpSync, globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'

const CI = join(import.meta.dirname, '../../.ci')

function newSkips(t: Test, log: string) {
  const folder = t.testdir({ skips: '2 x no engine\nno store\n' })
  cpSync(join(CI, 'new-skips'), join(folder, 'new-skips'))
  writeFileSync(join(folder, 'log'), log)
  const { status, stdout } = spawnSync(join(folder, 'new-skips'), [join(folder, 'log')], {
    encoding: 'utf8',
  })
  return { status, stdout }
}

t.test('skips that are listed pass', async (t) => {
  const log = `ok 1 - a test # time=1ms
    ok 1 - no engine # SKIP
ok 2 - no engine # SKIP
    ok 7 - no store # SKIP S3_BIN is not set
`
  t.strictSame(newSkips(t, log), { status: 0, stdout: '' })
  t.strictSame(newSkips(t, 'ok 1 - a test\n'), { status: 0, stdout: '' })
})

t.test('a skip that is not listed fails', async (t) => {
  t.strictSame(newSkips(t, 'ok 3 - no cluster # SKIP\nok 4 - no store # SKIP\n'), {
    status: 1,
    stdout: '1 x no cluster (listed: 0)\n',
  })
})

t.test('one more test that says what another one says fails', async (t) => {
  const line = '    ok 1 - no engine # SKIP\n'
  t.strictSame(newSkips(t, line.repeat(3)), { status: 1, stdout: '3 x no engine (listed: 2)\n' })
})

t.test('the list has each title once', async (t) => {
  const titles = readFileSync(join(CI, 'skips'), 'utf8')
    .split('\n')
    .map((line) => line.replace(/^\d+ x /, ''))
  t.equal(new Set(titles).size, titles.length)
})

t.test('reasons of test files that skip themselves without a real part are listed', async (t) => {
  const root = join(CI, '..')
  const said = globSync('test/**/*.test.ts', { cwd: root }).flatMap((file) => {
    const code = readFileSync(join(root, file), 'utf8')
    return [...code.matchAll(/\.pass\('([^']+)', \{ skip: true \}\)/g)].map(([, title]) => title)
  })
  t.ok(said.length > 20, `${said.length} found`)
  const log = join(t.testdir(), 'log')
  writeFileSync(log, said.map((title) => `ok 1 - ${title} # SKIP\n`).join(''))
  const { stdout } = spawnSync(join(CI, 'new-skips'), [log], { encoding: 'utf8' })
  t.equal(stdout, '')
})
