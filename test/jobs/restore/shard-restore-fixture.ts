/** A backup by shard of one engine double, and another of any number of nodes to bring it back into. */
import type { Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import type { ShardManifest } from '../../../crds/contract/manifest.ts'
import type { RestorePlan } from '../../../crds/contract/restore-job.ts'
import type { RestoreSpec } from '../../../crds/restore.ts'
import { startBucketServer } from '../../doubles/bucket/server.ts'
import { EngineCluster } from '../../doubles/engine/cluster.ts'
import { startEngineNode } from '../../doubles/engine/node.ts'
import { setSnapshotBytes } from '../../doubles/engine/snapshots.ts'
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
  /** What else is made before it is backed up. */
  prepare?: (engine: EngineCluster, url: string) => Promise<unknown>
}

export type ShardRestoreFixture = Awaited<ReturnType<typeof shardRestoreFixture>>

const POINTS = 30

/** The collection `docs`, backed up; at the target there is nothing. */
export async function shardRestoreFixture(t: Test, options: ShardRestoreFixtureOptions = {}) {
  const { from = 3, into = 3, replicationFactor = 2, shards = 4, snapshotBytes = 0 } = options
  const s3 = await startBucketServer()
  t.teardown(() => s3.close())
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
      ...{ ports: source.ports, endpoint: s3.url, method: 'Shard' },
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
  const world = await restoreWorld(t, { ports: target.ports, endpoint: s3.url })
  s3.calls.length = 0
  const store = () => {
    const actual = s3.buckets.get('backups')
    if (actual === undefined) throw new Error('there is no bucket')
    return actual
  }
  const manifest = () => JSON.parse(store().text(MANIFEST) ?? '{}') as ShardManifest
  return {
    ...target,
    s3,
    store,
    world,
    manifest,
    /** As somebody may have edited it, who then removed its checksum. */
    rewrite: (change: (manifest: ShardManifest) => unknown) => {
      const changed = manifest()
      delete changed.manifestSha256
      change(changed)
      store().put(MANIFEST, Buffer.from(JSON.stringify(changed)))
    },
    restore: (spec: Partial<RestoreSpec> = {}, changes: Partial<RestorePlan> = {}) =>
      world.restore(spec, { backup: { name: 'b', uid }, ...changes }),
    /** As every node of the target tells it, but for the number of copies. */
    compare: async (t: Test, name = 'docs') => {
      const expected = before.get(name)
      for (const [node, url] of target.urls.entries()) {
        const actual = (await readCollectionState([url], name)) as CollectionState
        t.strictSame(comparable(actual), expected && comparable(expected), `node ${node}`)
      }
    },
  }
}

/** Shard keys with a gap of ids before each of them, and a key with other copies than its collection. */
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

/** Without the number of copies, and without the ids of shards that have a key. */
function comparable(state: CollectionState): CollectionState {
  const params = { ...state.config.params, replication_factor: 'any' }
  const shards = state.shards.map((shard) =>
    shard.shard_key === undefined ? shard : { shard_key: shard.shard_key },
  )
  return { ...state, config: { ...state.config, params }, shards }
}

async function startEngine(t: Test, count: number) {
  const engine = new EngineCluster({ name: 'vec-a', staleMs: 0 })
  const ordinals = Array.from({ length: count }, (_, ordinal) => ordinal)
  const nodes = await Promise.all(
    ordinals.map((ordinal) => startEngineNode({ ordinal, cluster: engine })),
  )
  t.teardown(() => Promise.all(nodes.map((node) => node.close())))
  const ports = nodes.map(({ port }) => port)
  return { engine, nodes, ports, urls: ports.map((port) => `http://127.0.0.1:${port}`) }
}
