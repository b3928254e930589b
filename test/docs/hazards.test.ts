/** Every hazard of docs/hazards.md has a scenario or a test with its number, or is documented there. */
import { globSync, readFileSync } from 'node:fs'
import t from 'tap'
import { SUITE } from '../scenarios/suite.ts'
import { ROOT } from './pages.ts'

const ROWS = [...readFileSync(`${ROOT}docs/hazards.md`, 'utf8').matchAll(/^\| (H\d+) .*$/gm)]
/** Tests outside of the scenarios. */
const FILES = globSync('test/{faults,hooks/cluster,hooks/collection,jobs/cluster}/**/*.test.ts', {
  cwd: ROOT,
})
const CALLS = [...FILES, 'test/cluster/run.ts'].flatMap((file) =>
  titlesOfCalls(readFileSync(ROOT + file, 'utf8')),
)
const TESTED = [...SUITE.map(({ title }) => title), ...CALLS].flatMap(hazardsOf)

/** The titles of calls of `t.test`; text elsewhere, as in a comment or in a message, is no test. */
function titlesOfCalls(source: string): string[] {
  const calls = source.matchAll(/^ *(?:await )?t\.test\(\s*(['"`])(H\d.*?)\1,/gm)
  return [...calls].map(([, , title = '']) => title)
}

/** The hazards that a title names before its colon. */
function hazardsOf(title: string): string[] {
  return /^(H\d+(?:, H\d+)*): /.exec(title)?.[1]?.split(', ') ?? []
}

t.test('only the title of a test or of a scenario shows a hazard', async (t) => {
  const source = [
    "t.test('H1: a', async () => {})",
    '  await t.test(\n    `H2, H3: b`,\n    async () => {})',
    "// t.test('H4: c', async () => {})",
    "const known = 'H5: d'",
    "t.equal(found, 'H6: e', 'H7: f')",
    "t.test('a hazard: H8: g', async () => {})",
    "t.skip('H9: h', async () => {})",
  ].join('\n')
  t.strictSame(titlesOfCalls(source).flatMap(hazardsOf), ['H1', 'H2', 'H3'])
})

t.test('docs/hazards.md has twenty-four hazards', async (t) => {
  const letters = Array.from({ length: 24 }, (_, index) => `H${index + 1}`)
  t.strictSame(
    ROWS.map(([, letter]) => letter),
    letters,
  )
})

for (const [row, letter = ''] of ROWS) {
  t.test(`${letter} has a test, or is documented with its reason`, async (t) => {
    t.equal(TESTED.includes(letter), !row.includes('Documented: [below]'))
  })
}
