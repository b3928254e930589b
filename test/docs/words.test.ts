/** The check of words, which lint runs over every tracked file: what it finds, and what it lets pass. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'

const ROOT = join(import.meta.dirname, '../..')
const CHECK = join(ROOT, '.ci/check-words')

/** Without the loader that tap adds to NODE_OPTIONS: it cannot load a module without an extension. */
function run(script: string, args: string[] = [], input = '') {
  const command = ['-u', 'NODE_OPTIONS', process.execPath, script, ...args]
  return spawnSync('env', command, { input, encoding: 'utf8' })
}

/** The check of one file, whose text it reads from its standard input. */
function check(name: string, text: string) {
  const { status, stdout } = run(CHECK, ['--stdin', name], text)
  return { status, lines: stdout.trim().split('\n') }
}

const BAD: [what: string, file: string, text: string, finding: RegExp][] = [
  ['a variable', 'a.ts', 'export const lastWantedRun = 1\n', /^a\.ts:1: lastWantedRun \(wanted\)/],
  ['a property', 'a.ts', 'interface A {\n  told: string\n}\n', /^a\.ts:2: told \(told\)/],
  ['a private field', 'a.ts', 'class A {\n  #room = 1\n}\n', /^a\.ts:2: #room \(room\)/],
  ['a comment', 'a.ts', 'const a = 1\n// Nobody reads it.\n', /^a\.ts:2: Nobody \(write: user/],
  ['a citation', 'a.ts', '/** Seen (facts 6.4). */\n', /^a\.ts:1: facts 6\.4 \(write: the section/],
  ['a string', 'a.ts', "const a = 'made anew'\n", /^a\.ts:1: anew \(write: recreated/],
  ['a template', 'a.ts', 'const a = `${b} is under way`\n', /^a\.ts:1: under way \(write/],
  ['a document', 'a.md', '# A\n\nThe status tells how far it is.\n', /^a\.md:3: tells \(write/],
  ['a template of the chart', 'a.yaml', '# For people\na: 1\n', /^a\.yaml:1: people \(write/],
  ['a file name', 'a/room.ts', 'const a = 1\n', /^a\/room\.ts:1: a\/room\.ts \(room\)/],
]

for (const [what, file, text, finding] of BAD) {
  t.test(
    `a word of the list in ${what} is a finding with its line and a replacement`,
    async (t) => {
      const { status, lines } = check(file, text)
      t.equal(status, 1)
      t.match(lines[0], finding)
      t.equal(lines[1], '1 words of the list in 1 files')
    },
  )
}

t.test(
  'a use of a name that is declared elsewhere, or a word within another, is no finding',
  async (t) => {
    const text = "import { b } from './b.ts'\nconst mushroom = b.told('a classroom')\n"
    t.strictSame(check('a.ts', text), { status: 0, lines: ['0 words of the list in 1 files'] })
  },
)

/** Runs a copy of the check in a new repository that tracks one document with a word of the list. */
function checkRepository(t: Test, path: string, pending: string[], exceptions: object[] = []) {
  const words = readFileSync(join(ROOT, '.ci/word-list.js'), 'utf8')
  const list = words.slice(0, words.indexOf('export const EXCEPTIONS'))
  const folder = t.testdir({
    '.ci': {
      'check-words': readFileSync(CHECK, 'utf8'),
      'word-list.js': [
        list,
        `export const EXCEPTIONS = ${JSON.stringify(exceptions)}`,
        `export const PENDING = ${JSON.stringify(pending)}`,
      ].join('\n'),
    },
    'package.json': '{ "type": "module" }',
    node_modules: t.fixture('symlink', join(ROOT, 'node_modules')),
  })
  mkdirSync(dirname(join(folder, path)), { recursive: true })
  writeFileSync(join(folder, path), 'It is made anew.\n')
  execFileSync('git', ['init', '--quiet', folder])
  execFileSync('git', ['-C', folder, 'add', path])
  const { status, stdout } = run(join(folder, '.ci/check-words'))
  return { status, stdout }
}

t.test(
  'without arguments it checks every tracked file outside the folders that are pending',
  async (t) => {
    const open = checkRepository(t, 'docs/a.md', [])
    t.equal(open.status, 1)
    t.match(open.stdout, /^docs\/a\.md:1: anew /)
    t.match(checkRepository(t, 'docs/a.md', ['hooks/']), { status: 1 })
    const pending = checkRepository(t, 'docs/a.md', ['docs/'])
    t.equal(pending.status, 0)
    t.match(
      pending.stdout,
      /^0 words of the list in 1 files\n1 more in folders that are still open/,
    )
  },
)

t.test('an exception that excuses nothing is a finding', async (t) => {
  const { status, stdout } = checkRepository(
    t,
    'docs/a.md',
    ['docs/'],
    [{ file: 'gone.ts', reason: 'r' }],
  )
  t.equal(status, 1)
  t.match(stdout, /^exception without a use: gone\.ts/)
})

t.test('lint runs the check', async (t) => {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  t.match(scripts['lint'], /&& node \.ci\/check-words &&/)
})
