/** `npm run test:quick` and `npm run test:watch`: the unit tests of what changed, in one process. */
import { parseArgs } from 'node:util'
import { runTests } from './run.ts'
import { changedFiles, selectTests, unitTests, type Selection } from './select.ts'
import { watchTests } from './watch.ts'

const ROOT = new URL('../..', import.meta.url).pathname

const USAGE = `Usage: npm run test:quick -- [options] [files]
  files         test files, or files whose tests to run; default: what differs from --since
  --since REF   a commit (where the branch left main; what is not committed is included)
  --all         all unit tests, without a time limit
  --seconds N   begin no test file that starts servers or processes after so long (20)
  --watch       run the tests of each file that is saved, until Ctrl-C
  --help        print this
Tests without servers and processes are first. Files that did not run are named: npm test runs everything.
`

const FLAGS = {
  since: { type: 'string' },
  all: { type: 'boolean', default: false },
  seconds: { type: 'string', default: '20' },
  watch: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({ options: FLAGS, allowPositionals: true })
  const print = (text: string) => {
    process.stdout.write(text)
  }
  if (values.help) {
    print(USAGE)
    return
  }
  const seconds = Number(values.seconds)
  if (!(seconds > 0)) throw new Error(`--seconds ${values.seconds} is not a number above 0`)
  const options = { root: ROOT, seconds, print }
  if (values.watch) {
    const stop = new AbortController()
    process.once('SIGINT', () => stop.abort())
    await watchTests(options, stop.signal)
    return
  }
  const order = values.all ? everything() : chosenTests(positionals, values.since, print)
  if (order.pure.length + order.starting.length === 0) return
  const outcome = await runTests({ ...options, ...order })
  process.exitCode = outcome.passes ? 0 : 1
}

/** All of them run, however long that takes. */
function everything(): Pick<Selection, 'pure' | 'starting'> {
  return { pure: unitTests(ROOT), starting: [] }
}

function chosenTests(
  given: string[],
  since: string | undefined,
  print: (text: string) => void,
): Selection {
  const changed = given.length > 0 ? { since: '', files: given } : changedFiles(ROOT, since)
  const selection = selectTests(changed.files, ROOT)
  const { pure, starting, untested } = selection
  const where = given.length > 0 ? '' : ` since ${changed.since.slice(0, 8)}`
  print(`${changed.files.length} files${where}, ${pure.length + starting.length} test files\n`)
  if (untested.length > 0) print(`no unit test imports ${untested.join(' ')}\n`)
  return selection
}

main().catch((error: unknown) => {
  process.stderr.write(`test:quick: ${error instanceof Error ? error.message : 'failed'}\n`)
  process.exitCode = 1
})
