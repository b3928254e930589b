/**
 * The most memory a migration ever needs: points nearly as large as the engine takes any, under several
 * shard keys, so that every lane holds some of them.
 */
import { taken } from './job.ts'
import { call } from './engine-calls.ts'
import { withJob, type Engines } from './migrating.ts'
import type { Figure } from './table.ts'

const COLLECTION = 'large'
const KEYS = ['a', 'b', 'c', 'd']
const POINTS_OF_KEY = 4
const MIB = 1024 * 1024
const POINT_MIB = 30
const MAX_RSS = 256
/** The name of the row. */
export const LARGE_POINTS = `RSS, peak, points of ${POINT_MIB} MiB under ${KEYS.length} shard keys`

export async function largePoints(engines: Engines): Promise<Figure> {
  await fill(engines.source.urls[0] ?? '')
  const { peak } = await withJob(engines, [COLLECTION], taken)
  const url = engines.target.urls[0] ?? ''
  const count = await call(url, 'POST', `/collections/${COLLECTION}/points/count`, { exact: true })
  if ((count as { count: number }).count !== KEYS.length * POINTS_OF_KEY) {
    throw new Error('not all large points came')
  }
  return {
    what: LARGE_POINTS,
    ...{ unit: 'MiB', value: peak, target: MAX_RSS, met: peak < MAX_RSS },
  }
}

async function fill(url: string): Promise<void> {
  const path = `/collections/${COLLECTION}`
  const vectors = { size: 2, distance: 'Dot' }
  await call(url, 'PUT', path, { vectors, sharding_method: 'custom', shard_number: 1 })
  for (const [n, key] of KEYS.entries()) {
    await call(url, 'PUT', `${path}/shards`, { shard_key: key })
    for (let point = 0; point < POINTS_OF_KEY; point += 1) {
      const id = n * POINTS_OF_KEY + point
      const payload = { id, key, text: 'x'.repeat(POINT_MIB * MIB) }
      const points = [{ id, vector: [1.5, id], payload }]
      await call(url, 'PUT', `${path}/points?wait=true`, { points, shard_key: key })
    }
  }
}
