/**
 * `npm run test:defects`: plants each known defect in a copy, and ends with 1 where its test does not fail.
 * Each copy has one defect at a time.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DEFECTS, type Defect } from './defects.ts'
import { ROOT } from './files.ts'
import { copyOf } from './sample/instrument.ts'
import { baseline, limitOf, run } from './sample/judge.ts'

/** Number of copies: test files wait about as long as they work. */
const COPIES = 3

const [only = ''] = process.argv.slice(2)
const chosen = DEFECTS.filter(({ title, test }) => `${title} ${test}`.includes(only))
const survivors: string[] = []
// What is left for all copies; the defects of one test file stay together, for it is run once without them.
const left = Object.entries(Object.groupBy(chosen, ({ test }) => test)).values()
await Promise.all(Array.from({ length: COPIES }, (_, copy) => work(copy)))
process.stdout.write(`${chosen.length - survivors.length} of ${chosen.length} defects noticed\n`)
process.exitCode = survivors.length === 0 && chosen.length > 0 ? 0 : 1

async function work(copy: number): Promise<void> {
  const folder = join(ROOT, `dist/mutation/planted-${copy}`)
  copyOf(ROOT, folder)
  for (const [test, defects = []] of left) {
    const found = await baseline(folder, test)
    for (const defect of defects) {
      const problem = await problemOf(defect, folder, found?.milliseconds)
      process.stdout.write(`${problem ?? 'noticed'}: ${defect.title} (${test})\n`)
      if (problem !== undefined) survivors.push(defect.title)
    }
  }
}

/**
 * Why nothing is proved; undefined where the test passes without the defect, within these milliseconds,
 * and fails with it.
 */
async function problemOf(
  { file, original, replacement, test }: Defect,
  folder: string,
  milliseconds: number | undefined,
): Promise<string | undefined> {
  const text = readFileSync(join(ROOT, file), 'utf8')
  if (text.split(original).length !== 2) return 'CANNOT BE PLANTED'
  if (milliseconds === undefined) return 'FAILS WITHOUT IT'
  writeFileSync(
    join(folder, file),
    text.replace(original, () => replacement),
  )
  const { is } = await run(folder, test, { limitMs: limitOf(milliseconds) })
  writeFileSync(join(folder, file), text)
  if (is === 'ended') return 'ENDED FROM OUTSIDE'
  return is === 'passed' ? 'SURVIVES' : undefined
}
