/** The program of the image: it needs no other files, and has the version of the sources. */
import { execFile } from 'node:child_process'
import { cpSync, globSync, readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname, join, normalize } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { USAGE } from '../../metacontroller/options.ts'
import { cliVersion } from '../../jobs/kubectl/command.ts'
import { program } from '../program.ts'

const ENTRIES = [
  'jobs/main.js',
  'metacontroller/install-check.js',
  'metacontroller/serve.js',
  'metacontroller/uninstall-check.js',
]
const app = await program()
const files = globSync('**/*.js', { cwd: app })
const text = (file: string) => readFileSync(join(app, file), 'utf8')

t.test(
  'the program needs no package: its imports are modules of Node or files next to it',
  async (t) => {
    const missing: string[] = []
    for (const file of files) {
      const imported = /^(?:import|export) (?:.* from )?"(.+)";$|\bimport\("(.+?)"\)/gm
      for (const [, one, other] of text(file).matchAll(imported)) {
        const name = one ?? other ?? ''
        const isThere = name.startsWith('.') && files.includes(normalize(join(dirname(file), name)))
        if (!isThere && !isBuiltin(name)) missing.push(`${file} imports ${name}`)
      }
    }
    t.strictSame(missing, [])
  },
)

t.test('only the entry points of the chart and the hooks run on import', async (t) => {
  const started = files.filter((file) => text(file).includes('import.meta.main'))
  t.strictSame(started.toSorted(), ENTRIES)
})

t.test('the program runs in an empty folder', async (t) => {
  const folder = t.testdir()
  cpSync(app, folder, { recursive: true })
  const run = async (...args: string[]) =>
    (await promisify(execFile)(process.execPath, args, { cwd: folder, env: {} })).stdout
  t.equal(await run('jobs/main.js', '--version'), `vec-operator ${cliVersion()}\n`)
  t.equal(await run('metacontroller/serve.js', '--help'), USAGE)
})
