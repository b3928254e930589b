/** What a node reports about the memory it uses, and about queries that were slow. */
import { Type } from '@sinclair/typebox'
import type { Engine } from './client.ts'

const READ_MS = 10_000
const TELEMETRY_SECONDS = 10

const OptionalNumber = Type.Optional(Type.Union([Type.Number({ minimum: 0 }), Type.Null()]))

/** `GET /telemetry?details_level=3`, the first level that lists shards. */
const UsageTelemetry = Type.Object({
  app: Type.Optional(
    Type.Object({
      system: Type.Optional(Type.Union([Type.Object({ cores: OptionalNumber }), Type.Null()])),
    }),
  ),
  memory: Type.Optional(Type.Union([Type.Object({ resident_bytes: OptionalNumber }), Type.Null()])),
  collections: Type.Object({
    collections: Type.Optional(
      Type.Array(
        Type.Object({
          id: Type.String(),
          config: Type.Optional(
            Type.Object({ params: Type.Record(Type.String(), Type.Unknown()) }),
          ),
          shards: Type.Optional(
            Type.Union([
              Type.Array(
                Type.Object({
                  id: Type.Integer(),
                  local: Type.Optional(
                    Type.Union([
                      Type.Object({
                        vectors_size_bytes: OptionalNumber,
                        payloads_size_bytes: OptionalNumber,
                        num_points: OptionalNumber,
                      }),
                      Type.Null(),
                    ]),
                  ),
                }),
              ),
              Type.Null(),
            ]),
          ),
        }),
      ),
    ),
  }),
})

export interface ShardUsage {
  collection: string
  shard: number
  vectorBytes: number
  payloadBytes: number
  points: number
}

export interface NodeUsage {
  /** Memory of the process; undefined if the engine does not report it. */
  residentBytes?: number
  /** Cores that the engine sees. */
  cores?: number
  /** The engine's parameters of each collection. */
  params: Map<string, Record<string, unknown>>
  /** Replicas on this node. */
  shards: ShardUsage[]
}

export async function nodeUsage(engine: Engine, signal?: AbortSignal): Promise<NodeUsage> {
  const path = `/telemetry?details_level=3&timeout=${TELEMETRY_SECONDS}`
  const options = { timeoutMs: (TELEMETRY_SECONDS + 5) * 1000, signal }
  const { app, memory, collections } = await engine.call('GET', path, UsageTelemetry, options)
  const listed = collections.collections ?? []
  const residentBytes = memory?.resident_bytes
  const cores = app?.system?.cores
  return {
    ...(residentBytes != null && { residentBytes }),
    ...(cores != null && { cores }),
    params: new Map(listed.map(({ id, config }) => [id, config?.params ?? {}])),
    shards: listed.flatMap(({ id: collection, shards }) =>
      (shards ?? []).flatMap(({ id: shard, local }) =>
        local == null
          ? []
          : [
              {
                ...{ collection, shard },
                vectorBytes: local.vectors_size_bytes ?? 0,
                payloadBytes: local.payloads_size_bytes ?? 0,
                points: local.num_points ?? 0,
              },
            ],
      ),
    ),
  }
}

const Issues = Type.Object({ issues: Type.Array(Type.Object({ id: Type.String() })) })

export interface UnindexedField {
  collection: string
  field: string
}

/** `UNINDEXED_FIELD/<collection>/<field>`; the name of a collection has no slash. */
const UNINDEXED = /^UNINDEXED_FIELD\/([^/]+)\/(.+)$/s

/** Payload fields that slow queries to this node filtered by, and that have no index. */
export async function unindexedFields(
  engine: Engine,
  signal?: AbortSignal,
): Promise<UnindexedField[]> {
  const { issues } = await engine.call('GET', '/issues', Issues, { signal, timeoutMs: READ_MS })
  return issues.flatMap(({ id }) => {
    const [, collection, field] = UNINDEXED.exec(id) ?? []
    return collection === undefined || field === undefined ? [] : [{ collection, field }]
  })
}
