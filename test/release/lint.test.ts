/** The lint configuration applies to the folders that it is for: a rule whose patterns match no file finds nothing. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { ESLint } from 'eslint'
import t, { type Test } from 'tap'

const OXLINT = resolve('node_modules/.bin/oxlint')
const OXLINT_CONFIG = resolve('.ci/oxlint.config.js')

/** What is found in files with these texts, by path. Not in a folder of the tests, where other rules apply. */
function oxlint(t: Test, files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'lint-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(folder, path, '..'), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  writeFileSync(join(folder, 'tsconfig.json'), '{}')
  // Where it looks for the program that knows types.
  symlinkSync(resolve('node_modules'), join(folder, 'node_modules'))
  const args = ['--config', OXLINT_CONFIG, ...Object.keys(files)]
  // Without what tap loads first into each process of node.
  const command = ['-u', 'NODE_OPTIONS', OXLINT, ...args]
  const { stdout, stderr } = spawnSync('env', command, { cwd: folder, encoding: 'utf8' })
  return stdout + stderr
}

t.test('a circle of imports is found, also of types alone', async (t) => {
  const circle = (folder: string) => ({
    [`${folder}/a.ts`]: "import type { B } from './b.ts'\nexport type A = B | 'a'\n",
    [`${folder}/b.ts`]: "import type { A } from './a.ts'\nexport type B = { a: A }\n",
  })
  for (const folder of ['crds', 'hooks/backup', 'jobs/cluster/shards', 'metacontroller/ports']) {
    t.match(oxlint(t, circle(folder)), 'import(no-cycle)', folder)
  }
  t.notMatch(oxlint(t, circle('test/doubles')), 'no-cycle', 'parts of a double')
})

t.test('an import against the order of the folders is found', async (t) => {
  const eslint = new ESLint({ overrideConfigFile: '.ci/eslint.config.js' })
  const found = async (filePath: string, text: string) => {
    const [result] = await eslint.lintText(text, { filePath })
    return result?.messages.map(({ message }) => message).join('\n') ?? ''
  }
  const cases = [
    ['crds/a.ts', "import '../hooks/b.ts'", /crds does not import hooks/],
    ['hooks/backup/a.ts', "import '../../jobs/b.ts'", /hooks does not import jobs/],
    ['jobs/backup/a.ts', "import '../../hooks/b.ts'", /jobs does not import hooks/],
    ['jobs/clients/a.ts', "import '../../metacontroller/b.ts'", /does not import metacontroller/],
    ['metacontroller/a.ts', "import '../test/b.ts'", /metacontroller does not import test/],
    ['jobs/backup/a.ts', "import 'undici'", /Only jobs\/clients reaches outside/],
    ['hooks/a.ts', 'export const a = /\\s+$/', /more than linear time/],
    ['crds/a.ts', 'export default 1', /Named exports only/],
    ['test/a.test.ts', "t.match(a, ['b'])", /matches a longer list too/],
  ] as const
  for (const [path, text, message] of cases) t.match(await found(path, text), message, path)
  t.equal(await found('jobs/clients/a.ts', "import 'undici'"), '', 'the clients do')
})
