/** An engine double with collections and points, and a bucket double that has a backup of it. */
import type { Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import type { NodeManifest } from '../../../crds/contract/manifest.ts'
import type { EngineRequest } from '../../doubles/engine/answers.ts'
import type { EngineCluster } from '../../doubles/engine/cluster.ts'
import { setSnapshotBytes } from '../../doubles/engine/snapshots.ts'
import { startBucket, startEngine } from '../engine-and-bucket.ts'
import { instantClock, type RunOptions } from '../job-world.ts'
import { ask, readCollectionState } from './collection-state.ts'
import { restoreWorld, type Restore } from './restore-world.ts'

export interface RestoreFixtureOptions {
  nodes?: number
  replicationFactor?: number
  /** Collections in the engine, each with one shard per node and ten points. */
  collections?: string[]
  snapshotBytes?: number
  /** Changes the engine before the backup. */
  prepare?: (engine: EngineCluster, url: string) => Promise<unknown>
  method?: 'Node' | 'Shard'
  /** What clients do during the backup. */
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
  const { engine, nodes, ports, urls } = await startEngine(t, count)
  const bucket = await startBucket<NodeManifest>(t, () => MANIFEST)
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
  const world = await restoreWorld(t, { ports, endpoint: bucket.s3.url, method })
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
  bucket.s3.calls.length = 0
  const currentState = (name: string) => readCollectionState(urls, name)
  return {
    engine,
    nodes,
    urls,
    world,
    ...bucket,
    /** Deletes these with their aliases. */
    deleteCollections: (...names: string[]) => {
      for (const name of names) engine.removeCollection(name)
    },
    stateBefore: (name: string) => stateBefore.get(name),
    currentState,
    /** Each collection is as it was when it was backed up. */
    assertRestored: async (...names: string[]) => {
      for (const name of names) t.strictSame(await currentState(name), stateBefore.get(name), name)
    },
  }
}

/** Two shard keys, each after a gap in the shard ids. */
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

/** Time passes only in waits. Each gives the double two real milliseconds for its own work. */
export function run(restore: Restore, options: RunOptions & { pod?: string } = {}) {
  const time = instantClock(() => new Promise((resolve) => setTimeout(resolve, 2)))
  return restore.run({ time, ...options })
}

/** The log of a restore that is completed. */
export async function runToDone(t: Test, restore: Restore, options?: Parameters<typeof run>[1]) {
  const { code, log } = await run(restore, options)
  t.equal(code, EXIT.done, code === EXIT.done ? 'done' : log)
  return log
}

/** A call that recovers a snapshot. The call that tests whether a node can fetch has a checksum of zeros. */
export function isRecovery({ path, body }: EngineRequest): boolean {
  const { checksum } = Object(body) as { checksum?: string }
  return path.at(-1) === 'recover' && checksum !== '0'.repeat(64)
}

/** Deletes two of four shard keys, which leaves gaps between the shard ids. */
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
