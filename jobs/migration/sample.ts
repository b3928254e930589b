/** Points of the source chosen at random: to compare them, and to see how their ids are spread. */
import { isTooLarge, paced } from './pace.ts'
import type { Place } from './pages.ts'
import type { Work } from './work.ts'

/** Their ids, as JSON; fewer where the source has, or allows, no more at once. */
export async function sampleIds(
  { name, shardKey }: Place,
  wanted: number,
  work: Work,
): Promise<string[]> {
  const { source, tools } = work
  for (let limit = wanted; ; limit = Math.floor(limit / 2)) {
    try {
      return await paced(work, () => source.points.sample(name, limit, shardKey, tools.signal))
    } catch (error) {
      if (limit <= 1 || !isTooLarge(error)) throw error
    }
  }
}
