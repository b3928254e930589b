/**
 * What a CRD admits, the hooks admit: the API server matches patterns with RE2 and counts characters, a hook
 * matches with JavaScript and counts UTF-16 units.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import t from 'tap'
import { RESOURCES, toStructuralSchema } from '../../crds/crd.ts'

interface Field {
  path: string
  schema: TSchema
}

/** Every string of a spec. */
function strings(schema: TSchema, path: string): Field[] {
  const { properties, items, patternProperties, type } = schema as Partial<Record<string, unknown>>
  if (type === 'string' || typeof schema['pattern'] === 'string') return [{ path, schema }]
  if (items !== undefined) return strings(items as TSchema, `${path}[]`)
  const inner = { ...(properties as object), ...(patternProperties as object) }
  return Object.entries(inner as Record<string, TSchema>).flatMap(([name, field]) =>
    strings(field, `${path}.${name}`),
  )
}

const FIELDS = RESOURCES.flatMap(({ kind, spec }) => strings(spec, kind))
const PATTERNS = [...new Set(FIELDS.map(patternOf).filter((pattern) => pattern !== ''))]

function patternOf({ schema }: Field): string {
  const pattern: unknown = schema['pattern']
  return typeof pattern === 'string' ? pattern : ''
}

/** What both engines read alike: no \s, \S, \w, \b, dot, flag, look-around or back-reference. */
const PIECE = [
  '[-A-Za-z0-9_/:@]', // itself
  '\\\\[.\\\\]', // escaped
  '\\[\\^?(?:[^\\\\\\]\\[\\u0080-\\uffff]|\\\\[tnvfr\\\\]|\\\\x[01][0-9a-f])+\\]', // a set of ASCII
  '\\((?!\\?)|\\)|\\|', // groups and choices
  '[?*+]|\\{[0-9]{1,3}(?:,[0-9]{1,3})?\\}', // repetitions, which RE2 limits to 1000
].join('|')
const COMMON = new RegExp(`^\\^(?:${PIECE})*\\$$`)

t.test('every pattern is in the common subset of RE2 and JavaScript', async (t) => {
  t.ok(PATTERNS.length > 8)
  for (const pattern of PATTERNS) t.match(pattern, COMMON)
  for (const other of [
    '^\\s$',
    '^[\\s]$',
    '^a.b$',
    '^(?=a)$',
    '^\\bfoo$',
    'a',
    '^a{2000}$',
    '^é$',
  ]) {
    t.notMatch(other, COMMON, other)
  }
})

t.test('every limit of a length is one of characters, or of a string of ASCII', async (t) => {
  const isAscii = (pattern: string) => !/\[\^/.test(pattern)
  for (const { path, schema } of FIELDS) {
    const { maxLength, maxRunes, pattern = '[^]' } = schema as Record<string, string | undefined>
    if (maxLength === undefined || maxRunes !== undefined) continue
    t.ok(isAscii(pattern), `${path} has maxLength; it needs characters()`)
  }
})

t.test('as many characters as the CRD allows pass the check of a hook', async (t) => {
  const limited = FIELDS.filter(({ schema }) => schema['maxRunes'] !== undefined)
  t.ok(limited.length > 10)
  for (const { path, schema } of limited) {
    const { maxLength = 0 } = toStructuralSchema(schema)
    const start = patternOf({ path, schema }).startsWith('^https') ? 'https://' : ''
    const longest = start + '\u{1f600}'.repeat(maxLength - start.length)
    t.equal(Array.from(longest).length, maxLength)
    t.ok(Value.Check(schema, longest), path)
  }
})

const GO = `package main

import ("encoding/json"; "os"; "regexp")

func main() {
	var in struct { Patterns, Texts []string }
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil { panic(err) }
	out := [][]int{}
	for _, p := range in.Patterns {
		re := regexp.MustCompile(p)
		matched := []int{}
		for i, s := range in.Texts { if re.MatchString(s) { matched = append(matched, i) } }
		out = append(out, matched)
	}
	json.NewEncoder(os.Stdout).Encode(out)
}
`

/** Good values of all fields, each with every odd character at each end and in its middle. */
function texts(): string[] {
  const good = [
    ...[
      'https://s3.example.com/a',
      'http://store:9000',
      'v1.18.3',
      '1h30m',
      '10Gi',
      '0.5',
      'a-b.c',
    ],
    ...['registry.example.com:5000/a/b', 'AWS_ACCESS_KEY_ID', 'docs', 'us-east-1', ''],
    `sha256:${'0123456789abcdef'.repeat(4)}`,
  ]
  const codes = [
    ...Array.from({ length: 0x100 }, (_, code) => code),
    0x1680,
    0x2000,
    0x200b,
    0x2028,
  ]
  const odd = [...codes, 0x2029, 0x202f, 0x205f, 0x3000, 0xfeff, 0xfffd, 0x1f600].map((code) =>
    String.fromCodePoint(code),
  )
  return good.flatMap((text) => [
    text,
    ...odd.flatMap((character) => [
      text + character,
      character + text,
      text.slice(0, text.length / 2) + character + text.slice(text.length / 2),
    ]),
  ])
}

const isGoThere = spawnSync('go', ['version']).status === 0

t.test(
  'RE2 and JavaScript match the same values of every field',
  { skip: isGoThere ? false : 'there is no Go: RE2 is not asked' },
  async (t) => {
    const folder = t.testdir({})
    mkdirSync(join(folder, 're2'))
    writeFileSync(join(folder, 're2', 'main.go'), GO)
    const input = { Patterns: PATTERNS, Texts: texts() }
    const { stdout, stderr } = spawnSync('go', ['run', 'main.go'], {
      cwd: join(folder, 're2'),
      input: JSON.stringify(input),
      env: { ...process.env, GOFLAGS: '-mod=mod', GO111MODULE: 'off', GOTOOLCHAIN: 'local' },
      maxBuffer: 64 * 1024 * 1024,
    })
    const answers = JSON.parse(stdout.toString() || `"${stderr.toString()}"`) as number[][]
    for (const [at, pattern] of PATTERNS.entries()) {
      const regExp = new RegExp(pattern)
      const matched = input.Texts.flatMap((text, index) => (regExp.test(text) ? [index] : []))
      t.ok(matched.length > 0, `some value fits ${pattern}`)
      t.strictSame(answers[at], matched, pattern)
    }
  },
)
