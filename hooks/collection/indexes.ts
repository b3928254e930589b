/**
 * Payload indexes: which to create, to replace and to remove (facts 4). What the spec declares is
 * reconciled, whoever created the index: replacing one loses no data. What it does not declare is removed
 * only if this resource created it: such fields are in `status.payloadIndexes`, and are written there
 * before they are created or replaced, so that no crash can lose it.
 */
import type { CollectionInfo, IndexInfo } from '../../crds/rules/answers.ts'
import type { PayloadIndex } from '../../crds/rules/bodies.ts'
import { normalPath } from '../../crds/rules/json-path.ts'
import { declared, isPlain, own } from '../../crds/rules/objects.ts'
import { differencesIn, type Difference } from './mismatch.ts'
import { languageOf } from './languages.ts'

export interface IndexPlan {
  /** To be put under `status.payloadIndexes` first, and created or replaced by the next pass. */
  announce: PayloadIndex[]
  create: PayloadIndex[]
  /** Ours, with another type or other parameters: deleted and made again. */
  remake: PayloadIndex[]
  /** Ours, and no longer declared. */
  remove: string[]
  /** Parameters that making the index again did not bring. */
  ignored: string[]
  /** What stands in `status.payloadIndexes` from now on, as the engine writes it. */
  managed: string[]
}

export function indexPlan(
  wanted: PayloadIndex[],
  live: CollectionInfo['payload_schema'],
  known: { managed: readonly string[]; ignored: ReadonlySet<string> },
): IndexPlan {
  const ours = new Set(known.managed.map(normalPath))
  const declaredFields = new Set(wanted.map(({ field }) => normalPath(field)))
  const plan: Placed = {
    announce: [],
    create: [],
    remake: [],
    remove: [...ours].filter((field) => !declaredFields.has(field) && Object.hasOwn(live, field)),
    ignored: [],
  }
  for (const index of wanted) place(index, plan, { ours, live, ignored: known.ignored })
  const stay = [...ours].filter((field) => declaredFields.has(field))
  const announced = plan.announce.map(({ field }) => normalPath(field))
  return { ...plan, managed: [...stay, ...announced].toSorted() }
}

/** Two declared fields that are one to the engine: making the one undoes the other. */
export function doubledField(wanted: PayloadIndex[]): [string, string] | undefined {
  const seen = new Map<string, string>()
  for (const { field } of wanted) {
    const path = normalPath(field)
    const other = seen.get(path)
    if (other !== undefined) return [other, field]
    seen.set(path, field)
  }
  return undefined
}

/** How a live index differs from the declared one. */
export function indexDifferences(index: PayloadIndex, live: IndexInfo): Difference[] {
  const path = `payloadIndexes[${index.field}]`
  if (index.type !== live.data_type) {
    return [{ path: `${path}.type`, wanted: index.type, live: live.data_type }]
  }
  return Object.entries(declared(index.params) ?? {})
    .filter(([name]) => name !== 'type')
    .flatMap(([name, wanted]) => {
      const there = own(live.params, name) ?? DEFAULTS.get(name)
      return differencesIn(
        `${path}.params.${name}`,
        comparable(name, wanted),
        comparable(name, there),
      )
    })
}

/** What is to be done about each index. */
type Placed = Omit<IndexPlan, 'managed'>

interface Known {
  ours: Set<string>
  live: CollectionInfo['payload_schema']
  ignored: ReadonlySet<string>
}

function place(index: PayloadIndex, plan: Placed, { ours, live, ignored }: Known): void {
  const field = normalPath(index.field)
  const there = Object.hasOwn(live, field) ? live[field] : undefined
  if (there === undefined) {
    plan[ours.has(field) ? 'create' : 'announce'].push(index)
    return
  }
  const differences = indexDifferences(index, there)
  const news = differences.filter(({ path }) => !ignored.has(path))
  plan.ignored.push(...differences.filter((each) => !news.includes(each)).map(({ path }) => path))
  if (news.length > 0) plan[ours.has(field) ? 'remake' : 'announce'].push(index)
}

/** What the engine does where a parameter is unset; what is not here is off. */
const DEFAULTS = new Map<string, unknown>([
  ['lookup', true],
  ['range', true],
  ['lowercase', true],
  ['enable_hnsw', true],
  ['tokenizer', 'word'],
])

/** Stop words may be one language or lists of them, and languages have two names. */
function comparable(name: string, value: unknown): unknown {
  if (name === 'stopwords') return stopWords(value)
  if (name !== 'stemmer' || !isPlain(value)) return value
  return { ...value, language: languageOf(value['language']) }
}

function stopWords(value: unknown): unknown {
  if (typeof value === 'string') return { languages: [languageOf(value)], custom: [] }
  if (!isPlain(value) || !Array.isArray(value['languages'])) return value
  return { ...value, languages: value['languages'].map(languageOf) }
}
