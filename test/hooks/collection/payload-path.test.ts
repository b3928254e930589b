import t from 'tap'
import { canonicalPath } from '../../../hooks/collection/reconcile-indexes.ts'

/** As the real engine 1.18.3 shows them in payload_schema. */
const PATHS: [declared: string, reported: string][] = [
  ['a.b', 'a.b'],
  ['"a"', 'a'],
  ['a."b"', 'a.b'],
  ['"a"."b"', 'a.b'],
  ['arr[].x', 'arr[].x'],
  ['"arr"[]', 'arr[]'],
  ['a[0]', 'a[0]'],
  ['"quoted key"', '"quoted key"'],
  ['"a.b".c', '"a.b".c'],
  ['"x[]"', '"x[]"'],
  ['"a/b"', '"a/b"'],
  ['"".x', '"".x'],
  ['"ünï"', 'ünï'],
  ['"日本"', '日本'],
  ['"x-y_z"', 'x-y_z'],
  ['"٣ⅷ"', '٣ⅷ'],
]

for (const [input, canonical] of PATHS) {
  t.test(`payload key ${input} is shown as ${canonical}`, async (t) => {
    t.equal(canonicalPath(input), canonical)
    t.equal(canonicalPath(canonical), canonical)
  })
}

for (const path of [
  'a b',
  'a/b',
  'a..b',
  '',
  '"',
  '#',
  '.a',
  'a.',
  '[0]',
  '[0]."a"',
  'a"b"',
  'a.[0]',
]) {
  t.test(`an invalid path is sent unchanged, for the engine to reject: ${path}`, async (t) => {
    t.equal(canonicalPath(path), path)
  })
}
