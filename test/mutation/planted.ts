/** `npm run test:defects`: plants each known defect in a copy, and ends with 1 where its test does not fail. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DEFECTS, type Defect } from './defects.ts'
import { ROOT } from './files.ts'
import { copyOf } from './sample/instrument.ts'
import { run } from './sample/judge.ts'

const [only = ''] = process.argv.slice(2)
const folder = join(ROOT, 'dist/mutation/planted')
copyOf(ROOT, folder)
const chosen = DEFECTS.filter(({ title, test }) => `${title} ${test}`.includes(only))
const survivors: string[] = []
/** Whether a test file passes without a defect. */
const baselines = new Map<string, boolean>()
for (const defect of chosen) {
  const found = await noticed(defect)
  process.stdout.write(`${found ?? 'noticed'}: ${defect.title} (${defect.test})\n`)
  if (found !== undefined) survivors.push(defect.title)
}
process.stdout.write(`${chosen.length - survivors.length} of ${chosen.length} defects noticed\n`)
process.exitCode = survivors.length === 0 && chosen.length > 0 ? 0 : 1

/** Why nothing is proved; undefined where the test passes without the defect and fails with it. */
async function noticed({ file, original, replacement, test }: Defect): Promise<string | undefined> {
  const text = readFileSync(join(ROOT, file), 'utf8')
  if (text.split(original).length !== 2) return 'CANNOT BE PLANTED'
  const passes = baselines.get(test) ?? (await run(folder, test)).is === 'passed'
  baselines.set(test, passes)
  if (!passes) return 'FAILS WITHOUT IT'
  writeFileSync(
    join(folder, file),
    text.replace(original, () => replacement),
  )
  const { is } = await run(folder, test)
  writeFileSync(join(folder, file), text)
  return is === 'passed' ? 'SURVIVES' : undefined
}
