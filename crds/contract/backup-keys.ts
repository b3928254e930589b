/**
 * The keys of a backup's objects in its bucket. A folder always ends in a slash, so that the folder of
 * `a` is never a prefix of a key that belongs to `a-b`.
 */

export interface BackupLocation {
  bucket: string
  prefix: string
  name: string
}

/** `<prefix>/<name>/`; empty segments are ignored. */
export function backupFolder({ prefix, name }: Omit<BackupLocation, 'bucket'>): string {
  const parts = [...prefix.split('/'), name].filter((part) => part !== '')
  return `${parts.join('/')}/`
}

/** `s3://<bucket>/<prefix>/<name>` */
export function s3Path(location: BackupLocation): string {
  return `s3://${location.bucket}/${backupFolder(location).slice(0, -1)}`
}

export function manifestKey(folder: string): string {
  return `${folder}manifest.json`
}

/** Records the owner of the folder; written first, deleted last. */
export function ownerKey(folder: string): string {
  return `${folder}owner.json`
}

/** Folders that contain this one, outermost first. The bucket itself has no owner. */
export function enclosingFolders(folder: string): string[] {
  const parts = folder.split('/').filter((part) => part !== '')
  return parts.slice(1).map((_, index) => `${parts.slice(0, index + 1).join('/')}/`)
}

/** Key prefix of the records of all restores that read this backup. */
export function readersFolder(folder: string): string {
  return `${folder}readers/`
}

/** Records that a restore reads this backup, and since when; renewed while the restore is running. */
export function readerKey(folder: string, restoreUid: string): string {
  return `${readersFolder(folder)}${escapeSegment(restoreUid)}.json`
}

/** `collection.json` of a collection named `readers` has such a key too. */
export function isReaderKey(folder: string, key: string): boolean {
  return /^[^/]+\.json$/.test(key.slice(readersFolder(folder).length))
}

const CHECKPOINT = 'checkpoint.json'

/**
 * The key under which the previous release wrote this checkpoint. Remove with the next release.
 */
export function formerCheckpointKey(key: string): string {
  return `${key.slice(0, -CHECKPOINT.length)}part.json`
}

/** Keys in the folder that a backup and the restores that read it write. */
const BACKUP_KEYS =
  /^(manifest\.json|readers\/[^/]+\.json|[^/]+\/(collection\.json|(node|shard)-[0-9]+\/[^/]+))$/

/**
 * Whether a backup with this folder can have written this key. No owner.json is, at any depth: it records
 * the owner of a folder.
 */
export function isWrittenByBackup(folder: string, key: string): boolean {
  if (!key.startsWith(folder)) return false
  const rest = key.slice(folder.length)
  const file = rest.slice(rest.lastIndexOf('/') + 1)
  const isNested = rest.includes('/') && RESERVED_NAMES.has(file)
  return !isNested && BACKUP_KEYS.test(rest)
}

export function collectionFolder(folder: string, collection: string): string {
  return `${folder}${escapeSegment(collection)}/`
}

/** The manifest entry of a collection, written when all its nodes are done. */
export function collectionKey(folder: string, collection: string): string {
  return `${collectionFolder(folder, collection)}collection.json`
}

export function nodeFolder(folder: string, collection: string, ordinal: number): string {
  return `${collectionFolder(folder, collection)}node-${ordinal}/`
}

/** Checkpoint of the snapshot of one node. */
export function nodeCheckpointKey(folder: string, collection: string, ordinal: number): string {
  return `${nodeFolder(folder, collection, ordinal)}${CHECKPOINT}`
}

export function snapshotKey(
  folder: string,
  collection: string,
  ordinal: number,
  snapshot: string,
): string {
  return `${nodeFolder(folder, collection, ordinal)}${escapeSegment(snapshot)}`
}

/** Key prefix of all shards of a collection. */
export function shardFolderPrefix(folder: string, collection: string): string {
  return `${collectionFolder(folder, collection)}shard-`
}

export function shardFolder(folder: string, collection: string, shardId: number): string {
  return `${shardFolderPrefix(folder, collection)}${shardId}/`
}

/** Records that the snapshot of one shard is complete, and its source. */
export function shardCheckpointKey(folder: string, collection: string, shardId: number): string {
  return `${shardFolder(folder, collection, shardId)}${CHECKPOINT}`
}

/**
 * The engine gives a stream no name; this name identifies the content wherever the object is stored. Each attempt
 * writes its own object: a store may apply a write late, after the next attempt, and a pod that was presumed dead may
 * complete an upload. Neither may replace an object that the manifest describes.
 */
export function shardSnapshotKey(
  folder: string,
  { collection, shardId, attempt }: { collection: string; shardId: number; attempt: string },
): string {
  const file = `${escapeSegment(collection)}-${shardId}-${attempt}.snapshot`
  return `${shardFolder(folder, collection, shardId)}${file}`
}

/** Earlier releases did not include the attempt in the name. */
export function isShardSnapshotKey(key: string, collection: string, shardId: number): boolean {
  const start = `/${shardFolder('', collection, shardId)}${escapeSegment(collection)}-${shardId}`
  const index = key.lastIndexOf(start)
  return index !== -1 && /^(-[0-9a-f]{8})?\.snapshot$/.test(key.slice(index + start.length))
}

const RESERVED_NAMES = new Set(['manifest.json', 'owner.json', '.', '..'])

/** A name as one segment of a key; escapes characters that would end the segment and names of reserved files. */
function escapeSegment(name: string): string {
  if (RESERVED_NAMES.has(name)) return `%${hexByte(name.charCodeAt(0))}${name.slice(1)}`
  // A bucket listing cannot contain control characters.
  return name.replace(/[%/\\\x00-\x1f\x7f]/g, (character) => `%${hexByte(character.charCodeAt(0))}`)
}

function hexByte(code: number): string {
  return code.toString(16).toUpperCase().padStart(2, '0')
}
