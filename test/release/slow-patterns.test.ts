/** The lint rule against regular expressions that take more than linear time. */
import { Linter } from 'eslint'
import t from 'tap'

const path = '../../.ci/slow-patterns.js'
const { noSlowPatterns, slowForm } = (await import(path)) as {
  noSlowPatterns: object
  slowForm: (source: string, flags?: string) => string | undefined
}

const SLOW = [
  ...['<[^>]*>', '\\s+$', 'x.*y', 'one .* two .* three', '^/+|/+$', ' \\(.*\\)$'],
  ...['(a+)+$', '^(a+a?)+$', '^(\\w|\\d)+$', '^(a*)*b', '^a*a*b', '^\\d+\\d*x', '^( +)a: +.*\n'],
  ...['(?<=a)a+b', '(?:x|(a+)+b)'],
]
const LINEAR = [
  ...['<[^<>]*>', '^a+$', '^[\\x21-\\x7e]+$', '^(a|b)+$', 'a+', '\\d{1,9}x', '^a*b*$', '\\b\\w+x'],
  ...['^[a-z][a-z-]*(/[a-z][a-z-]*)*$', '(?<=://)[^/@]+@', '^(?: [^ ]+)*$', '^.*$', '^a+(?:b|c)?'],
]

t.test('patterns with a known slow form are found, and others are not', async (t) => {
  for (const source of SLOW) t.type(slowForm(source), 'string', source)
  for (const source of LINEAR) t.equal(slowForm(source), undefined, source)
})

t.test('where a pattern may begin depends on its flags', async (t) => {
  t.type(
    slowForm('^a+$', 'm'),
    'undefined',
    'a line begins after a line break, which is none of it',
  )
  t.type(slowForm('^[^]+x', 'm'), 'string')
  t.equal(slowForm('\\s+$', 'y'), undefined)
})

t.test('literals, patterns of schemas and constructors are checked', async (t) => {
  const linter = new Linter()
  const config = {
    plugins: { local: { rules: { 'no-slow-patterns': noSlowPatterns } } },
    rules: { 'local/no-slow-patterns': 'error' },
  } as unknown as Linter.Config
  const code = [
    'const a = /\\s+$/',
    "const b = { pattern: '\\\\s+$' }",
    "const KEY_PATTERN = '\\\\s+$'",
    "const c = new RegExp('\\\\s+$')",
    "const d = { pattern: '^a$', text: '\\\\s+$' }",
  ].join('\n')
  const found = linter.verify(code, config)
  t.strictSame(
    found.map(({ line }) => line),
    [1, 2, 3, 4],
  )
  t.match(found[0]?.message, /^\/\\s\+\$\/ may take more than linear time: a search begins/)
})
