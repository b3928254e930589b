/** Languages of text indexes: the engine reads short names and shows long ones. */

export function languageOf(name: unknown): unknown {
  return LANGUAGES.get(name) ?? name
}

const LANGUAGES = new Map<unknown, string>([
  ['ar', 'arabic'],
  ['az', 'azerbaijani'],
  ['bn', 'bengali'],
  ['ca', 'catalan'],
  ['da', 'danish'],
  ['de', 'german'],
  ['el', 'greek'],
  ['en', 'english'],
  ['es', 'spanish'],
  ['eu', 'basque'],
  ['fi', 'finnish'],
  ['fr', 'french'],
  ['he', 'hebrew'],
  ['hi-en', 'hinglish'],
  ['hu', 'hungarian'],
  ['hy', 'armenian'],
  ['id', 'indonesian'],
  ['it', 'italian'],
  ['jp', 'japanese'],
  ['kk', 'kazakh'],
  ['ne', 'nepali'],
  ['nl', 'dutch'],
  ['no', 'norwegian'],
  ['pt', 'portuguese'],
  ['ro', 'romanian'],
  ['ru', 'russian'],
  ['sl', 'slovene'],
  ['sv', 'swedish'],
  ['ta', 'tamil'],
  ['tg', 'tajik'],
  ['tr', 'turkish'],
  ['zh', 'chinese'],
])
