/** A small project with a test, outside of this one, for the tests of what changes and copies sources. */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { ROOT } from '../files.ts'

/** `sum.ts`, of which `sum.test.ts` asserts the sum only. */
export function project(t: Test): string {
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
  for (const file of ['preload.ts', 'mutation/sample/record.ts', 'mutation/sample/serve.ts']) {
    cpSync(join(ROOT, 'test', file), join(root, 'test', file))
  }
  symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'))
  writeFileSync(join(root, '.gitignore'), 'node_modules\ndist\n')
  execFileSync('git', ['init', '-q'], { cwd: root })
  return root
}
