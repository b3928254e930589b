/**
 * The process of `npm run test:quick`: loads one test file after the other and lets its tests end before the
 * next. After the given time no file is loaded that starts servers or processes. The order is in the environment: tap names the folder
 * of a test after the arguments, and the only one, the id of the parent, keeps two runs apart.
 */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { END_OF_FILE } from './report.ts'
import { ORDER, type ProcessOrder } from './run.ts'

/** A test that never ends is ended; on a busy machine all others have time to. */
const MOST_SECONDS = 300

const { root, seconds, pure, starting } = JSON.parse(process.env[ORDER] ?? '') as ProcessOrder
// What a test starts is on its own.
Reflect.deleteProperty(process.env, ORDER)
const stop = performance.now() + seconds * 1000
t.setTimeout((seconds + MOST_SECONDS) * 1000)
for (const file of [...pure, ...starting]) {
  if (performance.now() > stop && starting.includes(file)) break
  try {
    await import(pathToFileURL(join(root, file)).href)
  } catch (error) {
    t.fail(`${file} cannot be loaded: ${String(error)}`)
  }
  await t.test(`${END_OF_FILE}${file}`, async () => undefined)
}
