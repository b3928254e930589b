/** The body of the call that makes a payload index, as the engine reads it. */
import {
  boolean,
  checked,
  isObject,
  list,
  malformed,
  oneOf,
  string,
  struct,
  untagged,
  usize,
  type Reader,
} from '../read.ts'

type Fields = Record<string, unknown>

const LANGUAGES: Record<string, string> = {
  ar: 'arabic',
  da: 'danish',
  nl: 'dutch',
  en: 'english',
  fi: 'finnish',
  fr: 'french',
  de: 'german',
  el: 'greek',
  hu: 'hungarian',
  it: 'italian',
  no: 'norwegian',
  pt: 'portuguese',
  ro: 'romanian',
  ru: 'russian',
  es: 'spanish',
  sv: 'swedish',
  ta: 'tamil',
  tr: 'turkish',
}

/** A short name is read, the long one is shown. */
const language: Reader<string> = (value) => {
  const name = typeof value === 'string' ? (LANGUAGES[value] ?? value) : ''
  return Object.values(LANGUAGES).includes(name) ? name : malformed('no such language')
}

const sorted =
  (reader: Reader<string[]>): Reader<string[]> =>
  (value, reading) =>
    [...new Set(reader(value, reading))].sort()

const anyIndex = { on_disk: boolean, enable_hnsw: boolean }
const INDEX_PARAMS: Record<string, Record<string, Reader>> = {
  keyword: { is_tenant: boolean, ...anyIndex },
  integer: { lookup: boolean, range: boolean, is_principal: boolean, ...anyIndex },
  float: { is_principal: boolean, ...anyIndex },
  geo: anyIndex,
  text: {
    tokenizer: oneOf('prefix', 'whitespace', 'word', 'multilingual'),
    min_token_len: usize,
    max_token_len: usize,
    lowercase: boolean,
    phrase_matching: boolean,
    ascii_folding: boolean,
    stopwords: untagged<unknown>(
      'StopwordsInterface',
      language,
      struct('StopwordsSet', { languages: sorted(list(language)), custom: sorted(list(string)) }),
    ),
    stemmer: struct(
      'SnowballParams',
      { type: oneOf('snowball'), language },
      { required: ['type', 'language'] },
    ),
    ...anyIndex,
  },
  bool: anyIndex,
  datetime: { is_principal: boolean, ...anyIndex },
  uuid: { is_tenant: boolean, ...anyIndex },
}
/** Shown as null when they are not set. */
const NULLED: Record<string, string[]> = {
  integer: ['lookup', 'range', 'is_principal'],
  float: ['is_principal'],
  datetime: ['is_principal'],
}

const indexParams: Reader<Fields> = (value, reading) => {
  if (!isObject(value)) return malformed('no object')
  const type = String(value['type'])
  const fields = Object.hasOwn(INDEX_PARAMS, type) ? INDEX_PARAMS[type] : undefined
  if (fields === undefined) return malformed('no such type')
  const unset = Object.fromEntries((NULLED[type] ?? []).map((name) => [name, null]))
  const set = struct('params', fields)(value, reading)
  return { type, ...(type === 'text' && { tokenizer: 'word' }), ...unset, ...set }
}

/** Body of `PUT /collections/{c}/index`: a type by its name, or with parameters in their full form. */
export const CreateIndex = struct(
  'CreateFieldIndex',
  {
    field_name: string,
    field_schema: checked(
      untagged<unknown>('PayloadFieldSchema', oneOf(...Object.keys(INDEX_PARAMS)), indexParams),
      (schema) =>
        isObject(schema) && schema['lookup'] === false && schema['range'] === false
          ? "lookup: Validation error: the 'lookup' and 'range' capabilities can't be both disabled [{}]"
          : undefined,
    ),
  },
  { required: ['field_name'] },
)
