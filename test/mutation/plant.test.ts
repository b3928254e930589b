/** A known defect that its test does not notice, or that proves nothing, fails the run. */
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Defect } from './defects.ts'
import { plant } from './plant.ts'
import { project } from './sample/project.ts'

const NOTICED: Defect = {
  title: 'a wrong sum',
  ...{ file: 'sum.ts', original: 'a + b', replacement: 'a - b', test: 'sum.test.ts' },
}
const SURVIVES = {
  ...{ ...NOTICED, title: 'a wrong product' },
  ...{ original: 'a * b', replacement: 'a / b' },
}
const ABSENT = { ...NOTICED, title: 'a wrong quotient', original: 'a / b' }

async function planted(root: string, defects: Defect[]) {
  const lines: string[] = []
  const passes = await plant(defects, { root, copies: 1, print: (line) => void lines.push(line) })
  return { passes, lines }
}

t.test('a defect that its test notices passes', async (t) => {
  t.strictSame(await planted(project(t), [NOTICED]), {
    passes: true,
    lines: ['noticed: a wrong sum (sum.test.ts)', '1 of 1 defects noticed'],
  })
})

t.test(
  'a defect that survives, or cannot be planted, fails the run although another one is noticed',
  async (t) => {
    t.strictSame(await planted(project(t), [SURVIVES, NOTICED, ABSENT]), {
      passes: false,
      lines: [
        'SURVIVES: a wrong product (sum.test.ts)',
        'noticed: a wrong sum (sum.test.ts)',
        'CANNOT BE PLANTED: a wrong quotient (sum.test.ts)',
        '1 of 3 defects noticed',
      ],
    })
  },
)

t.test('a test that fails without the defect, and no defect at all, fail', async (t) => {
  const root = project(t)
  t.strictSame(await planted(root, []), { passes: false, lines: ['0 of 0 defects noticed'] })
  appendFileSync(join(root, 'sum.test.ts'), '\nthrow new Error("always")\n')
  t.strictSame(await planted(root, [NOTICED]), {
    passes: false,
    lines: ['FAILS WITHOUT IT: a wrong sum (sum.test.ts)', '0 of 1 defects noticed'],
  })
})
