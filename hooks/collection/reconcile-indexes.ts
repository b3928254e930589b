/**
 * Plans and applies the creation, replacement and removal of payload indexes, and reports failures.
 * Formats paths of payload fields as the engine writes them, quoted only if necessary.
 */
import { EngineError, NotReady, Rejected } from '../../crds/contract/errors.ts'
import {
  indexBody,
  type CollectionInfo,
  type IndexInfo,
  type PayloadIndex,
} from '../../crds/engine/collections.ts'
import { isPlainObject, ownValue, withoutNulls } from '../../crds/engine/plain-object.ts'
import type { ConditionReason } from '../../crds/schema.ts'
import { diffValues, previouslyIgnored, type Difference } from './reconcile-config.ts'
import { isTransient, waitForCollection, type ReconcileContext } from './reconcile-context.ts'
import { pendingResult, type ReconcileResult } from './result.ts'

export interface IndexResult {
  info: CollectionInfo
  managed: string[]
  ignored: string[]
  failures: ConditionReason[]
  /** Indexes are still to be created or are being built. */
  pending?: ReconcileResult
}

const ANNOUNCED_CHECK_SECONDS = 1
const BUILD_CHECK_SECONDS = 10

export async function reconcileIndexes(
  context: ReconcileContext,
  info: CollectionInfo,
  version: string,
): Promise<IndexResult> {
  const desired = context.collection.spec.payloadIndexes ?? []
  const duplicates = findDuplicateField(desired)
  if (duplicates !== undefined) {
    throw new Rejected(`payloadIndexes: ${duplicates.join(' and ')} are the same field`)
  }
  const previous = {
    managed: context.collection.status?.payloadIndexes ?? [],
    ignored: previouslyIgnored(context.collection, version),
  }
  const planFor = (live: CollectionInfo) => indexPlan(desired, live.payload_schema, previous)
  const plan = planFor(info)
  const written = await applyPlan(context, plan)
  const { rejected, created } = written
  const isDone = (live: CollectionInfo) => remainingFields(planFor(live), rejected).length === 0
  const updated =
    written.count === 0
      ? info
      : await waitForCollection(context, (live) => live === undefined || isDone(live))
  if (updated === undefined)
    throw new NotReady(`collection ${context.name} was deleted during the reconcile`)
  if (written.unknownResult !== undefined && !isDone(updated)) throw written.unknownResult

  const finalPlan = updated === info ? plan : planFor(updated)
  // An index that differs right after its creation has a parameter that the engine does not support.
  const ignored = finalPlan.remake
    .filter((index) => created.has(index.field))
    .flatMap((index) => {
      const live = updated.payload_schema[canonicalPath(index.field)]
      return live === undefined ? [] : indexDifferences(index, live).map(({ path }) => path)
    })
  const pending = indexesPending(finalPlan, rejected)
  return {
    info: updated,
    managed: [...new Set([...finalPlan.managed, ...finalPlan.remove])].toSorted(),
    ignored: [...new Set([...finalPlan.ignored, ...ignored])],
    failures: [...rejected.values()],
    ...(pending !== undefined && { pending }),
  }
}

interface AppliedPlan {
  count: number
  /** Fields whose index the engine accepted. */
  created: Set<string>
  /** Fields whose index the engine rejected permanently, with its message. */
  rejected: Map<string, ConditionReason>
  unknownResult?: EngineError | undefined
}

