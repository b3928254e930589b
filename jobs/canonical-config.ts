/**
 * A node that holds no shard of a collection, or whose own shard answers last, returns what another node has sent to
 * it, and some values have changed on the way (docs/engine-notes.md, "Collections"). Without one form for each value
 * the same collection would differ from itself between two calls.
 */
import { isPlainObject, ownValue, type PlainObject } from '../crds/engine/plain-object.ts'

/** Sent between nodes as a 32-bit float, stored with 64 bits. */
const FLOAT_32 = 'search_max_oversampling'

/** `config` of a collection with the limits of its strict mode as a client has set them, and no empty metadata. */
export function canonicalConfig<Config extends object>(config: Config): Config {
  const metadata = ownValue(config, 'metadata')
  if (isPlainObject(metadata) && Object.keys(metadata).length === 0) {
    const { metadata: _, ...others } = config as PlainObject
    return canonicalConfig(others as Config)
  }
  const strictMode = ownValue(config, 'strict_mode_config')
  const limit = ownValue(strictMode, FLOAT_32)
  if (!isPlainObject(strictMode) || typeof limit !== 'number') return config
  return { ...config, strict_mode_config: { ...strictMode, [FLOAT_32]: shortestFloat(limit) } }
}

/** Parameters of a payload index; the stop words of one language are its name, and empty lists are left out. */
export function canonicalIndexParams<Params extends PlainObject | null | undefined>(
  params: Params,
): Params {
  const stopwords = ownValue(params, 'stopwords')
  if (!isPlainObject(stopwords)) return params
  const { stopwords: _, ...others } = params as PlainObject
  const canonical = canonicalStopWords(stopwords)
  return { ...others, ...(canonical !== undefined && { stopwords: canonical }) } as Params
}

function canonicalStopWords(stopwords: PlainObject): unknown {
  const lists = Object.entries(stopwords).filter(
    ([, list]) => list !== null && !(Array.isArray(list) && list.length === 0),
  )
  if (lists.length === 0) return undefined
  const [[name, list] = []] = lists
  const isLanguage = lists.length === 1 && name === 'languages' && Array.isArray(list)
  return isLanguage && list.length === 1 ? list[0] : Object.fromEntries(lists)
}

/** The shortest decimal of a value of 32 bits; one that needs 64 is returned as it is. */
function shortestFloat(value: number): number {
  if (Math.fround(value) !== value) return value
  for (let digits = 1; digits < MAX_DIGITS; digits += 1) {
    const shorter = Number(value.toPrecision(digits))
    if (Math.fround(shorter) === value) return shorter
  }
  return value
}

/** Decimal digits that always suffice for a 32-bit float. */
const MAX_DIGITS = 9
