/** The configuration that results from request bodies: that of the engine double, without its routes and its time. */
import { EngineError } from '../../../crds/contract/errors.ts'
import type {
  CollectionBody,
  CollectionInfo,
  IndexBody,
  IndexInfo,
} from '../../../crds/engine/collections.ts'
import { EngineFailure } from '../../doubles/engine/answers.ts'
import { CreateCollection, UpdateCollection } from '../../doubles/engine/bodies/collection.ts'
import { hasEmptyHnsw, newConfig, patchConfig } from '../../doubles/engine/collection.ts'
import { readBody } from '../../doubles/engine/read.ts'
import { indexOf } from '../../doubles/engine/routes/indexes.ts'

export function engineError(status: number, message: string): EngineError {
  return new EngineError(`the engine answered ${status}: ${message}`, { status })
}

export function createdInfo(body: CollectionBody): CollectionInfo {
  return answered(() => {
    const read = readBody(CreateCollection, body)
    const config = newConfig(read, 1)
    refuseHanging(read)
    return {
      ...{ status: 'green', points_count: 0, indexed_vectors_count: 0, segments_count: 2 },
      ...{ config: structuredClone(config) as CollectionInfo['config'], payload_schema: {} },
    }
  })
}

export function patchInto({ config }: CollectionInfo, body: CollectionBody): void {
  answered(() => {
    const read = readBody(UpdateCollection, body)
    patchConfig(config as Parameters<typeof patchConfig>[0], structuredClone(read))
    refuseHanging(read)
  })
}

export function indexInfo(body: IndexBody): IndexInfo {
  return answered(() => indexOf(body).info as unknown as IndexInfo)
}

/** A call that waits for what never comes ends with its timeout. */
function refuseHanging(body: Parameters<typeof hasEmptyHnsw>[0]): void {
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
