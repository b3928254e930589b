/** Untrusted text in terminals and logs has no control characters and no changes of direction. */
import t from 'tap'
import { parse } from 'yaml'
import { formatColumns, formatOutput, oneLine } from '../../jobs/kubectl/output.ts'
import { escapeUnprintable, jobLog } from '../../jobs/log.ts'

const HOSTILE = 'a\u001b[2Jb\u009b1mc\u202ed\u2066e\u0000f'
const ESCAPED = 'a\\u{1b}[2Jb\\u{9b}1mc\\u{202e}d\\u{2066}e\\u{0}f'

t.test('control characters and changes of direction are written out', async (t) => {
  t.equal(escapeUnprintable(HOSTILE), ESCAPED)
  t.equal(escapeUnprintable('grün, 中文, emoji 🎉'), 'grün, 中文, emoji 🎉')
})

t.test('a table and a message on one line show them as text', async (t) => {
  t.equal(formatColumns([[HOSTILE, 'x']]), `${ESCAPED}  x\n`)
  t.equal(formatColumns([['a\nb', 'x']]), 'a\\u{a}b  x\n')
  t.equal(oneLine(`one\n two ${HOSTILE}`), `one two ${ESCAPED}`)
})

t.test('an output has none in any format, and scripts read the same value', async (t) => {
  const value = { [HOSTILE]: [HOSTILE, `two\nlines\twith ${HOSTILE}`], plain: 'grün, 中文 🎉' }
  const output = (format?: string) =>
    formatOutput({ flags: { output: format } }, value, () => `one\ntwo ${HOSTILE}\n`)
  t.equal(output(), `one\ntwo ${ESCAPED}\n`)
  for (const format of ['json', 'yaml']) {
    const printed = output(format)
    t.strictSame(parse(printed), value, format)
    const lines = printed.split('\n')
    t.strictSame(lines.map(escapeUnprintable), lines, format)
    t.match(printed, 'grün, 中文 🎉')
  }
  t.strictSame(JSON.parse(output('json')), value)
})

t.test('a log of text has one line for one call, whatever is in it', async (t) => {
  const lines: string[] = []
  const output = { write: (line: string) => void lines.push(line) }
  const log = jobLog({ LOG_FORMAT: 'text' }, output)
  const forged = 'x\n2026-01-01T00:00:00Z INFO backup completed'
  log.warn({ reason: forged }, `refused: ${forged}`)
  log.error({ err: new Error(forged) }, 'failed')
  t.equal(lines.length, 2)
  t.match(lines[0], /^\S+ WARNING refused: x\\u\{a\}2026.* reason=x\\u\{a\}2026.*\n$/)
  const stack = lines[1]?.trimEnd().split('\n').slice(1) ?? []
  t.ok(stack.length > 1 && stack.every((line) => line.startsWith('  ')))
})
