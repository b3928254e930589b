/**
 * Points that an engine has accepted and shows to no reader: with `prevent_unoptimized` (1.17 and later)
 * those that are not indexed yet. They are in no page and in no count, so they are waited for.
 */
import { EngineError } from '../../crds/errors.ts'
import { GREEN_TIMEOUT_SECONDS } from '../../crds/limits.ts'
import type { CollectionInfo } from '../../crds/rules/answers.ts'
import { paced } from './pace.ts'
import type { Side, Work } from './work.ts'

const POLL_MS = 5_000
/** The number falls each time a segment is indexed; a large segment takes long. */
const STALLED_MS = GREEN_TIMEOUT_SECONDS * 1000
const MOST_MS = 12 * STALLED_MS

/** A collection that is not green after so long is not waited for any more. */
const INDEXING_POLLS = 120

/** How many points of a collection are hidden until they are indexed or applied. */
function hiddenPoints({ config, update_queue: queue }: CollectionInfo, { called }: Side): number {
  if (config.optimizer_config['prevent_unoptimized'] !== true) return 0
  const { deferred_points: deferred, length = 0 } = queue ?? {}
  // Our own writes to such a target were not waited for.
  if (called === 'target') return (deferred ?? 0) + length
  // 1.17.0 hides nothing, and holds back the writes themselves.
  return deferred ?? length
}

/** Whether what is written may be hidden at first. */
export function isDeferring({ config }: CollectionInfo): boolean {
  const { prevent_unoptimized: prevents, indexing_threshold: threshold } = config.optimizer_config
  return prevents === true && threshold !== 0
}

/** Waits, within bounds, until all points of a collection can be read; undefined: it is gone. */
export async function untilReadable(
  side: Side,
  name: string,
  work: Work,
): Promise<CollectionInfo | undefined> {
  const { tools, tally } = work
  let lowest = Infinity
  for (let waited = 0, stalled = 0; ; waited += POLL_MS, stalled += POLL_MS) {
    const info = await paced(work, () => side.collections.collectionInfo(name, tools.signal))
    const hidden = info === undefined ? 0 : hiddenPoints(info, side)
    if (hidden === 0) return info
    if (hidden < lowest) stalled = 0
    lowest = Math.min(lowest, hidden)
    const what = `${hidden} of about ${info?.points_count ?? 0} points of ${name} at the ${side.called}`
    if (stalled >= STALLED_MS || waited >= MOST_MS) throw stillHidden(what, waited)
    tools.log.info({ collection: name, hidden }, `waiting until deferred points are indexed`)
    tally.waiting(`waiting for ${what}, which cannot be read until they are indexed`)
    await tools.time.sleep(POLL_MS, tools.signal)
    tally.check()
  }
}

/** Waits, for some minutes at most, until a collection has built its indexes. */
export async function untilIndexed({ collections }: Side, name: string, work: Work): Promise<void> {
  const { tools, tally } = work
  for (let poll = 0; poll < INDEXING_POLLS; poll += 1) {
    await tools.time.sleep(POLL_MS, tools.signal)
    tally.check()
    const info = await paced(work, () => collections.collectionInfo(name, tools.signal))
    if (info?.status !== 'yellow') return
    tally.waiting(`waiting until ${name} is indexed: it has more points than it shows`)
  }
}

function stillHidden(what: string, waitedMs: number): EngineError {
  const minutes = Math.round(waitedMs / 60_000)
  const advice = 'pause writing until the collection is indexed, and create another VecMigration'
  return new EngineError(
    `${what} cannot be read: prevent_unoptimized defers them until they are indexed, and after ${minutes} minutes they are not (${advice})`,
  )
}
