/**
 * Payload indexes of a collection that is restored or copied to. Once a collection has as many as its strict mode allows,
 * the engine rejects each creation, also of an index that exists (docs/engine-notes.md, "Collections").
 */
import { EngineError } from '../crds/contract/errors.ts'
import { canonicalIndexParams } from './canonical-config.ts'
import {
  isPlainObject,
  isSameJson,
  ownValue,
  type PlainObject,
} from '../crds/engine/plain-object.ts'

export interface RecordedIndex {
  dataType: string
  params?: PlainObject
}

/** What the engine returns of a collection. */
interface IndexedCollection {
  config: object
  payload_schema?: object | undefined
}

interface IndexCalls {
  read: () => Promise<IndexedCollection | undefined>
  create: (field: string, index: RecordedIndex) => Promise<void>
  /** Sets how many indexes strict mode allows. */
  setLimit: (count: number) => Promise<void>
}

/**
 * Creates the indexes that the collection does not have like this. Strict mode may allow fewer: its limit was lowered
 * after they were created, or the collection has others. It then allows them meanwhile.
 */
export async function createIndexes(
  recorded: Readonly<Record<string, RecordedIndex>>,
  { config }: Pick<IndexedCollection, 'config'>,
  { read, create, setLimit }: IndexCalls,
): Promise<void> {
  const live = await read()
  const existing = live?.payload_schema ?? {}
  const missing = Object.entries(recorded).filter(
    ([field, index]) => !isSameIndex(index, ownValue(existing, field)),
  )
  const count = Object.keys(existing).length + missing.length
  const limit = live && indexLimit(live.config)
  const isRaised = missing.length > 0 && limit !== undefined && limit < count
  if (isRaised) await setLimit(count)
  for (const [field, index] of missing) {
    try {
      await create(field, index)
    } catch (error) {
      // A call whose answer was lost may have created it, and it counts.
      if (!(error instanceof EngineError) || error.status !== 400) throw error
      if (!isSameIndex(index, ownValue((await read())?.payload_schema, field))) throw error
    }
  }
  // A pod that was killed may have raised it.
  const recordedLimit = indexLimit(config)
  if (limit === undefined || recordedLimit === undefined) return
  if (isRaised || limit !== recordedLimit) await setLimit(recordedLimit)
}

function indexLimit(config: object): number | undefined {
  const strictMode = ownValue(config, 'strict_mode_config')
  const limit = ownValue(strictMode, 'max_payload_index_count')
  return ownValue(strictMode, 'enabled') === true && typeof limit === 'number' ? limit : undefined
}

/** Whether an index as the engine returns it is the recorded one. */
export function isSameIndex({ dataType, params }: RecordedIndex, live: unknown): boolean {
  return (
    dataType === ownValue(live, 'data_type') &&
    isSameJson(comparable(params), comparable(ownValue(live, 'params')))
  )
}

const comparable = (params: unknown) =>
  withoutNull(isPlainObject(params) ? canonicalIndexParams(params) : params)

/** Treats null as unset at any depth, and also an object without any set value. */
export function withoutNull(value: unknown): unknown {
  if (value === null) return undefined
  if (!isPlainObject(value)) return value
  const entries = Object.entries(value)
    .map(([name, child]) => [name, withoutNull(child)] as const)
    .filter(([, child]) => child !== undefined)
  return entries.length === 0 ? undefined : Object.fromEntries(entries)
}
