/** An engine double with collections and points, a bucket double, and a backup of the one in the other. */
import type { Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import type { NodeManifest } from '../../../crds/contract/manifest.ts'
import type { EngineRequest } from '../../doubles/engine/answers.ts'
import { startBucketServer } from '../../doubles/bucket/server.ts'
import { EngineCluster } from '../../doubles/engine/cluster.ts'
import { startEngineNode } from '../../doubles/engine/node.ts'
import { setSnapshotBytes } from '../../doubles/engine/snapshots.ts'
import { instantClock, type RunOptions } from '../job-world.ts'
import { ask, readCollectionState } from './collection-state.ts'
import { restoreWorld, type Restore } from './restore-world.ts'

export interface RestoreFixtureOptions {
  nodes?: number
  replicationFactor?: number
  /** Names in the engine, each with a shard per node and ten points. */
  collections?: string[]
  snapshotBytes?: number
  /** What is done with the engine before it is backed up. */
  prepare?: (engine: EngineCluster, url: string) => Promise<unknown>
  method?: 'Node' | 'Shard'
  /** What clients do while it is backed up. */
  duringBackup?: (request: EngineRequest, engine: EngineCluster) => unknown
}

export type RestoreFixture = Awaited<ReturnType<typeof restoreFixture>>

export const MANIFEST = 'nightly/b/manifest.json'

export async function restoreFixture(t: Test, options: RestoreFixtureOptions = {}) {
  const {
    nodes: count = 3,
    collections = ['docs'],
    replicationFactor = 2,
    snapshotBytes = 0,
  } = options
  const engine = new EngineCluster({ name: 'vec-a', staleMs: 0 })
  const ordinals = Array.from({ length: count }, (_, ordinal) => ordinal)
  const nodes = await Promise.all(
    ordinals.map((ordinal) => startEngineNode({ ordinal, cluster: engine })),
  )
  const s3 = await startBucketServer()
  t.teardown(async () => {
    await Promise.all(nodes.map((node) => node.close()))
    await s3.close()
  })
  const ports = nodes.map(({ port }) => port)
  const urls = ports.map((port) => `http://127.0.0.1:${port}`)
  const [url = ''] = urls
  for (const name of collections) {
    engine.createCollection(name, count, replicationFactor)
    const points = Array.from({ length: 10 }, (_, id) => ({
      id,
      vector: {},
      payload: { name, id },
    }))
    await ask(url, 'PUT', `/collections/${name}/points?wait=true`, { points })
  }
  await options.prepare?.(engine, url)
  setSnapshotBytes(engine, snapshotBytes)
  const { method = 'Node', duringBackup } = options
  const world = await restoreWorld(t, { ports, endpoint: s3.url, method })
  for (const node of nodes) {
    node.misbehave((request) => {
      duringBackup?.(request, engine)
      return undefined
    })
  }
  const backup = await world.run()
  for (const node of nodes) node.misbehave()
  if (backup.code !== EXIT.done) throw new Error(backup.log)
  const stateBefore = new Map<string, object>()
  for (const name of engine.collections.keys())
    stateBefore.set(name, await readCollectionState(urls, name))
  s3.calls.length = 0
  const store = () => {
    const found = s3.buckets.get('backups')
    if (found === undefined) throw new Error('there is no bucket')
    return found
  }
  return {
    engine,
    nodes,
    urls,
    s3,
    world,
    store,
    manifest: () => JSON.parse(store().text(MANIFEST) ?? '{}') as NodeManifest,
    /** As somebody may have edited it, who then removed its checksum. */
    rewrite: (change: (manifest: NodeManifest) => unknown) => {
      const manifest = JSON.parse(store().text(MANIFEST) ?? '{}') as NodeManifest
      delete manifest.manifestSha256
      change(manifest)
      store().put(MANIFEST, Buffer.from(JSON.stringify(manifest)))
    },
    /** Nothing of these is left, aliases included. */
    deleteCollections: (...names: string[]) => {
      for (const name of names) engine.removeCollection(name)
    },
    stateBefore: (name: string) => stateBefore.get(name),
    currentState: (name: string) => readCollectionState(urls, name),
  }
}

/** Two shard keys with a gap of ids before each of them. */
export async function createKeyedCollection(engine: EngineCluster, url: string) {
  await ask(url, 'PUT', '/collections/keyed', {
    vectors: { size: 2, distance: 'Dot' },
    sharding_method: 'custom',
    replication_factor: 2,
    metadata: { owner: 'search', nothing: null },
  })
  for (const shard_key of ['gone', 'a', 'also gone', 7]) {
    await ask(url, 'PUT', '/collections/keyed/shards', { shard_key, shards_number: 1 })
  }
  await fillKeyedCollection(url)
  await ask(url, 'PATCH', '/collections/keyed', { params: { read_fan_out_factor: 2 } })
  engine.aliases.set('live', 'keyed')
}

/** Time passes only in waits, and those let what the double does in real time be done. */
export function run(restore: Restore, options: RunOptions & { pod?: string } = {}) {
  const time = instantClock(() => new Promise((resolve) => setTimeout(resolve, 2)))
  return restore.run({ time, ...options })
}

/** A call that brings a snapshot, and does not just ask with a checksum of nothing whether a node can fetch. */
export function isRecovery({ path, body }: EngineRequest): boolean {
  const { checksum } = Object(body) as { checksum?: string }
  return path.at(-1) === 'recover' && checksum !== '0'.repeat(64)
}

/** Of four shard keys two are deleted again, which leaves gaps between the ids of shards. */
export async function fillKeyedCollection(url: string): Promise<void> {
  for (const shard_key of ['gone', 'also gone']) {
    await ask(url, 'POST', '/collections/keyed/shards/delete', { shard_key })
  }
  for (const shard_key of ['a', 7]) {
    const points = [1, 2, 3].map((id) => ({ id, vector: [id, 1], payload: { of: shard_key } }))
    await ask(url, 'PUT', '/collections/keyed/points?wait=true', { shard_key, points })
  }
  const index = { field_name: 'of', field_schema: 'keyword' }
  await ask(url, 'PUT', '/collections/keyed/index?wait=true', index)
}
