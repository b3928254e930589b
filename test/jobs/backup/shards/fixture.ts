/** A backup by shard with any number of shards, and counters of its concurrent streams. */
import type { Test } from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import { shardSnapshotKey } from '../../../../crds/contract/backup-keys.ts'
import type { ShardManifest } from '../../../../crds/contract/manifest.ts'
import type { EngineRequest } from '../../../doubles/engine/answers.ts'
import type { Misbehaviour } from '../../../doubles/engine/misbehaviour.ts'
import { backupFixture, type BackupFixture } from '../fixture.ts'

/** The keys under which attempts of these tests write a shard. */
export function shardKeyPattern(collection: string, shardId: number): RegExp {
  const key = shardSnapshotKey('nightly/b/', { collection, shardId, attempt: '[0-9a-f]{8}' })
  return new RegExp(`^${key.replaceAll('.', '\\.')}$`)
}

type FixtureOptions = Parameters<typeof backupFixture>[1]

export type ShardFixture = Awaited<ReturnType<typeof shardFixture>>

export async function shardFixture(t: Test, options: FixtureOptions & { shards?: number } = {}) {
  const { shards, engineCollections: made = ['docs'], replicationFactor } = options
  const fixture = await backupFixture(t, {
    method: 'Shard',
    ...options,
    engineCollections: shards === undefined ? made : [],
  })
  for (const name of shards === undefined ? [] : made) {
    fixture.engine.createCollection(name, shards, replicationFactor)
  }
  return { ...fixture, manifest: () => fixture.manifest() as unknown as ShardManifest }
}

/** GET of the stream of a shard, by its id. */
export function streamedShard({ method, path }: EngineRequest): number | undefined {
  const isStream = method === 'GET' && path[2] === 'shards' && path[4] === 'snapshot'
  return isStream ? Number(path[3]) : undefined
}

/** Sets what pods do when a shard is streamed from them; `act` gets the shard's id and the pod's ordinal. */
export function onStream(
  { nodes }: Pick<BackupFixture, 'nodes'>,
  act: (shard: number, node: number) => Misbehaviour | undefined,
): void {
  nodes.forEach((node, ordinal) => {
    node.misbehave((request) => {
      const shard = streamedShard(request)
      return shard === undefined ? undefined : act(shard, ordinal)
    })
  })
}

/** Counts streams: the most that were open at the same time, in total and per pod, and the number per pod. */
export function countStreams(fixture: ShardFixture) {
  /** Pod by shard. */
  const open = new Map<number, number>()
  const made = fixture.nodes.map(() => 0)
  let maxOpen = 0
  let maxOpenPerPod = 0
  onStream(fixture, (shard, node) => {
    open.set(shard, node)
    made[node] = (made[node] ?? 0) + 1
    maxOpen = Math.max(maxOpen, open.size)
    const ofThisPod = [...open.values()].filter((pod) => pod === node).length
    maxOpenPerPod = Math.max(maxOpenPerPod, ofThisPod)
    return { delayMs: 50 }
  })
  // A stream has ended when its checkpoint is in the bucket.
  fixture.s3.misbehave(({ operation, key }) => {
    const shard = /shard-(\d+)\/checkpoint.json$/.exec(key)?.[1]
    if (operation === 'PutObject' && shard !== undefined) open.delete(Number(shard))
    return undefined
  })
  return { maxOpen: () => maxOpen, maxOpenPerPod: () => maxOpenPerPod, byPod: () => made }
}

/** Every object that the manifest names exists with its size and bytes, and no other object exists. */
export async function assertComplete(t: Test, fixture: ShardFixture): Promise<void> {
  const { store, world } = fixture
  t.equal(store().uploads.size, 0, 'no upload is left open')
  t.equal(
    (await world.verify('s3://backups/nightly/b')).code,
    EXIT.done,
    'every object is complete',
  )
  const named = fixture.manifest().collections.flatMap(({ snapshots }) => snapshots)
  t.strictSame(
    fixture.keys().filter((key) => key.endsWith('.snapshot')),
    named.map(({ key }) => key).sort(),
    'there are no other snapshots',
  )
}
