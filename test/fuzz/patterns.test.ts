/** No regular expression of the sources takes more than linear time, whatever it is given. */
import t from 'tap'
import { patternsIn, patternsOfSources, slowPiece } from './patterns.ts'

/** By path: what a text is cut to before it is matched, or who writes it, and so why the time is bounded. */
const BOUNDED: Record<string, string> = {
  'crds/versions.ts': 'the last 256 characters of a label or an image',
}

t.test('patterns that are known to be slow are found to be so', async (t) => {
  for (const source of [
    '<[^>]*>',
    '(a+a)+$',
    '\\s+$',
    'x.*y',
    'one .* two .* three',
    '[^ ]+$',
    '^/+|/+$',
  ]) {
    t.not(slowPiece(new RegExp(source)), undefined, source)
  }
  for (const source of ['<[^<>]*>', '^a+$', '^[\\x21-\\x7e]+$', '^(a|b)+$']) {
    t.equal(slowPiece(new RegExp(source)), undefined, source)
  }
})

t.test('literals and patterns of schemas are found where they stand', async (t) => {
  const text = "const A_PATTERN = '^a$'\nconst b = { pattern: '^b$', c: /c\\/d/gi }\n"
  t.strictSame(
    patternsIn('x.ts', text).map(({ where, pattern }) => `${where} ${String(pattern)}`),
    ['x.ts:1 /^a$/', 'x.ts:2 /^b$/', 'x.ts:2 /c\\/d/i'],
  )
})

t.test('none of the sources is slow', async (t) => {
  const found = patternsOfSources()
  t.ok(found.length > 100, `${found.length} patterns`)
  const known = new Set<string>()
  for (const { where, pattern } of found) {
    const [path = ''] = where.split(':')
    if (known.has(String(pattern))) continue
    known.add(String(pattern))
    const piece = slowPiece(pattern)
    const isBounded = BOUNDED[path] !== undefined
    t.equal(isBounded ? undefined : piece, undefined, `${where} ${String(pattern)}`)
  }
})
