/**
 * Reads the manifest. It comes from a bucket and is not trusted: keys outside its own folder are
 * rejected.
 */
import { Rejected, StorageError } from '../../crds/contract/errors.ts'
import { manifestKey } from '../../crds/contract/backup-keys.ts'
import { MAX_MANIFEST_BYTES } from '../../crds/contract/limits.ts'
import { MANIFEST_VERSION, type Manifest } from '../../crds/contract/manifest.ts'
import {
  parseManifest,
  parseForeignManifest,
  isForeignManifest,
  type SourceManifest,
  type SourceSnapshot,
} from '../manifest-check.ts'
import type { RestorePlan } from '../../crds/contract/restore-job.ts'
import { formatBytes, formatNames } from '../../crds/units.ts'
import { readOwner } from '../backup/owner.ts'
import type { Bucket } from '../clients/s3/bucket.ts'
import { isTransient } from '../clients/s3/errors.ts'
import { collectionFromSnapshots } from './snapshot-metadata.ts'
import { requireSameNodeCount } from './target-checks.ts'

const MAX_LISTED = 10

/** Folder of the manifest as a key prefix: with a trailing slash, or empty. */
export function manifestFolder({ source }: Pick<RestorePlan, 'source'>): string {
  const parts = source.path.split('/').filter((part) => part !== '')
  return parts.length === 0 ? '' : `${parts.join('/')}/`
}

interface ManifestRequest {
  bucket: Bucket
  plan: RestorePlan
  /**
   * Collections that the spec asks for: in the backup of another program, only their snapshots are
   * read.
   */
  collections: string[] | undefined
  signal: AbortSignal
}

export async function readManifest(request: ManifestRequest): Promise<SourceManifest> {
  const { bucket, plan, signal } = request
  const folder = manifestFolder(plan)
  const key = manifestKey(folder)
  const address = `s3://${bucket.name}/${key}`
  const size = await bucket.size(key, signal)
  if (size === undefined) throw new Rejected(`${address} not found: the backup did not finish`)
  if (size > MAX_MANIFEST_BYTES) {
    throw new Rejected(
      `${address} has ${formatBytes(size)}, more than ${formatBytes(MAX_MANIFEST_BYTES)}`,
    )
  }
  const value = await bucket.getJson(key, signal)
  if (isForeignManifest(value)) return readExternalManifest(value, request)
  const manifest = parseManifest(value)
  if (plan.backup !== undefined && manifest.uid !== plan.backup.uid) {
    throw new Rejected(`${address} is that of another backup: its uid is ${manifest.uid}`)
  }
  checkManifest(manifest, folder, plan)
  await rejectIncomplete(manifest, request)
  return manifest
}

/**
 * A backup that failed has a manifest of what is complete. Only a restore that names a VecBackup knows that it is Completed;
 * owner.json has the collections that the backup was to contain.
 */
async function rejectIncomplete(
  { uid, collections, deletedCollections = [] }: Manifest,
  { bucket, plan, collections: selected, signal }: ManifestRequest,
): Promise<void> {
  if (plan.backup !== undefined || selected !== undefined) return
  const folder = manifestFolder(plan)
  const owner = await readOwner(bucket, folder, signal).catch(ignoreUnreadable)
  // The manifest may have been copied without it, or the credentials may not read it.
  if (owner?.uid !== uid) return
  const accounted = new Set([...collections.map(({ name }) => name), ...deletedCollections])
  const missing = owner.collections.filter((name) => !accounted.has(name))
  if (missing.length === 0) return
  throw new Rejected(
    `s3://${bucket.name}/${manifestKey(folder)} is that of a backup that failed, without ${formatNames(missing, MAX_LISTED)}: use another backup, or name the collections to restore in spec.collections`,
  )
}

/** A good backup is restored whatever is in its owner.json. */
function ignoreUnreadable(error: unknown): undefined {
  if (error instanceof Rejected) return
  const isFinal = error instanceof StorageError && !isTransient(error)
  if (isFinal || (error instanceof StorageError && error.cause instanceof SyntaxError)) return
  throw error
}

/** Reads from the snapshots what the manifest of another program does not contain. */
async function readExternalManifest(
  value: unknown,
  { bucket, plan, collections: selected, signal }: ManifestRequest,
): Promise<SourceManifest> {
  const { collections, ...manifest } = parseForeignManifest(value)
  if (plan.backup !== undefined) {
    throw new Rejected(
      `manifest.json has no manifestVersion: it is not that of VecBackup ${plan.backup.name}, but one that another program wrote. Restore it with spec.source`,
    )
  }
  checkManifest(
    { manifestVersion: MANIFEST_VERSION.Node, ...manifest, collections },
    manifestFolder(plan),
    plan,
  )
  const source: SourceManifest = {
    manifestVersion: MANIFEST_VERSION.Node,
    ...manifest,
    collections: [],
  }
  for (const collection of collections) {
    if (selected !== undefined && !selected.includes(collection.name)) continue
    source.collections.push(await collectionFromSnapshots(collection, bucket, signal))
  }
  return source
}

type ManifestOutline = Pick<SourceManifest, 'manifestVersion' | 'nodeCount'> & {
  collections: readonly { name: string; snapshots: readonly { key: string }[] }[]
}

function checkManifest(manifest: ManifestOutline, folder: string, { cluster }: RestorePlan): void {
  rejectKeysOutsideFolder(manifest, folder)
  rejectDuplicateCollections(manifest)
  requireSameNodeCount(manifest, cluster.replicas)
}

/** What a restore cannot check with the manifest of another program. */
export function unverifiableNotes({ uid, collections }: SourceManifest): string[] {
  if (uid !== undefined) return []
  const snapshots = collections.flatMap(
    (collection): readonly SourceSnapshot[] => collection.snapshots,
  )
  const withoutChecksum = snapshots.filter(({ sha256 }) => sha256 === undefined)
  return [
    'manifest.json is of another program: it has no engine version, aliases and counts of points to compare',
    ...(withoutChecksum.length > 0
      ? [`${withoutChecksum.length} snapshots have no checksum: only their sizes were compared`]
      : []),
  ]
}

function rejectDuplicateCollections({ collections }: ManifestOutline): void {
  const names = new Set<string>()
  for (const { name } of collections) {
    if (names.has(name)) throw new Rejected(`manifest.json: collection ${name} is in it twice`)
    names.add(name)
  }
}

/** The credentials may give access to more of the bucket than this backup. */
function rejectKeysOutsideFolder({ collections }: ManifestOutline, folder: string): void {
  for (const { snapshots } of collections) {
    for (const { key } of snapshots) {
      const segments = key.split('/')
      if (key.startsWith(folder) && !segments.includes('..') && !segments.includes('.')) continue
      throw new Rejected(`manifest.json: key ${key} is not in the folder of this backup`)
    }
  }
}
