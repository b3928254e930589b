/** The sampler: which mutants it creates, and that it distinguishes a detected one from a survivor. */
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { execFileSync } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ROOT } from '../files.ts'
import { instrumentedCopy } from './instrument.ts'
import { baseline, judge } from './judge.ts'
import { isLogged, loggedIn } from './logged.ts'

t.test('arguments of log calls are found, and nothing else', async (t) => {
  const text = `tools.log.info({ a }, 'said')\nlog.warn('x')\nconsole.info('shown')\nlog.child({ b: 'c' })`
  const ranges = loggedIn(text)
  const isIn = (part: string) => isLogged(ranges, text.indexOf(part), text.indexOf(part) + 3)
  t.ok(isIn("'said'"))
  t.ok(isIn("'x'"))
  t.notOk(isIn("'shown'"))
  t.notOk(isIn("'c'"))
})

t.test(
  'what a test asserts is killed, what it only calls survives, the rest is not covered',
  async (t) => {
    const root = project(t)
    const { folder, mutants } = await instrumentedCopy(root, join(root, 'dist'), ['sum.ts'])
    const test = await baseline(folder, 'sum.test.ts')
    if (test === undefined) throw new Error('the test fails without a change')
    const verdicts = new Map<string, string>()
    for (const mutant of mutants) {
      const { is } = await judge(folder, mutant, [test])
      verdicts.set(`${mutant.line} ${mutant.original} -> ${mutant.replacement}`, is)
    }
    t.match(Object.fromEntries(verdicts), {
      '2 a + b -> a - b': 'killed',
      '5 a * b -> a / b': 'survived',
      '8 a - b -> a + b': 'not covered',
    })
    t.equal([...verdicts.keys()].filter((name) => name.startsWith('11 ')).length, 0, 'only logged')
  },
)

t.test('a test that fails without a change judges nothing', async (t) => {
  const root = project(t)
  writeFileSync(join(root, 'sum.test.ts'), 'throw new Error("always")')
  const { folder } = await instrumentedCopy(root, join(root, 'dist'), ['sum.ts'])
  t.equal(await baseline(folder, 'sum.test.ts'), undefined)
})

/** A repository with one source and one test of it. */
function project(t: Test): string {
  const root = mkdtempSync(join(tmpdir(), 'vec-sample-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  writeFileSync(
    join(root, 'sum.ts'),
    [
      'export function sum(a: number, b: number): number {',
      '  return a + b',
      '}',
      'export function product(a: number, b: number): number {',
      '  return a * b',
      '}',
      'export function difference(a: number, b: number): number {',
      '  return a - b',
      '}',
      'export function say(log: { info: (line: string) => void }): void {',
      "  log.info('said')",
      '}',
    ].join('\n'),
  )
  writeFileSync(
    join(root, 'sum.test.ts'),
    [
      "import t from 'tap'",
      "import { product, sum } from './sum.ts'",
      't.equal(sum(1, 2), 3)',
      'product(1, 2)',
    ].join('\n'),
  )
  writeFileSync(join(root, 'package.json'), '{"type":"module"}')
  mkdirSync(join(root, 'test/mutation/sample'), { recursive: true })
  for (const file of ['test/preload.ts', 'test/mutation/sample/record.ts']) {
    cpSync(join(ROOT, file), join(root, file))
  }
  symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'))
  writeFileSync(join(root, '.gitignore'), 'node_modules\ndist\n')
  execFileSync('git', ['init', '-q'], { cwd: root })
  return root
}
