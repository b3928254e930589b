/** The gate on what comes from others fails for each kind of thing that it names, and passes without them. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'

const SCRIPT = readFileSync(join(import.meta.dirname, '../../.ci/supply-chain'), 'utf8')
const SHA = 'a'.repeat(40)
const PACKAGE = {
  ...{ version: '1.0.0', license: 'MIT', integrity: 'sha512-x' },
  resolved: 'https://registry.npmjs.org/one/-/one-1.0.0.tgz',
}

interface Project {
  one?: object
  npmrc?: string
  workflow?: string
  dockerfile?: string
}

function run(t: Test, project: Project) {
  const {
    one = {},
    npmrc = 'ignore-scripts=true',
    workflow = `    image: golang:1.26.1\n      - uses: actions/checkout@${SHA}`,
    dockerfile = 'ARG NODE=docker.io/node:24.1.0-slim',
  } = project
  const packages = { '': {}, 'node_modules/one': { ...PACKAGE, ...one } }
  const folder = t.testdir({
    'package.json': '{"type":"module"}',
    'package-lock.json': JSON.stringify({ packages }),
    '.npmrc': `${npmrc}\n`,
    Dockerfile: `${dockerfile}\n`,
    '.ci': { 'supply-chain.mjs': SCRIPT },
    '.github': { workflows: { 'ci.yaml': `${workflow}\n` } },
  })
  const script = join(folder, '.ci/supply-chain.mjs')
  const { status, stdout } = spawnSync(process.execPath, [script], { encoding: 'utf8' })
  return { status, lines: stdout.trim().split('\n') }
}

t.test('a project in which all is pinned and free passes', async (t) => {
  const lines = ['1 packages, 0 of them or of the pins wrong']
  t.strictSame(run(t, {}), { status: 0, lines })
})

const WRONG: [project: Project, words: string][] = [
  [{ one: { license: undefined } }, 'one names no licence'],
  [{ one: { license: 'GPL-3.0' } }, 'one is under GPL-3.0'],
  [{ one: { license: 'CC-BY-4.0' } }, 'one is under CC-BY-4.0'],
  [{ one: { hasInstallScript: true } }, 'one runs a script when it is installed'],
  [{ one: { integrity: undefined } }, 'one has no integrity'],
  [
    { one: { resolved: 'git+ssh://git@example.org/one.git' } },
    'one comes from no registry: git+ssh://git@example.org/one.git',
  ],
  [{ npmrc: 'fund=false' }, '.npmrc lets packages run scripts'],
  [
    { workflow: '      - uses: actions/checkout@v5' },
    'ci.yaml: actions/checkout@v5 is not pinned by its commit',
  ],
  [{ workflow: '    image: golang:latest' }, 'ci.yaml: golang:latest is not pinned by its version'],
  [
    { workflow: '        node: kindest/node:v1' },
    'ci.yaml: kindest/node:v1 is not pinned by its version',
  ],
  [
    { dockerfile: 'ARG NODE=docker.io/node:24' },
    'Dockerfile: docker.io/node:24 is not pinned by its version',
  ],
]

for (const [project, words] of WRONG) {
  t.test(`fails: ${words}`, async (t) => {
    const lines = [words, '1 packages, 1 of them or of the pins wrong']
    t.strictSame(run(t, project), { status: 1, lines })
  })
}
