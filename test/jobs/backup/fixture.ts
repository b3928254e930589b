/** An engine double, a bucket double and a VecBackup of the one into the other. */
import type { Test } from 'tap'
import type { BackupResult } from '../../../crds/contract/job.ts'
import type { NodeManifest } from '../../../crds/contract/manifest.ts'
import { startBucketServer, type BucketServerOptions } from '../../doubles/bucket/server.ts'
import { EngineCluster } from '../../doubles/engine/cluster.ts'
import { startEngineNode } from '../../doubles/engine/node.ts'
import { setSnapshotBytes } from '../../doubles/engine/snapshots.ts'
import { backupWorld, type BackupWorldOptions } from './backup-world.ts'

export const MIB = 1024 * 1024

interface FixtureOptions extends Partial<Omit<BackupWorldOptions, 'ports' | 'endpoint'>> {
  nodes?: number
  /** Names in the engine, each with a shard per node. */
  engineCollections?: string[]
  replicationFactor?: number
  snapshotBytes?: number
  store?: BucketServerOptions
}

export type BackupFixture = Awaited<ReturnType<typeof backupFixture>>

export async function backupFixture(t: Test, options: FixtureOptions = {}) {
  const {
    nodes: count = 2,
    engineCollections = ['docs'],
    replicationFactor = 1,
    snapshotBytes = 0,
  } = options
  const engine = new EngineCluster({ name: 'vec-a', staleMs: 0 })
  const ordinals = Array.from({ length: count }, (_, ordinal) => ordinal)
  const nodes = await Promise.all(
    ordinals.map((ordinal) => startEngineNode({ ordinal, cluster: engine })),
  )
  for (const name of engineCollections) engine.createCollection(name, count, replicationFactor)
  setSnapshotBytes(engine, snapshotBytes)
  const s3 = await startBucketServer(options.store)
  t.teardown(async () => {
    await Promise.all(nodes.map((node) => node.close()))
    await s3.close()
  })
  const ports = nodes.map(({ port }) => port)
  const world = await backupWorld(t, { ...options, ports, endpoint: s3.url })
  const store = () => {
    const found = s3.buckets.get('backups')
    if (found === undefined) throw new Error('there is no bucket')
    return found
  }
  return {
    engine,
    nodes,
    s3,
    world,
    keys: () => store().keys(),
    store,
    manifest: () =>
      JSON.parse(store().text(`${world.folder}manifest.json`) ?? '{}') as NodeManifest,
    result: async (): Promise<Partial<BackupResult>> => (await world.progress())?.backup ?? {},
  }
}
