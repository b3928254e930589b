/** Plants defects in copies of a project, and looks whether their tests fail with them. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Defect } from './defects.ts'
import { copyOf } from './sample/instrument.ts'
import { baseline, limitOf, run } from './sample/judge.ts'

interface Options {
  root: string
  copies: number
  print: (line: string) => void
}

/** Prints what became of each defect. Whether all are noticed, and there is one. */
export async function plant(
  defects: readonly Defect[],
  { root, copies, print }: Options,
): Promise<boolean> {
  let noticed = 0
  // What is left for all copies; the defects of one test file stay together, for it is run once without them.
  const left = Object.entries(Object.groupBy(defects, ({ test }) => test)).values()
  const work = async (copy: number) => {
    const folder = join(root, `dist/mutation/planted-${copy}`)
    copyOf(root, folder)
    for (const [test, ones = []] of left) {
      const found = await baseline(folder, test)
      for (const defect of ones) {
        const problem = await problemOf(defect, { root, folder, milliseconds: found?.milliseconds })
        print(`${problem ?? 'noticed'}: ${defect.title} (${test})`)
        if (problem === undefined) noticed += 1
      }
    }
  }
  await Promise.all(Array.from({ length: copies }, (_, copy) => work(copy)))
  print(`${noticed} of ${defects.length} defects noticed`)
  return noticed === defects.length && noticed > 0
}

/**
 * Why nothing is proved; undefined where the test passes without the defect, within these milliseconds,
 * and fails with it.
 */
async function problemOf(
  { file, original, replacement, test }: Defect,
  {
    root,
    folder,
    milliseconds,
  }: { root: string; folder: string; milliseconds: number | undefined },
): Promise<string | undefined> {
  const text = readFileSync(join(root, file), 'utf8')
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
