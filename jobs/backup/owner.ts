/**
 * owner.json: whose a folder of the bucket is. It is written before anything else, so that a namesake
 * from another namespace, cluster or time can neither write there nor purge it; and it keeps what an
 * attempt that goes on must not decide anew.
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
  /** What is backed up: made later is not part of it, deleted since is missing from it. */
  collections: Type.Array(Type.String()),
})
export type Owner = Static<typeof Owner>

/** The owner there is; undefined when the folder is nobody's. */
export async function readOwner(
  bucket: Bucket,
  folder: string,
  signal?: AbortSignal,
): Promise<Owner | undefined> {
  const found = await bucket.getJson(ownerKey(folder), signal)
  if (found === undefined) return undefined
  if (Value.Check(Owner, found)) return found
  throw new Rejected(`s3://${bucket.name}/${ownerKey(folder)} is not an owner.json of a backup`)
}

interface ClaimTarget {
  bucket: Bucket
  /** `<prefix>/<name>/` */
  folder: string
  /** uid of the backup that claims it. */
  uid: string
  signal: AbortSignal
  log: Pick<Logger, 'warn'>
}

/**
 * The claim of one backup to its folder. Nobody else's backup may be in the folder, inside it or around
 * it: purging one would delete objects of the other. Of two that claim at the same moment at least one
 * sees the other, because each looks once more after it has written.
 */
export class FolderClaim {
  readonly #target: ClaimTarget
  /** Enclosing folders the credentials may not read. */
  readonly #unreadable = new Set<string>()

  constructor(target: ClaimTarget) {
    this.#target = target
  }

  /**
   * Takes the folder, or goes on with one that this backup took before. Throws `Rejected` with the name
   * of the other owner. `newOwner` is asked only when nobody owns the folder.
   */
  async acquire(createOwner: () => Promise<Owner>): Promise<Owner> {
    const { bucket, folder, signal } = this.#target
    await this.#rejectOuterOwners()
    if ((await readOwner(bucket, folder, signal)) === undefined) {
      await requireEmptyFolder(this.#target)
      const owner = await createOwner()
      const isWritten = await bucket.putJson(ownerKey(folder), owner, { onlyNew: true, signal })
      if (isWritten) await this.#rejectLostRace()
    }
    const owner = await this.verify()
    await rejectInnerOwners(this.#target)
    return owner
  }

  /** The owner that is in the bucket; throws `Rejected` when it is another one, or one around it. */
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
   * Stores that ignore If-None-Match let the later of two writes win. Who finds objects after its own
   * write has replaced the owner.json of a backup that works there: nobody may purge them by it.
   */
  async #rejectLostRace(): Promise<void> {
    const { bucket, folder, uid, signal } = this.#target
    try {
      await requireEmptyFolder(this.#target)
    } catch (error) {
      if (!(error instanceof Rejected)) throw error
      const found = await readOwner(bucket, folder, signal)
      if (found?.uid === uid) await bucket.delete([ownerKey(folder)], signal)
      throw error
    }
  }
}

/** Objects in a folder without an owner are not ours, whoever wrote them. */
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

/** Of a folder that was claimed before, all keys are looked at: an inner one may be among its own. */
async function rejectInnerOwners(target: ClaimTarget): Promise<void> {
  const { bucket, folder, signal } = target
  for await (const { key } of bucket.listAll(folder, signal)) {
    if (!key.endsWith('/owner.json') || key === ownerKey(folder)) continue
    await rejectOwnersEnclosing(key, target)
  }
}

/** Looks for the owner of a folder that holds this key and is inside ours. */
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

/** What cannot be read, or is not JSON, names no owner: its purge deletes nothing of ours either. */
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
