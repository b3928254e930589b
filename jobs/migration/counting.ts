/** How many points there are, one by one: by a count, or by their ids where strict mode forbids that. */
import { EngineError } from '../../crds/errors.ts'
import type { ShardKey } from '../../crds/manifest.ts'
import { isTooLarge, paced } from './pace.ts'
import type { Side, Work } from './work.ts'

const IDS_AT_ONCE = 5_000

interface Counted {
  /** Name of the collection on that side. */
  name: string
  shardKey?: ShardKey | undefined
}

export async function countPoints(
  { points }: Side,
  { name, shardKey }: Counted,
  work: Work,
): Promise<number> {
  const { signal } = work.tools
  try {
    return await paced(work, () => points.count(name, shardKey, signal))
  } catch (error) {
    if (!isForbidden(error)) throw error
  }
  let count = 0
  let offset: string | undefined
  for (let limit = IDS_AT_ONCE; ;) {
    try {
      const wanted = { limit, offset, shardKey, bare: true } as const
      const page = await paced(work, () => points.scroll(name, wanted, signal))
      count += page.count
      if (page.next === undefined) return count
      offset = page.next
    } catch (error) {
      if (limit === 1 || !isTooLarge(error)) throw error
      limit = Math.ceil(limit / 2)
    }
  }
}

function isForbidden(error: unknown): boolean {
  return error instanceof EngineError && error.status === 400 && /exact/i.test(error.message)
}
