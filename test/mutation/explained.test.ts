/** Explanations of survivors hold for the lines and changes that they quote, and for no others. */
import t from 'tap'
import { matchWhole } from '../match-whole.ts'
import { changedLines, changeOf, expired, explained, type Explanations } from './explained.ts'
import { EXPLAINED } from './explanations.ts'
import { gate } from './gate.ts'
import type { Mutant } from './score.ts'

const FILE = 'hooks/example.ts'
const LINES = ['function example() {', "  const [a = '0', b = '0'] = parts", '}', '']
const LINE = "const [a = '0', b = '0'] = parts"
const FIRST = 'StringLiteral: \'0\' -> ""'
const SECOND = 'StringLiteral: \'0\' #2 -> ""'
const ALL: Explanations = {
  [FILE]: [{ line: LINE, changes: [FIRST, SECOND], why: 'an absent part counts as nothing' }],
}

/** The literal of the line of this variable is empty. */
function emptied(variable: 'a' | 'b', lines = LINES): Mutant {
  const index = lines.findIndex((text) => text.includes(`${variable} = '0'`))
  const column = (lines[index] ?? '').indexOf(`${variable} = '0'`) + 5
  const start = { line: index + 1, column }
  const location = { start, end: { ...start, column: column + 3 } }
  return { mutatorName: 'StringLiteral', replacement: '""', status: 'Survived', location }
}

t.test('an explanation is for one line, and for the changes that it names', async (t) => {
  const why = (mutant: Mutant, file = FILE, lines = LINES) =>
    explained(file, mutant, { all: ALL, lines })
  t.equal(why(emptied('a')), 'an absent part counts as nothing')
  t.equal(changeOf(LINES, emptied('b')), SECOND, 'equal texts of a line differ by their number')
  t.equal(why({ ...emptied('a'), replacement: '"1"' }), undefined, 'another replacement')
  t.equal(why({ ...emptied('a'), mutatorName: 'ArrayDeclaration' }), undefined, 'another kind')
  t.equal(why(emptied('a'), 'hooks/other.ts'), undefined, 'another file')
  const moved = ['', '', ...LINES]
  t.equal(why(emptied('a', moved), FILE, moved), 'an absent part counts as nothing', 'it moved')
  const changed = LINES.map((line) => line.replace('parts', 'pieces'))
  t.equal(why(emptied('a', changed), FILE, changed), undefined, 'its line has changed')
})

t.test('of equal lines an explanation can name one', async (t) => {
  const lines = [...LINES, ...LINES]
  const one = { line: LINE, times: 2, nth: 2, changes: [FIRST], why: 'the second' }
  const all: Explanations = { [FILE]: [one] }
  const first = emptied('a', lines)
  const { start, end = start } = first.location
  const later = (at: typeof start) => ({ ...at, line: at.line + LINES.length })
  const second = { ...first, location: { start: later(start), end: later(end) } }
  t.equal(explained(FILE, first, { all, lines }), undefined)
  t.equal(explained(FILE, second, { all, lines }), 'the second')
  t.strictSame(expired({ file: FILE, missed: [second] }, all, lines), [])
  t.equal(expired({ file: FILE, missed: [first] }, all, lines).length, 1)
})

t.test('an explanation expires when its line changes, goes, or is there once more', async (t) => {
  const found = (lines: string[]) => changedLines(ALL, () => lines)
  t.strictSame(found(LINES), [])
  const gone = `${FILE}: 1 times expected, 0 times found: ${LINE}`
  t.strictSame(found(LINES.map((line) => line.replace('parts', 'pieces'))), [gone])
  t.strictSame(found([...LINES, LINE]), [gone.replace('0 times', '2 times')])
})

t.test('an explanation expires when a test notices its change', async (t) => {
  const found = (missed: Mutant[]) => expired({ file: FILE, missed }, ALL, LINES)
  t.strictSame(found([emptied('a'), emptied('b')]), [])
  t.strictSame(found([emptied('a')]), [`${FILE}: ${SECOND} on the line ${LINE}`])
  t.equal(found([]).length, 2)
})

t.test('the gate fails for what has expired and says so, with its scope', async (t) => {
  const score = { file: 'crds/units.ts', of: '', killed: 9, missed: [] }
  const scope = { files: 1, lines: 80, ofFiles: 400, ofLines: 40_000 }
  const nothing = { changed: [], expired: [], scope }
  const last = (words: string) =>
    `${words}; 80 lines, of 400 files with 40000 lines of the operator`
  matchWhole(t, gate([score], nothing), {
    passes: true,
    lines: [
      last('1 of 1 files: 9 of 9 noticed, 0 explained, 0 not, 0 explanations expired: 100 %'),
    ],
  })
  matchWhole(t, gate([score], { ...nothing, changed: ['a line'] }), {
    passes: false,
    lines: ['explanation of a line that has changed: a line', /1 explanations expired/],
  })
  matchWhole(t, gate([score], { ...nothing, expired: ['a change'] }), {
    passes: false,
    lines: ['explanation of a change that does not survive: a change', /1 explanations expired/],
  })
  matchWhole(t, gate([{ ...score, missed: [emptied('a')] }], nothing), {
    passes: false,
    lines: [
      last('1 of 1 files: 9 of 10 noticed, 0 explained, 1 not, 0 explanations expired: 90 %'),
    ],
  })
  matchWhole(t, gate([], nothing), {
    passes: false,
    lines: [/^0 of 1 files: .*: nothing was judged;/],
  })
})

t.test('the explanations of this repository quote lines that are there', async (t) => {
  t.strictSame(changedLines(), [])
  t.not(Object.keys(EXPLAINED).length, 0)
})
