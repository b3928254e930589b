/** The tests that are to notice a change in a pure file. */
import { globSync } from 'node:fs'
import t from 'tap'
import { ROOT, testsOf } from './files.ts'

const testsIn = (folder: string) => globSync(`test/${folder}/*.test.ts`, { cwd: ROOT })

t.test('a shared file is tested by all folders with a file that imports it', async (t) => {
  // By `../data-job/preconditions.ts`.
  const found = testsOf('hooks/data-job/preconditions.ts')
  for (const folder of ['data-job', 'backup', 'restore', 'migration']) {
    const tests = testsIn(`hooks/${folder}`)
    t.ok(tests.length > 0, folder)
    t.strictSame(
      tests.filter((test) => !found.includes(test)),
      [],
      folder,
    )
  }
  t.strictSame(
    found.filter((test) => testsIn('hooks/collection').includes(test)),
    [],
  )
  t.equal(new Set(found).size, found.length)
})

t.test('a file of crds is tested by the folders of hooks that import it', async (t) => {
  // By `../../crds/units.ts`.
  const found = testsOf('crds/units.ts')
  t.strictSame(
    testsIn('hooks/cluster').filter((test) => !found.includes(test)),
    [],
  )
})

t.test('a file that its own folder alone imports is tested there', async (t) => {
  const found = testsOf('hooks/backup/purge-job.ts')
  t.strictSame(found.toSorted(), testsIn('hooks/backup').toSorted())
})
