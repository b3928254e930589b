/**
 * The objects in the folder of a backup: which of them the backup can have written, and which belong to
 * others. A purge deletes only the former.
 */
import {
  enclosingFolders,
  isWrittenByBackup,
  manifestKey,
  ownerKey,
} from '../../crds/contract/backup-keys.ts'
import { StorageError } from '../../crds/contract/errors.ts'
import { shortHash } from '../../crds/contract/names.ts'
import type { Bucket, StoredObject } from '../clients/s3/bucket.ts'

export interface BackupFolder {
  bucket: Bucket
  /** `<prefix>/<name>/` */
  folder: string
  signal: AbortSignal | undefined
}

export interface ForeignObjects {
  count: number
  /** Key of one of them. */
  example: string
}

export interface FolderContent {
  /** Number of objects of the backup, including owner.json, and their size. */
  objects: number
  bytes: number
  /** Inner folders with their own owner.json or manifest.json. */
  inner: string[]
  /** Objects that the backup did not write. */
  others?: ForeignObjects
}

/** Ten million objects; longer listings are not read to the end. */
const MAX_PAGES = 10_000

/** Folders of other backups below this one, which are remembered while it is purged. */
const MAX_INNER_FOLDERS = 1000

/**
 * What marks an inner folder may be listed after other objects of that folder. If inner folders
 * exist, all keys are therefore listed a second time.
 */
export async function surveyFolder(context: BackupFolder): Promise<FolderContent> {
  const inner = new Set<string>()
  const content = await countObjects(context, inner)
  return inner.size === 0 ? content : countObjects(context, inner)
}

/** Adds inner folders to `inner`. */
async function countObjects(context: BackupFolder, inner: Set<string>): Promise<FolderContent> {
  let [objects, bytes] = [0, 0]
  let others: ForeignObjects | undefined
  for await (const page of listPages(context)) {
    addInnerFolders(inner, page.objects, context)
    const owned = page.objects.filter(({ key }) => isOwnedKey(key, context, inner))
    const owner = page.objects.filter(({ key }) => key === ownerKey(context.folder))
    objects += owned.length + owner.length
    for (const { sizeBytes } of [...owned, ...owner]) bytes += sizeBytes
    others = addForeign(others, page.objects, owned.length, context, inner)
  }
  return {
    ...{ objects, bytes, inner: [...inner] },
    ...(others !== undefined && { others }),
  }
}

/** The objects of the backup, including owner.json. */
export async function* ownedObjects(
  context: BackupFolder,
  inner: ReadonlySet<string>,
): AsyncGenerator<StoredObject> {
  for await (const { objects } of listPages(context)) {
    for (const object of objects) {
      const isOwner = object.key === ownerKey(context.folder)
      if (isOwner || isOwnedKey(object.key, context, inner)) yield object
    }
  }
}

export function addForeign(
  previous: ForeignObjects | undefined,
  objects: StoredObject[],
  owned: number,
  context: BackupFolder,
  inner: ReadonlySet<string>,
): ForeignObjects | undefined {
  const isForeign = ({ key }: StoredObject) =>
    key !== ownerKey(context.folder) && !isOwnedKey(key, context, inner)
  const example = previous?.example ?? objects.find(isForeign)?.key
  if (example === undefined) return undefined
  const hasOwnerKey = objects.some(({ key }) => key === ownerKey(context.folder))
  const count = objects.length - owned - (hasOwnerKey ? 1 : 0)
  return { count: (previous?.count ?? 0) + count, example }
}

/** Lists the objects in a folder without owner.json. */
export async function listForeign(context: BackupFolder): Promise<{ others?: ForeignObjects }> {
  let others: ForeignObjects | undefined
  for await (const { objects } of listPages(context)) {
    const [first] = objects
    if (first === undefined) continue
    others = { count: (others?.count ?? 0) + objects.length, example: others?.example ?? first.key }
  }
  return others === undefined ? {} : { others }
}

/**
 * Adds the folders of other backups. One of another program has only a manifest.json, and its keys can look like ours;
 * no backup of this operator writes one below its own folder.
 */
export function addInnerFolders(
  inner: Set<string>,
  objects: StoredObject[],
  { bucket, folder }: BackupFolder,
): void {
  for (const { key } of objects) {
    const inside = key.slice(0, key.lastIndexOf('/') + 1)
    if (inside === folder || ![ownerKey(inside), manifestKey(inside)].includes(key)) continue
    inner.add(inside)
    if (inner.size <= MAX_INNER_FOLDERS) continue
    throw new StorageError(
      `s3://${bucket.name}/${folder} contains more than ${MAX_INNER_FOLDERS} folders with an owner.json or manifest.json: remove what does not belong there`,
    )
  }
}

export function isOwnedKey(
  key: string,
  { folder }: BackupFolder,
  inner: ReadonlySet<string>,
): boolean {
  if (!isWrittenByBackup(folder, key)) return false
  return inner.size === 0 || !enclosingFolders(key).some((outer) => inner.has(outer))
}

export async function* listPages({
  bucket,
  folder,
  signal,
}: BackupFolder): AsyncGenerator<{ objects: StoredObject[]; isLast: boolean }> {
  // As hashes: a store may return tokens of any length.
  const tokens = new Set<string>()
  let token: string | undefined
  for (let page = 0; page < MAX_PAGES; page += 1) {
    signal?.throwIfAborted()
    const { objects, next } = await bucket.list(folder, { token, signal })
    yield { objects, isLast: next === undefined }
    if (next === undefined) return
    const hash = shortHash(next)
    if (tokens.has(hash)) {
      throw new StorageError(`LIST s3://${bucket.name}/${folder} returns the same page repeatedly`)
    }
    tokens.add(hash)
    token = next
  }
  throw new StorageError(`LIST s3://${bucket.name}/${folder} has more than ${MAX_PAGES} pages`)
}
