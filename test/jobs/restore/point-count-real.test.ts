/** Counts, numbers of writes and configuration on a real engine, which ENGINE_BIN names. */
import t, { type Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import type { ShardManifest } from '../../../crds/contract/manifest.ts'
import { systemClock } from '../../../jobs/clock.ts'
import { realSubject } from '../../contract/engine/real.ts'
import { startBucketServer } from '../../doubles/bucket/server.ts'
import { matchWhole } from '../../match-whole.ts'
import { ask, readCollectionState } from './collection-state.ts'
import { restoreWorld } from './restore-world.ts'
import { MANIFEST } from './restore-fixture.ts'

const bin = process.env['ENGINE_BIN']
const real = { time: systemClock }

if (bin === undefined) {
  t.pass('ENGINE_BIN names no engine: nothing to count in', { skip: true })
} else {
  t.setTimeout(600_000)
  for (const method of ['Node', 'Shard'] as const) {
    t.test(`by ${method}, on a real engine`, { timeout: 280_000 }, (t) => examine(t, bin, method))
  }
}

const FIRST = {
  vectors: {
    a: { size: 2, distance: 'Dot', on_disk: true, hnsw_config: { m: 24 } },
    b: { size: 3, distance: 'Cosine', quantization_config: { scalar: { type: 'int8' } } },
  },
  sparse_vectors: { text: { modifier: 'idf' } },
  shard_number: 2,
  on_disk_payload: false,
  hnsw_config: { m: 32, ef_construct: 200 },
  optimizers_config: { indexing_threshold: 5000, deleted_threshold: 0.3 },
  quantization_config: { binary: { always_ram: true } },
  strict_mode_config: { enabled: true, max_query_limit: 500 },
  metadata: { owner: 'search', tier: 1 },
}
const CHANGED = {
  vectors: {
    a: { size: 2, distance: 'Dot', on_disk: false, hnsw_config: { m: 8 } },
    b: { size: 3, distance: 'Cosine', quantization_config: { binary: {} } },
  },
  sparse_vectors: { text: { modifier: 'none' } },
  shard_number: 2,
  hnsw_config: { m: 4 },
  optimizers_config: { indexing_threshold: 1, max_optimization_threads: 2 },
  quantization_config: { scalar: { type: 'int8' } },
  strict_mode_config: { enabled: true, max_query_limit: 100 },
  metadata: { owner: 'another team', secret: 'x' },
}

function pointsOf(...ids: number[]) {
  return ids.map((id) => ({ id, vector: { a: [id, 1], b: [1, 2, id] }, payload: { id } }))
}

async function examine(t: Test, bin: string, method: 'Node' | 'Shard') {
  const engine = await realSubject(bin, { size: 'one', service: {} })
  const s3 = await startBucketServer()
  t.teardown(async () => {
    await engine.close()
    await s3.close()
  })
  const [url = ''] = engine.urls
  const world = await restoreWorld(t, {
    ports: [Number(new URL(url).port)],
    endpoint: s3.url,
    method,
  })
  const ids = Array.from({ length: 200 }, (_, id) => id)
  await ask(url, 'PUT', '/collections/docs?timeout=60', FIRST)
  const index = { field_name: 'id', field_schema: 'integer' }
  await ask(url, 'PUT', '/collections/docs/index?wait=true', index)
  await ask(url, 'PUT', '/collections/docs/points?wait=true', { points: pointsOf(...ids) })
  const backup = await world.run({}, real)
  t.equal(backup.code, EXIT.done, backup.code === EXIT.done ? 'done' : backup.log)
  const before = await readCollectionState([url], 'docs')
  const text = s3.buckets.get('backups')?.text(MANIFEST) ?? '{}'
  const [docs] = (JSON.parse(text) as ShardManifest).collections
  const proven = docs?.shards.map(({ exactPointsCount }) => exactPointsCount ?? NaN) ?? []
  t.equal(proven.length, 2)
  t.equal((proven[0] ?? 0) + (proven[1] ?? 0), 200, 'each shard is known to be unwritten')

  await t.test('over another configuration: everything is restored, without a note', async (t) => {
    await ask(url, 'DELETE', '/collections/docs?timeout=60')
    await ask(url, 'PUT', '/collections/docs?timeout=60', CHANGED)
    const restore = await world.restore()
    const { code, log } = await restore.run(real)
    t.equal(code, EXIT.done, code === EXIT.done ? 'done' : log)
    t.strictSame(await readCollectionState([url], 'docs'), before)
    t.match(await restore.progress(), { message: 'Restored 1/1' })
  })

  await t.test('recreated: nothing differs, and nothing is noted', async (t) => {
    await ask(url, 'DELETE', '/collections/docs?timeout=60')
    const restore = await world.restore()
    const { code, log } = await restore.run(real)
    t.equal(code, EXIT.done, code === EXIT.done ? 'done' : log)
    t.strictSame(await readCollectionState([url], 'docs'), before)
    t.match(await restore.progress(), { message: 'Restored 1/1' })
    matchWhole(t, await restore.result(), { collections: [{ points: 200 }] })
  })
}
