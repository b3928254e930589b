/** An engine double, a bucket double and a VecBackup of the engine into the bucket. */
import type { Test } from 'tap'
import type { BackupResult } from '../../../crds/contract/job.ts'
import type { NodeManifest } from '../../../crds/contract/manifest.ts'
import type { BucketServerOptions } from '../../doubles/bucket/server.ts'
import { setSnapshotBytes } from '../../doubles/engine/snapshots.ts'
import { startBucket, startEngine } from '../engine-and-bucket.ts'
import { backupWorld, type BackupWorldOptions } from './backup-world.ts'

export const MIB = 1024 * 1024

interface FixtureOptions extends Partial<Omit<BackupWorldOptions, 'ports' | 'endpoint'>> {
  nodes?: number
  /** Names in the engine, each with a shard per node. */
  engineCollections?: string[]
  replicationFactor?: number
  snapshotBytes?: number
  /** Time of the engine. */
  now?: () => Date
  store?: BucketServerOptions
}

export type BackupFixture = Awaited<ReturnType<typeof backupFixture>>

export async function backupFixture(t: Test, options: FixtureOptions = {}) {
  const {
    nodes: count = 2,
    engineCollections = ['docs'],
    replicationFactor = 1,
    snapshotBytes = 0,
    now,
  } = options
  const { engine, nodes, ports } = await startEngine(t, count, { ...(now && { now }) })
  for (const name of engineCollections) engine.createCollection(name, count, replicationFactor)
  setSnapshotBytes(engine, snapshotBytes)
  const manifestKey = () => `${world.folder}manifest.json`
  const bucket = await startBucket<NodeManifest>(t, manifestKey, options.store)
  const world = await backupWorld(t, { ...options, ports, endpoint: bucket.s3.url })
  return {
    engine,
    nodes,
    ...bucket,
    world,
    keys: () => bucket.store().keys(),
    result: async (): Promise<Partial<BackupResult>> => (await world.progress())?.backup ?? {},
  }
}
