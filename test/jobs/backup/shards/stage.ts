/** The stage of a backup by shard: shards as many as a test wants, and who streams how many at once. */
import { createHash } from 'node:crypto'
import type { Test } from 'tap'
import { EXIT } from '../../../../crds/command.ts'
import { shardSnapshotKey } from '../../../../crds/layout.ts'
import type { ShardManifest } from '../../../../crds/manifest.ts'
import type { EngineRequest } from '../../../doubles/engine/answers.ts'
import type { Misbehaviour } from '../../../doubles/engine/misbehaviour.ts'
import { RUNNER } from '../../job-ground.ts'
import { stage, type Stage } from '../stage.ts'

/** Where a pod of these tests writes a shard. */
export function shardKeyOf(collection: string, shardId: number, pod = RUNNER): string {
  const writer = createHash('sha256').update(pod).digest('hex').slice(0, 8)
  return shardSnapshotKey('nightly/b/', { collection, shardId, writer })
}

type StageOptions = Parameters<typeof stage>[1]

export type ShardStage = Awaited<ReturnType<typeof shardStage>>

export async function shardStage(t: Test, options: StageOptions & { shards?: number } = {}) {
  const { shards, made = ['docs'], replicationFactor } = options
  const scene = await stage(t, {
    method: 'Shard',
    ...options,
    made: shards === undefined ? made : [],
  })
  for (const name of shards === undefined ? [] : made) {
    scene.engine.createCollection(name, shards, replicationFactor)
  }
  return { ...scene, manifest: () => scene.manifest() as unknown as ShardManifest }
}

/** GET of the stream of a shard, by its id. */
export function streamed({ method, path }: EngineRequest): number | undefined {
  const isStream = method === 'GET' && path[2] === 'shards' && path[4] === 'snapshot'
  return isStream ? Number(path[3]) : undefined
}

/** What the pods do when a shard is streamed from them; called with its id and their ordinal. */
export function onStream(
  { nodes }: Pick<Stage, 'nodes'>,
  act: (shard: number, node: number) => Misbehaviour | undefined,
): void {
  nodes.forEach((node, ordinal) => {
    node.misbehave((request) => {
      const shard = streamed(request)
      return shard === undefined ? undefined : act(shard, ordinal)
    })
  })
}

/** Counts streams: how many were open at once, and from one pod, and how many each pod made. */
export function streamsIn(scene: ShardStage) {
  /** Pod by shard. */
  const open = new Map<number, number>()
  const made = scene.nodes.map(() => 0)
  let most = 0
  let mostOfAPod = 0
  onStream(scene, (shard, node) => {
    open.set(shard, node)
    made[node] = (made[node] ?? 0) + 1
    most = Math.max(most, open.size)
    const ofThisPod = [...open.values()].filter((pod) => pod === node).length
    mostOfAPod = Math.max(mostOfAPod, ofThisPod)
    return { delayMs: 50 }
  })
  // A stream has ended once that is written down in the bucket.
  scene.s3.misbehave(({ operation, key }) => {
    const shard = /shard-(\d+)\/part.json$/.exec(key)?.[1]
    if (operation === 'PutObject' && shard !== undefined) open.delete(Number(shard))
    return undefined
  })
  return { most: () => most, mostOfAPod: () => mostOfAPod, byPod: () => made }
}

/** All that the manifest names is there in its size and its bytes, and there is nothing else. */
export async function isWhole(t: Test, scene: ShardStage): Promise<void> {
  const { store, world } = scene
  t.equal(store().uploads.size, 0, 'no upload is left open')
  t.equal((await world.verify('s3://backups/nightly/b')).code, EXIT.done, 'every object is whole')
  const named = scene.manifest().collections.flatMap(({ snapshots }) => snapshots)
  t.strictSame(
    scene.keys().filter((key) => key.endsWith('.snapshot')),
    named.map(({ key }) => key).sort(),
    'and there are no others',
  )
}
