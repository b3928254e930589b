/** Explanations of survivors hold for the lines that they quote, and for no others. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { explained } from './explained.ts'
import { EXPLAINED } from './explanations.ts'
import { ROOT } from './files.ts'

const FILE = 'jobs/backup/create-snapshot.ts'
const LINE = "signal.addEventListener('abort', abort, { once: true })"

/** The mutant at this text of the file. */
function mutantAt(file: string, text: string) {
  const lines = readFileSync(join(ROOT, file), 'utf8').split('\n')
  const index = lines.findIndex((line) => line.includes(text))
  const column = (lines[index] ?? '').indexOf(text) + 1
  const start = { line: index + 1, column }
  const location = { start, end: { ...start, column: column + text.length } }
  return { mutatorName: 'BooleanLiteral', replacement: 'false', status: 'Survived', location }
}

t.test('an explanation by line is for that line alone', async (t) => {
  t.ok(readFileSync(join(ROOT, FILE), 'utf8').includes(LINE))
  const mutant = mutantAt(FILE, 'true })')
  const { start, end } = mutant.location
  const exact = { ...mutant, location: { start, end: { ...end, column: end.column - 3 } } }
  t.equal(explained(FILE, exact), 'a signal aborts once')
  t.equal(explained(FILE, mutantAt(FILE, 'isAccepted: true')), undefined, 'another line')
  t.equal(explained(FILE, { ...exact, mutatorName: 'ObjectLiteral' }), undefined, 'another change')
})

t.test('an explanation by line ends with its line', async (t) => {
  const quoted = EXPLAINED.filter(({ line }) => typeof line === 'string')
  t.not(quoted.length, 0)
  for (const { file = '', line } of quoted) {
    const lines = readFileSync(join(ROOT, file), 'utf8').split('\n')
    const found = lines.filter((text) => text.trim() === line)
    t.equal(found.length, 1, `${file} has once: ${String(line)}`)
  }
})

t.test('an explanation names a file that exists', async (t) => {
  const files = new Set(globSync('{crds,hooks,jobs,metacontroller}/**/*.ts', { cwd: ROOT }))
  const gone = EXPLAINED.filter(({ file }) => file !== undefined && !files.has(file))
  t.strictSame(gone, [])
})
