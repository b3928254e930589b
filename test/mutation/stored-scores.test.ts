/** A stored score is that of a source and of its tests: when either changes, it no longer holds. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { directTestsOf } from './files.ts'
import { digestOf, isConcerned } from './stored-scores.ts'

function project(t: Test): string {
  return t.testdir({
    hooks: { 'one.ts': 'export const one = 1\n', 'other.ts': 'export const other = 2\n' },
    test: {
      'one.test.ts': [
        "import { helper } from './helper.ts'",
        "import { one } from '../hooks/one.ts'",
        "import { other } from '../hooks/other.ts'",
        '',
      ].join('\n'),
      'helper.ts': "const recorded = './recorded.json'\n",
      'recorded.json': '{}\n',
      'unrelated.ts': '',
    },
  })
}

const CHANGES: [string, boolean][] = [
  ['hooks/one.ts', true],
  ['test/one.test.ts', true],
  ['test/helper.ts', true],
  ['test/recorded.json', true],
  ['test/unrelated.ts', false],
  ['hooks/other.ts', false],
]

for (const [path, isDependency] of CHANGES) {
  const verb = isDependency ? 'ends' : 'does not end'
  t.test(`a change of ${path} ${verb} the stored score of hooks/one.ts`, async (t) => {
    const root = project(t)
    const before = digestOf('hooks/one.ts', ['test/one.test.ts'], root)
    t.equal(digestOf('hooks/one.ts', ['test/one.test.ts'], root), before)
    writeFileSync(join(root, path), '// changed\n')
    const after = digestOf('hooks/one.ts', ['test/one.test.ts'], root)
    t.equal(after !== before, isDependency)
    const tests = ['test/one.test.ts']
    t.equal(isConcerned('hooks/one.ts', [path], { tests, root }), isDependency)
  })
}

t.test('without its test a source has another score', async (t) => {
  const root = project(t)
  t.not(digestOf('hooks/one.ts', [], root), digestOf('hooks/one.ts', ['test/one.test.ts'], root))
})

t.test(
  'a test that was deleted from the folder of the tests of a source concerns it',
  async (t) => {
    const root = project(t)
    const isIt = (path: string) => isConcerned('hooks/one.ts', [path], { tests: [], root })
    t.equal(isIt('test/hooks/gone.test.ts'), true)
    t.equal(isIt('test/hooks/gone.ts'), false, 'no test')
    t.equal(isIt('test/hooks/cluster/gone.test.ts'), false, 'of another folder')
  },
)

t.test('a test of the folder concerns a source that it loads through another file', async (t) => {
  const file = 'hooks/backup/purge-job.ts'
  const changed = ['test/hooks/backup/hooks.test.ts']
  t.notOk(directTestsOf(file).includes(changed[0] ?? ''), 'it does not import it itself')
  t.equal(isConcerned(file, changed), true)
  t.equal(isConcerned(file, ['test/hooks/collection/sync.test.ts']), false)
})
