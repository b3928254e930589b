/** The configuration that results from request bodies: that of the engine double, without its routes and its time. */
import { EngineError } from '../../../crds/contract/errors.ts'
import type { CollectionBody, CollectionInfo, IndexBody } from '../../../crds/engine/collections.ts'
import { EngineFailure } from '../../doubles/engine/answers.ts'
import { CreateCollection, UpdateCollection } from '../../doubles/engine/bodies/collection.ts'
import { hasEmptyHnsw, newConfig, patchConfig } from '../../doubles/engine/collection.ts'
import { readBody } from '../../doubles/engine/read.ts'
import { indexOf, withIndex, withoutIndex } from '../../doubles/engine/routes/indexes.ts'

export function engineError(status: number, message: string): EngineError {
  return new EngineError(`the engine answered ${status}: ${message}`, { status })
}

type Fields = Parameters<typeof hasEmptyHnsw>[0]

/** A body is read before anything else is looked at. */
export function readCreation(body: CollectionBody): Fields {
  return answered(() => readBody(CreateCollection, body))
}

export function createdInfo(read: Fields): CollectionInfo {
  return answered(() => {
    const config = newConfig(read, 1)
    refuseHanging(read)
    return {
      ...{ status: 'green', points_count: 0, indexed_vectors_count: 0, segments_count: 2 },
      ...{ config: structuredClone(config) as CollectionInfo['config'], payload_schema: {} },
    }
  })
}

export function readPatch(body: CollectionBody): Fields {
  return answered(() => readBody(UpdateCollection, body))
}

export function patchInto({ config }: CollectionInfo, read: Fields): void {
  answered(() => {
    patchConfig(config as Parameters<typeof patchConfig>[0], structuredClone(read))
    refuseHanging(read)
  })
}

type Schema = CollectionInfo['payload_schema']

export function readIndex(body: IndexBody): (schema: Schema) => Schema {
  const index = answered(() => indexOf(body))
  return (schema) => withIndex(schema, index) as Schema
}

export function withoutField(schema: Schema, field: string): Schema {
  return answered(() => withoutIndex(schema, field)) as Schema
}

/** A call that waits for what never comes ends with its timeout. */
function refuseHanging(body: Fields): void {
  if (!hasEmptyHnsw(body)) return
  throw engineError(
    500,
    'Waiting for consensus operation commit failed. Timeout set at: 15 seconds',
  )
}

/** The answer that the double gives to a refused body is the error that the port throws. */
function answered<T>(change: () => T): T {
  try {
    return change()
  } catch (error) {
    if (!(error instanceof EngineFailure)) throw error
    const { status, body } = error.answer
    throw engineError(status, JSON.stringify(body))
  }
}