async function applyPlan(
  { writes, mixedVersions }: ReconcileContext,
  plan: IndexPlan,
): Promise<AppliedPlan> {
  const written: AppliedPlan = { count: 0, created: new Set(), rejected: new Map() }
  for (const field of plan.remove) {
    written.unknownResult = (await writes.deleteIndex(field)) ?? written.unknownResult
    written.count += 1
  }
  // A put replaces an existing index (engine 1.14.1 and later), and a rejected put keeps the old one.
  // If the index were deleted first, a rejection would leave none.
  const indexes = [...plan.create, ...plan.remake]
  const passed = indexes.filter(hasParams)
  const mixed = await mixedVersions(passed.map(({ field }) => `payloadIndexes[${field}].params`))
  for (const index of mixed === undefined ? indexes : indexes.filter((one) => !hasParams(one))) {
    try {
      written.unknownResult = (await writes.putIndex(indexBody(index))) ?? written.unknownResult
      written.created.add(index.field)
      written.count += 1
    } catch (error) {
      if (!(error instanceof EngineError) || isTransient(error)) throw error
      const message = `payloadIndexes[${index.field}]: ${error.message}`
      written.rejected.set(index.field, { reason: 'EngineRefused', message })
    }
  }
  if (mixed !== undefined) throw mixed
  return written
}

function hasParams({ params }: PayloadIndex): boolean {
  return withoutNulls(params) !== undefined
}

/** Fields that still need work, except those that the engine rejects. */
function remainingFields(
  plan: IndexPlan,
  rejected: ReadonlyMap<string, ConditionReason>,
): string[] {
  const fields = [...plan.create, ...plan.remake].map(({ field }) => field)
  return [...fields.filter((field) => !rejected.has(field)), ...plan.remove]
}

function indexesPending(
  { announce, create, remove }: IndexPlan,
  rejected: ReadonlyMap<string, ConditionReason>,
): ReconcileResult | undefined {
  if (announce.length > 0) {
    const message = `${announce.length} payload indexes are about to be created`
    return pendingResult('IndexesPending', message, ANNOUNCED_CHECK_SECONDS)
  }
  const building = create.map(({ field }) => field).filter((field) => !rejected.has(field))
  if (building.length + remove.length === 0) return undefined
  const message = `payload indexes in progress: ${[...building, ...remove].join(', ')}`
  return pendingResult('IndexesPending', message, BUILD_CHECK_SECONDS)
}

/** The long name of a language of text indexes: the engine also accepts short names but returns long ones. */
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

export interface IndexPlan {
  /** Recorded in `status.payloadIndexes` first; created or replaced by the next reconcile. */
  announce: PayloadIndex[]
  create: PayloadIndex[]
  /** Owned indexes with a different type or different parameters: replaced. */
  remake: PayloadIndex[]
  /** Owned indexes that are no longer declared. */
  remove: string[]
  /** Paths of parameters that recreating the index did not change. */
  ignored: string[]
  /** The new value of `status.payloadIndexes`, in the engine's notation. */
  managed: string[]
}

/**
 * Which indexes to create, replace and remove. Declared indexes are reconciled regardless of their creator:
 * replacing one loses no data. Undeclared indexes are removed only if this resource created them. Those are
 * listed in `status.payloadIndexes`, and written there before they are created or replaced, so that a crash
 * cannot lose the record.
 */
export function indexPlan(
  declared: PayloadIndex[],
  live: CollectionInfo['payload_schema'],
  previous: { managed: readonly string[]; ignored: ReadonlySet<string> },
): IndexPlan {
  const owned = new Set(previous.managed.map(canonicalPath))
  const declaredFields = new Set(declared.map(({ field }) => canonicalPath(field)))
  const plan: IndexActions = {
    announce: [],
    create: [],
    remake: [],
    remove: [...owned].filter((field) => !declaredFields.has(field) && Object.hasOwn(live, field)),
    ignored: [],
  }
  for (const index of declared) planIndex(index, plan, { owned, live, ignored: previous.ignored })
  const stillDeclared = [...owned].filter((field) => declaredFields.has(field))
  const announced = plan.announce.map(({ field }) => canonicalPath(field))
  return { ...plan, managed: [...stillDeclared, ...announced].toSorted() }
}

/** Two declared fields that are the same field in the engine: creating one overwrites the other. */
export function findDuplicateField(declared: PayloadIndex[]): [string, string] | undefined {
  const byPath = new Map<string, string>()
  for (const { field } of declared) {
    const path = canonicalPath(field)
    const other = byPath.get(path)
    if (other !== undefined) return [other, field]
    byPath.set(path, field)
  }
  return undefined
}

