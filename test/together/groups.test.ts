/** No test file is lost between tap and the groups, and a group fails for each of its files that does not pass. */
import { spawnSync } from 'node:child_process'
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { filesOf, GROUPS } from './groups.ts'

const ROOT = join(import.meta.dirname, '../..')
const RUN = join(import.meta.dirname, 'run-files.ts')

t.test('every test file is run once: by tap alone, or in one group', async (t) => {
  const { include, exclude } = parse(readFileSync(join(ROOT, '.taprc'), 'utf8')) as {
    include: string[]
    exclude: string[]
  }
  t.strictSame(exclude, ['test/cluster/**', ...Object.values(GROUPS).flat()])
  const all = globSync('test/**/*.test.ts', { cwd: ROOT, exclude: ['test/cluster/**'] })
  const alone = globSync(include, { cwd: ROOT, exclude })
  const grouped = Object.keys(GROUPS).flatMap((group) => filesOf(group, ROOT))
  t.strictSame([...alone, ...grouped].toSorted(), all.toSorted())
  t.ok(grouped.length > 200, `${grouped.length} files in groups`)
  const runners = globSync('test/together/*.test.ts', { cwd: ROOT })
    .filter((file) => file !== 'test/together/groups.test.ts')
    .toSorted()
  t.strictSame(
    runners,
    Object.keys(GROUPS)
      .toSorted()
      .map((group) => `test/together/${group}.test.ts`),
  )
  for (const group of Object.keys(GROUPS)) {
    const text = readFileSync(join(ROOT, `test/together/${group}.test.ts`), 'utf8')
    t.match(text, `runGroup('${group}')`)
  }
})

const PASSING = "t.test('it holds', async (t) => t.ok(true))\n"

/** The files of a group are those of `test/audit`. */
function run(folder: string, files: Record<string, string>) {
  mkdirSync(join(folder, 'test/audit'), { recursive: true })
  for (const [name, text] of Object.entries(files)) {
    const file = join(folder, `test/audit/${name}.test.ts`)
    writeFileSync(file, `import t from 'tap'\n${text}`)
  }
  writeFileSync(
    join(folder, 'main.ts'),
    `import { runGroup } from ${JSON.stringify(RUN)}\nawait runGroup('others', ${JSON.stringify(folder)})\n`,
  )
  const { status, stdout } = spawnSync(process.execPath, [join(folder, 'main.ts')], {
    cwd: folder,
    encoding: 'utf8',
    env: { ...process.env, TAP: '1' },
  })
  const lines = stdout.matchAll(/^(ok|not ok) \d+ - (\S+)/gm)
  return { status, ended: [...lines].map(([, is, what]) => `${is} ${what}`) }
}

t.test(
  'what one file opens is closed before the next begins, and its environment ends',
  async (t) => {
    const { status, ended } = run(t.testdir({}), {
      one: `process.env.LEFT = '1'\nglobalThis.open = true\nt.teardown(() => (globalThis.open = false))\n${PASSING}`,
      two: "t.test('two', async (t) => t.strictSame([process.env.LEFT, globalThis.open], [undefined, false]))\n",
    })
    t.strictSame(ended, ['ok test/audit/one.test.ts', 'ok test/audit/two.test.ts'])
    t.equal(status, 0)
  },
)

t.test(
  'a file that fails, cannot be loaded or has no test fails, and the others run',
  async (t) => {
    const { status, ended } = run(t.testdir({}), {
      bad: "t.test('it does not hold', async (t) => t.equal(1, 2))\n",
      broken: "import './missing.ts'\n",
      empty: '',
      good: PASSING,
      throws: "throw new Error('at its start')\n",
    })
    t.strictSame(ended, [
      'not ok test/audit/bad.test.ts',
      'not ok test/audit/broken.test.ts',
      'not ok test/audit/empty.test.ts',
      'ok test/audit/good.test.ts',
      'not ok test/audit/throws.test.ts',
    ])
    t.equal(status, 1)
  },
)

t.test('a file that ends the process fails its group', async (t) => {
  const { status } = run(t.testdir({}), { exits: 'process.exit(0)\n', good: PASSING })
  t.not(status, 0)
})
