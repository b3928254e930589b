/** An engine double with collections and points, a bucket double, and a backup of the one in the other. */
import type { Test } from 'tap'
import { EXIT } from '../../../crds/command.ts'
import type { NodeManifest } from '../../../crds/manifest.ts'
import { startBucketServer } from '../../doubles/bucket/server.ts'
import { EngineCluster } from '../../doubles/engine/cluster.ts'
import { startEngineNode } from '../../doubles/engine/node.ts'
import { setSnapshotBytes } from '../../doubles/engine/snapshots.ts'
import { instantTime, type RunOptions } from '../job-world.ts'
import { ask, portrait } from './portrait.ts'
import { restoreWorld, type Restore } from './restore-world.ts'

export interface StageOptions {
  nodes?: number
  replicationFactor?: number
  /** Names in the engine, each with a shard per node and ten points. */
  made?: string[]
  snapshotBytes?: number
  /** What is done with the engine before it is backed up. */
  prepare?: (engine: EngineCluster, url: string) => Promise<unknown>
}

export type Stage = Awaited<ReturnType<typeof stage>>

export const MANIFEST = 'nightly/b/manifest.json'

export async function stage(t: Test, options: StageOptions = {}) {
  const { nodes: count = 3, made = ['docs'], replicationFactor = 2, snapshotBytes = 0 } = options
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
  for (const name of made) {
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
  const world = await restoreWorld(t, { ports, endpoint: s3.url })
  const backup = await world.run()
  if (backup.code !== EXIT.done) throw new Error(backup.log)
  const before = new Map<string, object>()
  for (const name of engine.collections.keys()) before.set(name, await portrait(urls, name))
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
    /** As somebody may have edited it. */
    rewrite: (change: (manifest: NodeManifest) => unknown) => {
      const manifest = JSON.parse(store().text(MANIFEST) ?? '{}') as NodeManifest
      change(manifest)
      store().put(MANIFEST, Buffer.from(JSON.stringify(manifest)))
    },
    /** Nothing of these is left, aliases included. */
    lose: (...names: string[]) => {
      for (const name of names) engine.removeCollection(name)
    },
    before: (name: string) => before.get(name),
    now: (name: string) => portrait(urls, name),
  }
}

/** Time passes only in waits, and those let what the double does in real time be done. */
export function run(restore: Restore, options: RunOptions & { pod?: string } = {}) {
  const time = instantTime(() => new Promise((resolve) => setTimeout(resolve, 2)))
  return restore.run({ time, ...options })
}
