/** The page with all source files: what it takes from a file, and that it needs something to take. */
import { resolve } from 'node:path'
import t from 'tap'
// @ts-expect-error: a script without types
import { fileIndex as untypedIndex } from '../../.ci/file-index.js'

const PAGE = resolve('docs/files.md')

const fileIndex = untypedIndex as (
  sources: ReadonlyMap<string, string>,
  options: object,
) => Promise<string>

function indexOf(files: Record<string, string>): Promise<string> {
  return fileIndex(new Map(Object.entries(files)), { filepath: PAGE })
}

t.test('each file has the text of its comment, by folder', async (t) => {
  const text = await indexOf({
    'jobs/b.ts': '/** B. */\nconst b = 1\n',
    'jobs/main.ts': '#!/usr/bin/env node\n/**\n * Commands: `a <b>` or\n * a*b <c>.\n */\n',
    'crds/a.ts': '/** A. */\n/** Not this. */\n',
  })
  const [, ...sections] = text.split('\n## ')
  t.strictSame(sections, [
    'crds/\n\n- [a.ts](../crds/a.ts): A.\n',
    'jobs/\n\n- [b.ts](../jobs/b.ts): B.\n- [main.ts](../jobs/main.ts): Commands: `a <b>` or a\\*b \\<c\\>.\n',
  ])
})

t.test('a file without a comment at its head is an error', async (t) => {
  await t.rejects(
    indexOf({ 'jobs/a.ts': 'const a = 1\n' }),
    /^jobs\/a\.ts has no comment at its head$/,
  )
  await t.rejects(indexOf({ 'jobs/a.ts': 'const a = 1\n/** Late. */\n' }), /no comment/)
})
