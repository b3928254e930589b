/** Points that differed: copied again, and looked at on both sides right afterwards. */
import { arrayOf, kindOf, type Comparison } from './compare.ts'
import { Differences } from './differences.ts'
import { InFlight } from './in-flight.ts'
import { isTooLarge, paced } from './pace.ts'
import { PageSize, type Place } from './pages.ts'
import type { Side, Work } from './work.ts'
import { Room, writeNow, type Shared } from './writes.ts'

const AT_ONCE = 100
const MOST_BYTES = 8 * 1024 * 1024

/** Answers with what still differs. Points that neither side has any more do not. */
export async function recheck(
  former: Differences,
  { load, tolerances, wait }: Comparison,
  work: Work,
): Promise<Differences> {
  const found = new Differences(former.unknown('extra'))
  const size = new PageSize(load.most)
  const shared: Shared = { room: new Room(), size, inFlight: new InFlight(), work, wait }
  let most = Math.min(AT_ONCE, load.most)
  for (const [place, ids] of former.ids('missing', 'different', 'extra')) {
    for (let at = 0; at < ids.length;) {
      const some = ids.slice(at, at + most)
      try {
        const { source, target } = await copiedAgain(place, some, shared)
        for (const id of some) {
          const kind = kindOf(itemOf(id, source), itemOf(id, target), tolerances)
          if (kind !== undefined) found.add(kind, place, id)
        }
        at += some.length
      } catch (error) {
        if (some.length === 1 || !isTooLarge(error)) throw error
        most = Math.ceil(some.length / 2)
      }
    }
  }
  return found
}

/** What both sides have, once the source's points are written to the target. */
async function copiedAgain(place: Place, ids: readonly string[], shared: Shared) {
  const { source, target } = shared.work
  const found = await retrieved(source, place, ids, shared)
  await writeNow(arrayOf([...found.values()]), place, shared)
  return {
    source: await retrieved(source, place, ids, shared),
    target: await retrieved(target, place, ids, shared),
  }
}

function retrieved(
  { called, points }: Side,
  { name, targetName, shardKey }: Place,
  ids: readonly string[],
  { work }: Shared,
): Promise<Map<string, Buffer>> {
  const collection = called === 'source' ? name : targetName
  const options = { shardKey, maxBytes: ids.length === 1 ? Infinity : MOST_BYTES }
  return paced(work, () => points.retrieve(collection, ids, options, work.tools.signal))
}

function itemOf(id: string, found: ReadonlyMap<string, Buffer>) {
  const json = found.get(id)
  return json && { id, json }
}
