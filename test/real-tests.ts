/**
 * `npm run test:real [PATTERN]`: the tests that need real parts, one file after the other. Fails if a part is
 * missing, and if a test was skipped all the same.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { describeRealParts, useRealParts } from './real-parts.ts'

/** What the tests ask the environment for. */
const NEEDS_PART = /\b(?:ENGINE_BIN|METACONTROLLER_BIN|S3_BIN)\b/

const parts = useRealParts(process.env)
process.stdout.write(`${describeRealParts(parts)}\n`)
if (
  parts.ENGINE_BIN === undefined ||
  parts.METACONTROLLER_BIN === undefined ||
  parts.S3_BIN === undefined
) {
  process.stdout.write('parts are missing: see docs/contributing.md\n')
  process.exit(2)
}

const pattern = new RegExp(process.argv[2] ?? '')
const files = globSync('test/**/*.test.ts')
  .filter((file) => pattern.test(file) && NEEDS_PART.test(readFileSync(file, 'utf8')))
  .toSorted()
const args = ['tap', '--reporter=tap', '--disable-coverage', '--jobs=1', '--timeout=1800', ...files]
const tap = spawn('npx', args, { stdio: ['ignore', 'pipe', 'inherit'] })
const untested: string[] = []
createInterface(tap.stdout).on('line', (line) => {
  process.stdout.write(`${line}\n`)
  if (/^ *ok .*# SKIP/.test(line) && NEEDS_PART.test(line)) untested.push(line.trim())
})
const [status] = (await once(tap, 'close')) as [number | null]
for (const line of untested) process.stdout.write(`not tested: ${line}\n`)
process.exitCode = status === 0 && untested.length === 0 ? 0 : 1
