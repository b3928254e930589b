/** What the bucket double keeps: objects, and uploads that are not complete yet. */
import { createHash } from 'node:crypto'
import type { Checksums } from './checksums.ts'

export interface StoredObject {
  body: Buffer
  etag: string
  modified: Date
}

export interface StoredPart extends StoredObject {
  /** Where the store keeps it. */
  checksum?: string | undefined
}

export interface StoredUpload {
  key: string
  begun: Date
  /** Its parts come with checksums. */
  isChecked: boolean
  parts: Map<number, StoredPart>
}

export class BucketStore {
  readonly objects = new Map<string, StoredObject>()
  readonly uploads = new Map<string, StoredUpload>()
  checksums: Checksums = 'kept'
  /** Object Lock with a default retention: what is written must come with a checksum. */
  isLocked = false
  /** As Cloudflare R2: all parts of an upload but the last must be of one size. */
  wantsEqualParts = false
  /** Objects that cannot be deleted, with the code a deletion of theirs is refused with. */
  readonly undeletable = new Map<string, string>()
  /** Called for every key of a deletion: the code with which the store refuses it. */
  refuseDeletion: ((key: string) => string | undefined) | undefined
  /** Entries on a page of a listing. */
  pageSize = 1000
  /** Whether a listing has the times of the objects, by the clock of this machine: many tests have another one. */
  listsTimes = false
  /** A store that knows the first version of listings only says that there is more, and not how to get it. */
  hidesTokens = false
  /** Some stores ignore what a write asks for as its encryption. */
  ignoresEncryption = false
  /** Encryption, its key and storage class of each object and upload, as the headers of its creation named them. */
  readonly created: {
    key: string
    encryption?: string
    kmsKeyId?: string
    storageClass?: string
  }[] = []
  /** Some stores ignore If-None-Match: the later of two writes wins. */
  ignoresConditions = false
  #count = 0

  put(key: string, body: Buffer): StoredObject {
    const object = stored(body, md5(body))
    this.objects.set(key, object)
    return object
  }

  begin(key: string, isChecked = false): string {
    this.#count += 1
    const id = `upload-${this.#count}`
    this.uploads.set(id, { key, begun: new Date(), isChecked, parts: new Map() })
    return id
  }

  putPart(
    { parts }: StoredUpload,
    number: number,
    body: Buffer,
    checksum: string | undefined,
  ): StoredPart {
    const checksumToStore = this.checksums === 'kept' ? checksum : undefined
    const part = { ...stored(body, md5(body)), checksum: checksumToStore }
    parts.set(number, part)
    return part
  }

  complete(id: string, { key, parts }: StoredUpload, numbers: number[]): StoredObject {
    const chosen = numbers.map((number) => parts.get(number)?.body ?? Buffer.alloc(0))
    const body = Buffer.concat(chosen)
    const object = stored(body, `${md5(body)}-${numbers.length}`)
    this.objects.set(key, object)
    this.uploads.delete(id)
    return object
  }

  /** Keys in the order of a listing: by their bytes. */
  keys(prefix = ''): string[] {
    return [...this.objects.keys()]
      .filter((key) => key.startsWith(prefix))
      .sort((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other)))
  }

  text(key: string): string | undefined {
    return this.objects.get(key)?.body.toString()
  }
}

function stored(body: Buffer, etag: string): StoredObject {
  return { body, etag: `"${etag}"`, modified: new Date() }
}

function md5(body: Buffer): string {
  return createHash('md5').update(body).digest('hex')
}
