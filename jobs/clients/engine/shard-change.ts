/** A change of the shards of a collection, on which the nodes have to agree. */
import { SHARD_CHANGE_TIMEOUT_SECONDS } from '../../../crds/contract/limits.ts'
import type { Engine } from './client.ts'
import { BooleanResult } from './responses.ts'
import { collectionPath } from './transport.ts'

/** The engine waits for a leader, and then for the change, each as long as its limit: the client has to wait longer. */
const CALL_MS = (2 * SHARD_CHANGE_TIMEOUT_SECONDS + 5) * 1000

/** Throws EngineError with status 500 if the nodes have not agreed in time; the change may be made later. */
export async function changeShards(
  engine: Engine,
  collection: string,
  { body, signal }: { body: object; signal: AbortSignal | undefined },
): Promise<void> {
  const path = `${collectionPath(collection)}/cluster?timeout=${SHARD_CHANGE_TIMEOUT_SECONDS}`
  await engine.call('POST', path, BooleanResult, { body, timeoutMs: CALL_MS, signal })
}
