/**
 * The proof at the end: points counted one by one under every shard key on both sides, and a random
 * sample of them compared whole. What changed on the source meanwhile shows here, as a difference.
 */
import type { MigrationPosition } from '../../crds/migration-command.ts'
import type { ShardKey } from '../../crds/manifest.ts'
import { giveBack } from '../clients/own-bytes.ts'
import { countPoints } from './counting.ts'
import { paced } from './pace.ts'
import type { Place } from './pages.ts'
import { samePoint } from './same-point.ts'
import { sampleIds } from './sample.ts'
import type { Work } from './work.ts'

export interface Proof {
  /** For people. */
  said: string
  /** What is not the same on both sides. */
  difference?: string
}

/** Points that are compared whole, over all shard keys. */
const SAMPLE = 100
/** So much of them is read at once, on each side. */
const SAMPLE_BYTES = 8 * 1024 * 1024
/** A point that was written a moment ago may be counted a moment later. */
const SECOND_LOOK_MS = 2_000

export async function prove(
  places: readonly Place[],
  { before }: MigrationPosition,
  work: Work,
): Promise<Proof> {
  const counted = await countAll(places, before, work)
  const compared = await compareAll(places, work)
  const differences = [...counted.differences, ...differenceOf(compared)]
  const said = `${counted.said}; ${compared.total} compared whole`
  return differences.length === 0
    ? { said }
    : { said, difference: `${differences.join('; ')} (were points written or deleted meanwhile?)` }
}

interface Counted {
  said: string
  differences: string[]
}

async function countAll(places: readonly Place[], before: number, work: Work): Promise<Counted> {
  let source = 0
  let target = 0
  const differences: string[] = []
  for (const place of places) {
    const counts = await countBoth(place, before, work)
    source += counts.source
    target += counts.target
    if (counts.fit) continue
    const under = place.shardKey === undefined ? '' : ` under shard key ${keyName(place.shardKey)}`
    differences.push(`the source has ${counts.source} points${under}, the target ${counts.target}`)
  }
  const said =
    before === 0 && source === target
      ? `${source} points on both sides`
      : `${source} points at the source, ${target} at the target${before === 0 ? '' : `, ${before} of them before`}`
  return { said, differences }
}

/** Twice, where they differ at first. */
async function countBoth({ name, targetName, shardKey }: Place, before: number, work: Work) {
  const { source, target, tools } = work
  for (let look = 1; ; look += 1) {
    const [atSource, atTarget] = await Promise.all([
      countPoints(source, { name, shardKey }, work),
      countPoints(target, { name: targetName, shardKey }, work),
    ])
    const counts = { source: atSource, target: atTarget }
    // What the target held before may have been overwritten, or not.
    const fit = counts.target >= counts.source && counts.target <= counts.source + before
    if (fit || look > 1) return { ...counts, fit }
    await tools.time.sleep(SECOND_LOOK_MS, tools.signal)
  }
}

interface Compared {
  total: number
  different: string[]
}

async function compareAll(places: readonly Place[], work: Work): Promise<Compared> {
  const compared: Compared = { total: 0, different: [] }
  const share = Math.ceil(SAMPLE / Math.max(1, places.length))
  for (const place of places) {
    if (compared.total >= SAMPLE) break
    const { total, different } = await compareSample(place, share, work)
    compared.total += total
    compared.different.push(...different)
  }
  return compared
}

async function compareSample(place: Place, share: number, work: Work): Promise<Compared> {
  const { source, target, tools, tally } = work
  const { name, targetName, shardKey } = place
  const fitting = Math.max(1, Math.floor(SAMPLE_BYTES / (tally.pointBytes() ?? 1)))
  const ids = await sampleIds(place, Math.min(share, fitting), work)
  if (ids.length === 0) return { total: 0, different: [] }
  const ones = await paced(work, () => source.points.retrieve(name, ids, shardKey, tools.signal))
  const others = await paced(work, () =>
    target.points.retrieve(targetName, ids, shardKey, tools.signal),
  )
  const different = [...ones].filter(([id, point]) => !samePoint(point, others.get(id)))
  for (const point of [...ones.values(), ...others.values()]) giveBack(point)
  return { total: ones.size, different: different.map(([id]) => id) }
}

function differenceOf({ total, different }: Compared): string[] {
  const [first] = different
  if (first === undefined) return []
  return [`${different.length} of ${total} points compared are not the same, such as ${first}`]
}

function keyName(key: ShardKey): string {
  return JSON.stringify(key)
}
