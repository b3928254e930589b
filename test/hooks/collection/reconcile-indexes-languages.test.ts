/** The languages of text indexes, which the engine reads by short names and shows by long ones. */
import t from 'tap'
import { languageOf } from '../../../hooks/collection/reconcile-indexes.ts'

/** Those the engine has, by their codes. */
const CODES =
  'ar az ca da de el en es eu fi fr he hu hy id it kk ne nl no pt ro ru sv ta tg tr zh'.split(' ')
const ENGLISH = new Intl.DisplayNames('en', { type: 'language' })

for (const code of CODES) {
  t.test(`the language ${code} is shown by its English name`, async (t) => {
    t.equal(languageOf(code), ENGLISH.of(code)?.toLowerCase())
  })
}

for (const [code, name] of [
  ['bn', 'bengali'],
  ['jp', 'japanese'],
  ['sl', 'slovene'],
  ['hi-en', 'hinglish'],
] as const) {
  t.test(`the language ${code}, which is a word of the engine's own, is ${name}`, async (t) => {
    t.equal(languageOf(code), name)
  })
}

t.test('a language that is not a short name is shown unchanged', async (t) => {
  for (const name of ['english', 'xx', '', 7, null, undefined]) t.equal(languageOf(name), name)
})
