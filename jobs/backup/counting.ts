/** How many points a collection has, exactly: what a restore compares with. */
import { EngineError } from '../../crds/errors.ts'
import type { ShardKey } from '../../crds/manifest.ts'
import { snapshotsOn, type Work } from './work.ts'

/** Of all shards, or of those of a key; undefined where the engine cannot tell. */
export async function countOf(
  collection: string,
  work: Work,
  shardKey?: ShardKey,
): Promise<number | undefined> {
  const { log, signal } = work.tools
  try {
    return await snapshotsOn(work, 0).exactCount(collection, signal, shardKey)
  } catch (error) {
    if (!(error instanceof EngineError)) throw error
    log.warn({ collection, reason: error.message }, 'points are not counted')
    return undefined
  }
}
