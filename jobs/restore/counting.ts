/** The points that are back, counted one by one and compared with what the backup counted. */
import { EngineError } from '../../crds/errors.ts'
import type { ManifestCollection, ShardKey } from '../../crds/manifest.ts'
import { patiently } from '../patience.ts'
import { snapshotsOn, type Work } from './work.ts'
import type { Wanted } from './wanted.ts'

/** A count is of one moment, and may be behind what was settled: a little at first. */
const COUNT_PAUSES_MS = [100, 400, 1_500, 3_000, 5_000, 5_000, 5_000, 5_000]

/** Answers how many there are in all; undefined where nobody may count them. */
export async function provenPoints(
  { source, name }: Pick<Wanted, 'source' | 'name'>,
  work: Work,
): Promise<number | undefined> {
  const { tally, tools } = work
  const { exactPointsCount, pointsCount, shardKeys } = source
  const count = await provenCount(name, { recorded: exactPointsCount }, work)
  const fields = { collection: name, points: count, recorded: exactPointsCount ?? pointsCount }
  if (count === undefined) {
    tally.note(`points of ${name} were not counted: its strict mode forbids it`)
    return undefined
  }
  tools.log.info(fields, `${name} has ${count} points`)
  await proveKeys(name, shardKeys, work)
  // The recorded number is then of several moments, or approximate: it is shown, and proves nothing.
  if (exactPointsCount === undefined && count !== pointsCount) {
    tally.note(`${name} has ${count} points; about ${pointsCount ?? 'unknown'} were recorded`)
  }
  return count
}

/** What the backup counted under each shard key. */
async function proveKeys(
  name: string,
  shardKeys: ManifestCollection['shardKeys'],
  work: Work,
): Promise<void> {
  for (const { key, exactPointsCount: recorded } of shardKeys) {
    if (recorded !== undefined) await provenCount(name, { recorded, key }, work)
  }
}

interface Counted {
  recorded: number | undefined
  key?: ShardKey
}

async function provenCount(
  name: string,
  { recorded, key }: Counted,
  work: Work,
): Promise<number | undefined> {
  const { time, signal } = work.tools
  for (let tries = 0; ; tries += 1) {
    const count = await patiently(work, () => snapshotsOn(work, 0).exactCount(name, signal, key))
    if (count === undefined || recorded === undefined || count === recorded) return count
    const pause = COUNT_PAUSES_MS[tries]
    if (pause === undefined) {
      const where = key === undefined ? name : `shard key ${JSON.stringify(key)} of ${name}`
      throw new EngineError(
        `${where} has ${count} points after the restore, but the backup has ${recorded}`,
      )
    }
    await time.sleep(pause, signal)
  }
}