/** The differences between a live index and the declared one. */
export function indexDifferences(index: PayloadIndex, live: IndexInfo): Difference[] {
  const path = `payloadIndexes[${index.field}]`
  if (index.type !== live.data_type) {
    return [{ path: `${path}.type`, desired: index.type, live: live.data_type }]
  }
  return Object.entries(withoutNulls(index.params) ?? {})
    .filter(([name]) => name !== 'type')
    .flatMap(([name, declaredValue]) => {
      const liveValue = ownValue(live.params, name) ?? DEFAULTS.get(name)
      return diffValues(
        `${path}.params.${name}`,
        normalize(name, declaredValue),
        normalize(name, liveValue),
      )
    })
}

/** The planned action for each index. */
type IndexActions = Omit<IndexPlan, 'managed'>

interface LiveIndexes {
  owned: Set<string>
  live: CollectionInfo['payload_schema']
  ignored: ReadonlySet<string>
}

function planIndex(
  index: PayloadIndex,
  plan: IndexActions,
  { owned, live, ignored }: LiveIndexes,
): void {
  const field = canonicalPath(index.field)
  const liveIndex = Object.hasOwn(live, field) ? live[field] : undefined
  if (liveIndex === undefined) {
    plan[owned.has(field) ? 'create' : 'announce'].push(index)
    return
  }
  const differences = indexDifferences(index, liveIndex)
  const unexpected = differences.filter(({ path }) => !ignored.has(path))
  plan.ignored.push(
    ...differences.filter((difference) => !unexpected.includes(difference)).map(({ path }) => path),
  )
  if (unexpected.length > 0) plan[owned.has(field) ? 'remake' : 'announce'].push(index)
}

/** The engine's defaults of unset parameters; parameters that are not listed are off. */
const DEFAULTS = new Map<string, unknown>([
  ['lookup', true],
  ['range', true],
  ['lowercase', true],
  ['enable_hnsw', true],
  ['tokenizer', 'word'],
])

/** Normalizes language names, and stop words given as one language or as lists. */
function normalize(name: string, value: unknown): unknown {
  if (name === 'stopwords') return normalizeStopWords(value)
  if (name !== 'stemmer' || !isPlainObject(value)) return value
  return { ...value, language: languageOf(value['language']) }
}

function normalizeStopWords(value: unknown): unknown {
  if (typeof value === 'string') return { languages: [languageOf(value)], custom: [] }
  if (!isPlainObject(value) || !Array.isArray(value['languages'])) return value
  return { ...value, languages: value['languages'].map(languageOf) }
}

const UNQUOTED_KEY = String.raw`[\p{Alphabetic}\p{N}_-]+`
const STEP = new RegExp(
  String.raw`(?<dot>\.?)(?:(?<raw>${UNQUOTED_KEY})|"(?<quoted>[^"]*)")|(?<item>\[\d*\])`,
  'uy',
)
const UNQUOTED = new RegExp(`^${UNQUOTED_KEY}$`, 'u')
/** The common case: only unquoted keys. */
const PLAIN = new RegExp(String.raw`^${UNQUOTED_KEY}(\.${UNQUOTED_KEY})*$`, 'u')

/** The canonical form of a path; an invalid path is returned unchanged and rejected by the engine. */
export function canonicalPath(path: string): string {
  if (PLAIN.test(path)) return path
  const parts: string[] = []
  STEP.lastIndex = 0
  while (STEP.lastIndex < path.length) {
    const match = STEP.exec(path)
    if (match === null) return path
    const { dot = '', raw, quoted = '', item } = match.groups ?? {}
    const isFirst = parts.length === 0
    if (item !== undefined && isFirst) return path
    if (item === undefined && (dot === '') !== isFirst) return path
    parts.push(item ?? dot + (raw ?? quoteKey(quoted)))
  }
  return parts.join('')
}

function quoteKey(quoted: string): string {
  return UNQUOTED.test(quoted) ? quoted : `"${quoted}"`
}
