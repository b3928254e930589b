/** Manifests as they can occur in a bucket that other programs write to. */
import fc from 'fast-check'
import { shardSnapshotKey } from '../../crds/contract/backup-keys.ts'
import { Rejected } from '../../crds/contract/errors.ts'
import {
  NodeManifest,
  ShardManifest,
  type Manifest,
  type ManifestCollection,
  type NodeCollection,
  type ShardCollection,
} from '../../crds/contract/manifest.ts'
import { VecRestore } from '../../crds/restore.ts'
import { parseManifest, withChecksum } from '../../jobs/manifest-check.ts'
import { selectItems } from '../../jobs/restore/select-collections.ts'
import { damaged, damages, type Damage } from './mangle.ts'
import { Broken } from './promises.ts'
import { resourceOf } from './specs.ts'
import type { Check, Subject } from './subject.ts'
import { valueOf } from './value.ts'
import { CLUSTER, FuzzedWorld } from './world.ts'

interface ManifestCase {
  manifest: unknown
  damages: Damage[]
  collections?: string[]
  collectionMapping: Record<string, string>
}

const { collections, collectionMapping } = VecRestore.spec.properties

export const manifests: Subject<ManifestCase> = {
  name: 'manifests',
  title: 'a manifest is read, or refused with the field that is wrong',
  cases: fc.record(
    {
      manifest: fc.oneof(
        (valueOf(NodeManifest) as fc.Arbitrary<NodeManifest>).map(whole(ofNode)),
        (valueOf(ShardManifest) as fc.Arbitrary<ShardManifest>).map(whole(ofShards)),
      ),
      damages: fc.oneof(fc.constant<Damage[]>([]), damages),
      collections: valueOf(collections) as fc.Arbitrary<string[]>,
      collectionMapping: valueOf(collectionMapping) as fc.Arbitrary<Record<string, string>>,
    },
    { requiredKeys: ['manifest', 'damages', 'collectionMapping'], noNullPrototype: true },
  ),
  open,
  inWorld,
}

async function open(): Promise<Check<ManifestCase>> {
  return {
    async holds({ manifest, damages: all, ...spec }) {
      const value: unknown = JSON.parse(JSON.stringify(damaged(manifest, all)))
      const read = rejected(() => parseManifest(value), /^manifest\.json: ./)
      if (read === undefined) return 'refused'
      const names = read.collections.map(({ name }) => name)
      const some = {
        ...spec,
        ...(spec.collections !== undefined && { collections: names.slice(0, 1) }),
      }
      const picked = rejected(() => selectItems(read, some), /^(Collections|collectionMapping) ./)
      return picked === undefined
        ? 'read, not chosen from'
        : `read, version ${read.manifestVersion}`
    },
    close: async () => undefined,
  }
}

const FOLDER = 'p/b'

/** In the bucket that a VecRestore is to read from. */
async function inWorld(): Promise<Check<ManifestCase>> {
  const fuzzed = await FuzzedWorld.open()
  return {
    holds: ({ manifest, damages: all, ...chosenOf }) =>
      fuzzed.holds({
        ...{ resource: resourceOf('VecRestore'), name: 'a' },
        async spec(namespace) {
          const bucket = await fuzzed.world.bucket(namespace)
          await bucket.put(`${FOLDER}/manifest.json`, JSON.stringify(damaged(manifest, all)))
          return {
            ...chosenOf,
            source: { s3: { ...bucket.target, path: FOLDER } },
            targetClusterRef: CLUSTER,
          }
        },
      }),
    askedAgain: () => fuzzed.askedAgain,
    close: () => fuzzed.close(),
  }
}

/** Undefined where it is refused, in words like these. */
function rejected<Result>(read: () => Result, words: RegExp): Result | undefined {
  try {
    return read()
  } catch (error) {
    if (error instanceof Rejected && words.test(error.message)) return undefined
    if (error instanceof Rejected) throw new Broken(`names no field: ${error.message}`)
    throw error
  }
}

interface Fillable<Collection> {
  nodeCount: number
  collections: Collection[]
  manifestSha256?: string
}

/** With snapshots of all that the manifest lists, so that it can be read, and with its own checksum if it has one. */
function whole<Collection extends ManifestCollection, M extends Fillable<Collection> & Manifest>(
  completed: (collection: Collection, nodes: number) => Collection,
) {
  return (manifest: M): M => {
    const nodeCount = 1 + (manifest.nodeCount % 3)
    const all = manifest.collections.map((collection) => completed(collection, nodeCount))
    const filled: M = { ...manifest, nodeCount, collections: all }
    return manifest.manifestSha256 === undefined ? filled : withChecksum(filled)
  }
}

function ofNode(collection: NodeCollection, nodes: number): NodeCollection {
  const [first] = collection.snapshots
  if (first === undefined) return collection
  const snapshots = Array.from({ length: nodes }, (_, nodeIndex) => ({ ...first, nodeIndex }))
  const shards = first.localShards.map((shard) => ({ ...shard, nodes: [0] }))
  return { ...collection, snapshots, shards }
}

function ofShards(collection: ShardCollection): ShardCollection {
  const { name, config, snapshots } = collection
  const [first] = snapshots
  if (first === undefined) return collection
  const ids = snapshots.map((_, id) => id)
  const params = { ...config.params, sharding_method: 'auto', shard_number: ids.length }
  return {
    ...collection,
    config: { ...config, params },
    shardKeys: [],
    shards: ids.map((shardId) => ({ shardId, nodes: [0] })),
    snapshots: ids.map((shardId) => {
      const { nodeIndex, sizeBytes, sha256 } = first
      const key = shardSnapshotKey('p/b/', { collection: name, shardId, attempt: '0a1b2c3d' })
      return { shardId, nodeIndex, sizeBytes, sha256, key }
    }),
  }
}
