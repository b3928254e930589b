/** Every hazard of docs/hazards.md has a scenario or a test with its number, or is documented there. */
import { globSync, readFileSync } from 'node:fs'
import t from 'tap'
import { ROOT } from './pages.ts'

const ROWS = [...readFileSync(`${ROOT}docs/hazards.md`, 'utf8').matchAll(/^\| (H\d+) .*$/gm)]
const TITLES = globSync('test/{scenarios,faults,cluster,hooks/cluster}/**/*.ts', { cwd: ROOT })
  .map((file) => readFileSync(ROOT + file, 'utf8'))
  .flatMap((text) => [...text.matchAll(/['"`]((?:H\d+(?:, )?)+): /g)])
  .flatMap(([, letters = '']) => letters.split(', '))

t.test('docs/hazards.md has twenty-two hazards', async (t) => {
  const letters = Array.from({ length: 22 }, (_, index) => `H${index + 1}`)
  t.strictSame(
    ROWS.map(([, letter]) => letter),
    letters,
  )
})

for (const [row, letter = ''] of ROWS) {
  t.test(`${letter} has a test, or is documented with its reason`, async (t) => {
    t.equal(TITLES.includes(letter), !row.includes('Documented: [below]'))
  })
}
