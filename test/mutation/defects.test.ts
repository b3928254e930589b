import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { DEFECTS } from './defects.ts'
import { ROOT } from './files.ts'

t.test('each known defect can be planted: its line is in its file exactly once', async (t) => {
  for (const { title, file, original, replacement, test } of DEFECTS) {
    const text = readFileSync(join(ROOT, file), 'utf8')
    t.equal(text.split(original).length - 1, 1, `${title} (${file})`)
    t.not(replacement, original, title)
    t.ok(existsSync(join(ROOT, test)), test)
  }
})
