/**
 * owner.json: the owner of a folder in the bucket. It is written before anything else, so that a
 * backup of the same name from another namespace, cluster or time can neither write to the folder
 * nor purge it. It also stores what a resumed attempt must not decide again.
 */
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Logger } from 'pino'
import { Rejected, StorageError } from '../../crds/contract/errors.ts'
import { enclosingFolders, ownerKey } from '../../crds/contract/backup-keys.ts'
import { Timestamp } from '../../crds/schema.ts'
import type { Bucket } from '../clients/s3/bucket.ts'

export const Owner = Type.Object({
  uid: Type.String(),
  namespace: Type.String(),
  name: Type.String(),
  cluster: Type.Object({ namespace: Type.String(), name: Type.String() }),
  /** When the first attempt started. */
  startedAt: Timestamp(),
  /**
   * The collections to back up: one that is created later is included only if a later pod lists it; one deleted since is
   * named in the message.
   */
  collections: Type.Array(Type.String()),
})
export type Owner = Static<typeof Owner>

/** The service reads it too, and has little memory: a larger object is not read. */
const MAX_OWNER_BYTES = 2 * 1024 * 1024

/** The current owner; undefined if the folder has no owner. */
export async function readOwner(
  bucket: Bucket,
  folder: string,
  signal?: AbortSignal,
): Promise<Owner | undefined> {
  const found = await bucket.getJson(ownerKey(folder), signal, MAX_OWNER_BYTES)
  if (found === undefined) return undefined
  if (Value.Check(Owner, found)) return found
  throw new Rejected(`s3://${bucket.name}/${ownerKey(folder)} is not an owner.json of a backup`)
}

interface ClaimTarget {
  bucket: Bucket
  /** `<prefix>/<name>/` */
  folder: string
  /** uid of the backup that claims the folder. */
  uid: string
  signal: AbortSignal
  log: Pick<Logger, 'warn'>
}

/**
 * The claim of one backup to its folder. No other backup may be in the folder, inside it or around
 * it: purging one would delete objects of the other. If two backups claim a folder at the same
 * moment, at least one of them sees the other, because each checks again after its own write.
 */
export class FolderClaim {
  readonly #target: ClaimTarget
  /** Enclosing folders that the credentials cannot read. */
  readonly #unreadable = new Set<string>()

  constructor(target: ClaimTarget) {
    this.#target = target
  }

