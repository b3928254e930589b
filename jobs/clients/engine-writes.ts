/**
 * How many writes the copies of a collection's shards on one node have taken. Two equal readings prove
 * that nothing was written in between, which equal counts of points do not.
 */
import { Type } from '@sinclair/typebox'
import { EngineError } from '../../crds/errors.ts'
import type { Engine } from './engine.ts'

const TELEMETRY_SECONDS = 10

const Queue = Type.Object({
  length: Type.Integer(),
  /** Number of the last write that was applied; null before the first one. */
  op_num: Type.Union([Type.Integer(), Type.Null()]),
})

/** `GET /telemetry?details_level=3`; engines before 1.17 have no `update_queue`. */
const Telemetry = Type.Object({
  collections: Type.Object({
    collections: Type.Array(
      Type.Object({
        id: Type.String(),
        shards: Type.Array(
          Type.Object({
            id: Type.Integer(),
            local: Type.Optional(
              Type.Union([Type.Object({ update_queue: Type.Optional(Queue) }), Type.Null()]),
            ),
          }),
        ),
      }),
    ),
  }),
})

/**
 * The number of the last write of each copy on this node, by shard; 0 before the first write. A copy is
 * left out while writes wait for it, or where the engine does not say.
 */
export async function writesOn(
  engine: Engine,
  collection: string,
  signal?: AbortSignal,
): Promise<Map<number, number>> {
  const path = `/telemetry?details_level=3&timeout=${TELEMETRY_SECONDS}`
  const options = { timeoutMs: (TELEMETRY_SECONDS + 5) * 1000, signal }
  const writes = new Map<number, number>()
  const found = await engine.call('GET', path, Telemetry, options).catch(ignoreEngineError)
  const shards = found?.collections.collections.find(({ id }) => id === collection)?.shards ?? []
  for (const { id, local } of shards) {
    const queue = local?.update_queue
    if (queue !== undefined && queue.length === 0) writes.set(id, queue.op_num ?? 0)
  }
  return writes
}

/** An engine without these fields, or too busy to answer: then nothing is known. */
function ignoreEngineError(error: unknown): undefined {
  if (!(error instanceof EngineError)) throw error
}
