/** A collection as a node without a shard of it shows it: what another node has sent (docs/engine-notes.md#collections). */
import { isObject } from './read.ts'

type Fields = Record<string, unknown>

/** Stop words are lists that are not empty, there is no empty metadata, and one limit has 32 bits. */
export function sentForm<Config extends { strict_mode_config?: Fields; metadata?: Fields }>({
  config,
  payloadSchema,
}: {
  config: Config
  payloadSchema: Fields
}): { config: Config; payloadSchema: Fields } {
  const { strict_mode_config: limits, metadata, ...others } = config
  const isEmpty = isObject(metadata) && Object.keys(metadata).length === 0
  return {
    config: {
      ...others,
      ...(limits !== undefined && { strict_mode_config: sentLimits(limits) }),
      ...(metadata !== undefined && !isEmpty && { metadata }),
    } as Config,
    payloadSchema: Object.fromEntries(
      Object.entries(payloadSchema).map(([field, index]) => [field, sentIndex(index)]),
    ),
  }
}

function sentLimits(limits: Fields): Fields {
  const { search_max_oversampling: limit, ...others } = limits
  return typeof limit === 'number'
    ? { ...others, search_max_oversampling: Math.fround(limit) }
    : limits
}

function sentIndex(index: unknown): unknown {
  if (!isObject(index) || !isObject(index['params'])) return index
  const { stopwords, ...others } = index['params']
  if (stopwords === undefined) return index
  return { ...index, params: { ...others, stopwords: sentStopWords(stopwords) } }
}

function sentStopWords(stopwords: unknown): unknown {
  if (!isObject(stopwords)) return { languages: [stopwords] }
  return Object.fromEntries(
    Object.entries(stopwords).filter(([, list]) => Array.isArray(list) && list.length > 0),
  )
}