  /**
   * Takes the folder, or resumes with one that this backup took before. Throws `Rejected` with the
   * name of the other owner. Calls `createOwner` only if the folder has no owner.
   */
  async acquire(createOwner: () => Promise<Owner>): Promise<Owner> {
    const { bucket, folder, signal } = this.#target
    await this.#rejectOuterOwners()
    if ((await readOwner(bucket, folder, signal)) === undefined) {
      await requireEmptyFolder(this.#target)
      const owner = await createOwner()
      requireReadable(owner)
      const isWritten = await bucket.putJson(ownerKey(folder), owner, { onlyNew: true, signal })
      if (isWritten) await this.#rejectLostRace()
    }
    const owner = await this.verify()
    await rejectInnerOwners(this.#target)
    return owner
  }

  /**
   * The owner recorded in the bucket. Throws `Rejected` if it is another backup, or if an enclosing
   * folder has an owner.
   */
  async verify(): Promise<Owner> {
    const { bucket, folder, uid, signal } = this.#target
    const found = await readOwner(bucket, folder, signal)
    if (found?.uid !== uid) {
      const currentOwner = found === undefined ? '' : ` (${formatOwner(found)})`
      throw new Rejected(
        `prefix holds another backup${currentOwner}: s3://${bucket.name}/${folder}`,
      )
    }
    await this.#rejectOuterOwners()
    return found
  }

  async #rejectOuterOwners(): Promise<void> {
    const { bucket, folder, uid, signal, log } = this.#target
    for (const outer of enclosingFolders(folder)) {
      if (this.#unreadable.has(outer)) continue
      try {
        const found = await bucket.getJson(ownerKey(outer), signal)
        if (!Value.Check(Owner, found) || found.uid === uid) continue
        throw new Rejected(
          `${formatAddress(this.#target)} is inside the folder of another backup (${formatOwner(found)}, s3://${bucket.name}/${outer}): use another prefix or name`,
        )
      } catch (error) {
        if (!isUnreadableOwner(error)) throw error
        this.#unreadable.add(outer)
        log.warn({ reason: error.message }, 'cannot check whether another backup owns this folder')
      }
    }
  }

  /**
   * In stores that ignore If-None-Match the later of two writes wins. A backup that finds objects
   * after its own write has replaced the owner.json of an active backup; the objects must not be
   * purged on its authority.
   */
  async #rejectLostRace(): Promise<void> {
    const { bucket, folder, uid, signal } = this.#target
    try {
      await requireEmptyFolder(this.#target)
    } catch (error) {
      if (!(error instanceof Rejected)) throw error
      const found = await readOwner(bucket, folder, signal)
      if (found?.uid !== uid) throw error
      await bucket.delete([ownerKey(folder)], signal)
      throw error
    }
  }
}

/** No purge would read a larger one, so that the objects of the backup would stay for good. */
function requireReadable(owner: Owner): void {
  const bytes = Buffer.byteLength(JSON.stringify(owner))
  if (bytes <= MAX_OWNER_BYTES) return
  const { length } = owner.collections
  throw new Rejected(
    `the names of ${length} collections have ${bytes} bytes, more than the ${MAX_OWNER_BYTES} that owner.json may have: name fewer in spec.collections`,
  )
}

/** Objects in a folder without an owner do not belong to this backup. */
async function requireEmptyFolder(target: ClaimTarget): Promise<void> {
  const { bucket, folder, signal } = target
  const { objects } = await bucket.list(folder, { max: 2, signal })
  const foreignObject = objects.find(({ key }) => key !== ownerKey(folder))
  if (foreignObject === undefined) return
  await rejectOwnersEnclosing(foreignObject.key, target)
  throw new Rejected(
    `prefix holds another backup, or other objects: s3://${bucket.name}/${foreignObject.key}`,
  )
}

/** In a folder that was claimed before, all keys are checked: an inner owner may be among them. */
async function rejectInnerOwners(target: ClaimTarget): Promise<void> {
  const { bucket, folder, signal } = target
  for await (const { key } of bucket.listAll(folder, signal)) {
    if (!key.endsWith('/owner.json') || key === ownerKey(folder)) continue
    await rejectOwnersEnclosing(key, target)
  }
}

/** Looks for the owner of a folder inside this one that contains the key. */
async function rejectOwnersEnclosing(key: string, target: ClaimTarget): Promise<void> {
  const { bucket, folder, signal } = target
  for (const inner of enclosingFolders(`${key}/`)) {
    if (!inner.startsWith(folder) || inner === folder) continue
    try {
      const found = await bucket.getJson(ownerKey(inner), signal)
      if (!Value.Check(Owner, found)) continue
      throw new Rejected(
        `${formatAddress(target)} contains the folder of another backup (${formatOwner(found)}, s3://${bucket.name}/${inner}): use another prefix or name`,
      )
    } catch (error) {
      if (!isUnreadableOwner(error)) throw error
    }
  }
}

/**
 * A file that cannot be read or is not JSON names no owner, and its purge deletes nothing of this
 * backup.
 */
function isUnreadableOwner(error: unknown): error is StorageError {
  if (!(error instanceof StorageError)) return false
  return error.status === FORBIDDEN || error.cause instanceof SyntaxError
}

const FORBIDDEN = 403

function formatAddress({ bucket, folder }: ClaimTarget): string {
  return `s3://${bucket.name}/${folder}`
}

function formatOwner({ namespace, name }: Owner): string {
  return `VecBackup ${namespace}/${name}`
}
