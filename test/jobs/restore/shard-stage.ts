/** A backup by shard of one engine double, and another of any number of nodes to bring it back into. */
import type { Test } from 'tap'
import { EXIT } from '../../../crds/command.ts'
import type { ShardManifest } from '../../../crds/manifest.ts'
import type { RestorePlan } from '../../../crds/restore-command.ts'
import type { RestoreSpec } from '../../../crds/restore.ts'
import { startBucketServer } from '../../doubles/bucket/server.ts'
import { EngineCluster } from '../../doubles/engine/cluster.ts'
import { startEngineNode } from '../../doubles/engine/node.ts'
import { setSnapshotBytes } from '../../doubles/engine/snapshots.ts'
import { ask, portrait } from './portrait.ts'
import { restoreWorld } from './restore-world.ts'
import { fillKeyed, MANIFEST } from './stage.ts'

export interface ShardStageOptions {
  /** Nodes of the source, and of the target. */
  from?: number
  into?: number
  replicationFactor?: number
  shards?: number
  snapshotBytes?: number
  /** What else is made before it is backed up. */
  prepare?: (engine: EngineCluster, url: string) => Promise<unknown>
}

export type ShardStage = Awaited<ReturnType<typeof shardStage>>

const POINTS = 30

/** The collection `docs`, backed up; at the target there is nothing. */
export async function shardStage(t: Test, options: ShardStageOptions = {}) {
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
  const before = new Map<string, Portrait>()
  for (const name of source.engine.collections.keys()) {
    before.set(name, (await portrait([url], name)) as Portrait)
  }
  const target = await startEngine(t, into)
  const world = await restoreWorld(t, { ports: target.ports, endpoint: s3.url })
  s3.calls.length = 0
  const store = () => {
    const found = s3.buckets.get('backups')
    if (found === undefined) throw new Error('there is no bucket')
    return found
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
      const wanted = before.get(name)
      for (const [node, url] of target.urls.entries()) {
        const found = (await portrait([url], name)) as Portrait
        t.strictSame(comparable(found), wanted && comparable(wanted), `node ${node}`)
      }
    },
  }
}

/** Shard keys with a gap of ids before each of them, and a key with other copies than its collection. */
export async function makeKeyed(engine: EngineCluster, url: string) {
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
  await fillKeyed(url)
  engine.aliases.set('live', 'keyed')
}

interface Portrait {
  config: { params: Record<string, unknown> }
  shards: { shard_key?: string | number }[]
}

/** Without the number of copies, and without the ids of shards that have a key. */
function comparable(found: Portrait): Portrait {
  const params = { ...found.config.params, replication_factor: 'any' }
  const shards = found.shards.map((shard) =>
    shard.shard_key === undefined ? shard : { shard_key: shard.shard_key },
  )
  return { ...found, config: { ...found.config, params }, shards }
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
