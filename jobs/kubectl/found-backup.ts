/** Describes a backup that was found in a bucket: from its manifest.json, its owner.json and the listed sizes. */
import { manifestKey, ownerKey } from '../../crds/contract/backup-keys.ts'
import { Rejected, StorageError } from '../../crds/contract/errors.ts'
import {
  isShardManifest,
  type Manifest,
  type ForeignManifest,
} from '../../crds/contract/manifest.ts'
import { formatNames } from '../../crds/units.ts'
import { readOwner, type Owner } from '../backup/owner.ts'
import type { Bucket, StoredObject } from '../clients/s3/bucket.ts'
import { isForeignManifest, parseForeignManifest, parseManifest } from '../manifest-check.ts'

/** What a listing shows of a backup. */
export interface StoredFolder {
  /** `<prefix>/<name>/` */
  folder: string
  hasOwner: boolean
  hasManifest: boolean
  /** Number and size of the objects of the backup. */
  objects: number
  bytes: number
}

export interface FoundBackup {
  /** `s3://<bucket>/<prefix>/<name>` */
  location: string
  /** Whether it has all its collections, as far as manifest and listing show it; if not, `problem` says why. */
  complete: boolean
  /** Whether manifest or owner could not be read. */
  unreadable: boolean
  backup?: string
  /** `<namespace>/<name>` */
  cluster?: string
  /** When the backup started. */
  createdAt?: string
  /** Absent in a manifest of another program. */
  engineVersion?: string
  method?: 'Node' | 'Shard'
  nodes?: number
  /** Collections in the manifest of all that it should have, for example `3/3`. */
  collections?: string
  /** Absent in a manifest of another program. */
  points?: number
  objects: number
  bytes: number
  /** The VecBackup that wrote it, as `<namespace>/<name>`; absent in a backup of another program. */
  owner?: string
  uid?: string
  problem?: string
}

/** Maximum number of names in a problem. */
const MAX_LISTED = 10
const MAX_LISTED_OBJECTS = 3

export async function describeBackup(
  bucket: Bucket,
  stored: StoredFolder,
  signal: AbortSignal,
): Promise<FoundBackup> {
  const { folder, objects, bytes } = stored
  const found = { location: `s3://${bucket.name}/${folder.slice(0, -1)}`, objects, bytes }
  let described: Partial<FoundBackup> = {}
  try {
    const owner = stored.hasOwner ? await readOwner(bucket, folder, signal) : undefined
    if (owner !== undefined) described = describeOwner(owner)
    const content = stored.hasManifest
      ? await bucket.getJson(manifestKey(folder), signal)
      : undefined
    if (content === undefined) {
      const problem = 'no manifest.json: the backup is running, or did not finish'
      return { ...found, ...described, complete: false, unreadable: false, problem }
    }
    const manifest = isForeignManifest(content)
      ? parseForeignManifest(content)
      : parseManifest(content)
    const uid = 'uid' in manifest ? manifest.uid : undefined
    if (owner?.uid !== uid) {
      throw new Rejected(`s3://${bucket.name}/${ownerKey(folder)} does not match this manifest`)
    }
    const missing = missingCollections(manifest, owner)
    const problem = await incompleteReason(manifest, missing, () => bucket.listAll(folder, signal))
    return {
      ...{ ...found, ...described, ...describeManifest(manifest, missing.length) },
      complete: problem === undefined,
      unreadable: false,
      ...(problem !== undefined && { problem }),
    }
  } catch (error) {
    if (!(error instanceof Rejected || error instanceof StorageError)) throw error
    return { ...found, ...described, complete: false, unreadable: true, problem: error.message }
  }
}

function describeOwner({ uid, namespace, name, cluster, startedAt }: Owner): Partial<FoundBackup> {
  return {
    backup: name,
    cluster: `${cluster.namespace}/${cluster.name}`,
    createdAt: startedAt,
    owner: `${namespace}/${name}`,
    uid,
  }
}

function describeManifest(
  manifest: Manifest | ForeignManifest,
  missing: number,
): Partial<FoundBackup> {
  const { length } = manifest.collections
  const described = {
    backup: manifest.backupName,
    cluster: `${manifest.cluster.namespace}/${manifest.cluster.name}`,
    createdAt: manifest.createdAt,
    nodes: manifest.nodeCount,
    collections: `${length}/${length + missing}`,
  }
  if (!isOwn(manifest)) return { ...described, method: 'Node' }
  const collections: { pointsCount?: number; exactPointsCount?: number }[] = manifest.collections
  return {
    ...described,
    engineVersion: manifest.engineVersion,
    method: isShardManifest(manifest) ? 'Shard' : 'Node',
    points: collections.reduce(
      (sum, { pointsCount = 0, exactPointsCount = pointsCount }) => sum + exactPointsCount,
      0,
    ),
  }
}

function isOwn(manifest: Manifest | ForeignManifest): manifest is Manifest {
  return 'manifestVersion' in manifest
}

/** Without those that clients deleted during the backup. Another program does not say what it should have. */
function missingCollections(
  manifest: Manifest | ForeignManifest,
  owner: Owner | undefined,
): string[] {
  const deleted = isOwn(manifest) ? manifest.deletedCollections : undefined
  const present = new Set([...manifest.collections.map(({ name }) => name), ...(deleted ?? [])])
  return (owner?.collections ?? []).filter((name) => !present.has(name))
}

/** Undefined if the backup has all its collections and objects. */
async function incompleteReason(
  { collections }: Manifest | ForeignManifest,
  missing: string[],
  listObjects: () => AsyncIterable<StoredObject>,
): Promise<string | undefined> {
  if (missing.length > 0) {
    return `collections that failed or are missing: ${formatNames(missing, MAX_LISTED)}`
  }
  const expected = new Map<string, number>()
  for (const { snapshots } of collections) {
    for (const { key, sizeBytes } of snapshots) expected.set(key, sizeBytes)
  }
  if (expected.size === 0) return undefined
  // The sum of all sizes would not show a missing small object: checkpoints and manifest are larger.
  const listed = new Map<string, number>()
  for await (const { key, sizeBytes } of listObjects()) {
    if (expected.has(key)) listed.set(key, sizeBytes)
  }
  const differences = [...expected].flatMap(([key, sizeBytes]) => {
    const size = listed.get(key)
    if (size === sizeBytes) return []
    return [size === undefined ? `${key} is missing` : `${key} has ${size} bytes, not ${sizeBytes}`]
  })
  return differences.length === 0 ? undefined : formatNames(differences, MAX_LISTED_OBJECTS)
}
