/**
 * `npm run test:defects`: plants each known defect in a copy, and ends with 1 where its test does not fail.
 * Each copy has one defect at a time.
 */
import { DEFECTS } from './defects.ts'
import { ROOT } from './files.ts'
import { plant } from './plant.ts'

/** Number of copies: test files wait about as long as they work. */
const COPIES = 3

const [only = ''] = process.argv.slice(2)
const chosen = DEFECTS.filter(({ title, test }) => `${title} ${test}`.includes(only))
const print = (line: string) => void process.stdout.write(`${line}\n`)
const areNoticed = await plant(chosen, { root: ROOT, copies: COPIES, print })
process.exitCode = areNoticed ? 0 : 1
