/** A backup by shard of one engine double, and a second engine double, of any number of nodes, to restore it to. */
import type { Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import type { ShardManifest } from '../../../crds/contract/manifest.ts'
import type { RestorePlan } from '../../../crds/contract/restore-job.ts'
import type { RestoreSpec } from '../../../crds/restore.ts'
import type { EngineCluster } from '../../doubles/engine/cluster.ts'
import { setSnapshotBytes } from '../../doubles/engine/snapshots.ts'
import { startBucket, startEngine } from '../engine-and-bucket.ts'
import { ask, readCollectionState } from './collection-state.ts'
import { restoreWorld } from './restore-world.ts'
import { fillKeyedCollection, MANIFEST } from './restore-fixture.ts'

export interface ShardRestoreFixtureOptions {
  /** Nodes of the source, and of the target. */
  from?: number
  into?: number
  replicationFactor?: number
  shards?: number
  snapshotBytes?: number
  /** Changes the source before the backup. */
  prepare?: (engine: EngineCluster, url: string) => Promise<unknown>
}

export type ShardRestoreFixture = Awaited<ReturnType<typeof shardRestoreFixture>>

const POINTS = 30

/** The collection `docs` is backed up; the target is empty. */
export async function shardRestoreFixture(t: Test, options: ShardRestoreFixtureOptions = {}) {
  const { from = 3, into = 3, replicationFactor = 2, shards = 4, snapshotBytes = 0 } = options
  const bucket = await startBucket<ShardManifest>(t, () => MANIFEST)
  const endpoint = bucket.s3.url
  const source = await startEngine(t, from)
  const [url = ''] = source.urls
  source.engine.createCollection('docs', shards, replicationFactor)
  const points = Array.from({ length: POINTS }, (_, id) => ({ id, vector: {}, payload: { id } }))
  await ask(url, 'PUT', '/collections/docs/points?wait=true', { points })
  await options.prepare?.(source.engine, url)
  setSnapshotBytes(source.engine, snapshotBytes)
  let uid = ''
  await t.test('is backed up by shard', async (t) => {
    const world = await restoreWorld(t, {
      ...{ ports: source.ports, endpoint, method: 'Shard' },
    })
    const { code, log } = await world.run()
    t.equal(code, EXIT.done, code === EXIT.done ? 'done' : log)
    uid = world.uid
  })
  const before = new Map<string, CollectionState>()
  for (const name of source.engine.collections.keys()) {
    before.set(name, (await readCollectionState([url], name)) as CollectionState)
  }
  const target = await startEngine(t, into)
  const world = await restoreWorld(t, { ports: target.ports, endpoint })
  bucket.s3.calls.length = 0
  return {
    ...target,
    ...bucket,
    world,
    restore: (spec: Partial<RestoreSpec> = {}, changes: Partial<RestorePlan> = {}) =>
      world.restore(spec, { backup: { name: 'b', uid }, ...changes }),
    /** Every node of the target has the collection as it was backed up, except for the replication factor. */
    compare: async (t: Test, name = 'docs') => {
      const expected = before.get(name)
      for (const [node, url] of target.urls.entries()) {
        const actual = (await readCollectionState([url], name)) as CollectionState
        t.strictSame(comparable(actual), expected && comparable(expected), `node ${node}`)
      }
    },
  }
}

/** Shard keys, each after a gap in the shard ids; one has another replication factor than its collection. */
export async function createKeyedCollection(engine: EngineCluster, url: string) {
  await ask(url, 'PUT', '/collections/keyed', {
    vectors: { size: 2, distance: 'Dot' },
    sharding_method: 'custom',
    replication_factor: 2,
  })
  for (const [shard_key, replication_factor] of [
    ['gone', 1],
    ['a', 2],
    ['also gone', 1],
    [7, 1],
  ] as const) {
    const body = { shard_key, shards_number: 1, replication_factor }
    await ask(url, 'PUT', '/collections/keyed/shards', body)
  }
  await fillKeyedCollection(url)
  engine.aliases.set('live', 'keyed')
}

interface CollectionState {
  config: { params: Record<string, unknown> }
  shards: { shard_key?: string | number }[]
}

/** Without the replication factor, and without the ids of shards that have a key. */
function comparable(state: CollectionState): CollectionState {
  const params = { ...state.config.params, replication_factor: 'any' }
  const shards = state.shards.map((shard) =>
    shard.shard_key === undefined ? shard : { shard_key: shard.shard_key },
  )
  return { ...state, config: { ...state.config, params }, shards }
}
