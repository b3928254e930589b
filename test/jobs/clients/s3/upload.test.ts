/**
 * An upload, by the SDK's library and by parts of our own: what is stored is what came, whatever the store
 * knows of checksums, and nothing of an upload that fails stays open.
 */
import { createHash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { crc32 } from 'node:zlib'
import t, { type Test } from 'tap'
import { Bucket } from '../../../../jobs/clients/s3/bucket.ts'
import { crc32Base64, md5Base64, sha256Hex } from '../../../../jobs/clients/s3/object-upload.ts'
import { DEFAULT_PART_BYTES } from '../../../../crds/contract/limits.ts'
import { jobLog } from '../../../../jobs/log.ts'
import { KEYS } from '../../../contract/bucket/real.ts'
import { startBucketServer } from '../../../doubles/bucket/server.ts'
import { BucketStore } from '../../../doubles/bucket/store.ts'
import { matchWhole } from '../../../match-whole.ts'
import { ONE } from '../../../metacontroller/certificates.ts'
import { instantClock } from '../../job-world.ts'

const MIB = 1024 ** 2

/** Small objects go through the library, large ones through parts of our own; both in parts of 8 MiB. */
const WAYS = [
  ['library', { expectedBytes: 1 }],
  ['own parts', { expectedBytes: 1024 ** 3 }],
] as const

async function store(t: Test, tls?: typeof ONE) {
  const s3 = await startBucketServer({ ...(tls && { tls }) })
  const bucket = new Bucket({
    target: { bucket: 'backups', region: 'us-east-1', endpoint: s3.url, forcePathStyle: true },
    credentials: async () => ({ ...KEYS, ...(tls && { ca: tls.cert }) }),
    time: instantClock(),
    log: jobLog({ LOG_LEVEL: 'ERROR' }),
  })
  t.teardown(async () => {
    bucket.close()
    await s3.close()
  })
  const objects = s3.buckets.get('backups') ?? new BucketStore()
  return { s3, bucket, objects }
}

async function* bytesOf(count: number): AsyncGenerator<Buffer> {
  for (let sent = 0; sent < count; sent += 65_536) {
    yield Buffer.alloc(Math.min(65_536, count - sent), sent / 65_536)
  }
}

async function checksumOf(source: AsyncIterable<Buffer>): Promise<number> {
  let sum = 0
  for await (const chunk of source) sum = crc32(chunk, sum)
  return sum
}

const SIZES = [
  [0, ['PutObject']],
  [5 * MIB + 1, ['PutObject']],
  [DEFAULT_PART_BYTES, ['PutObject']],
  [
    DEFAULT_PART_BYTES + 1,
    ['CreateMultipartUpload', 'UploadPart', 'UploadPart', 'CompleteMultipartUpload'],
  ],
  [
    3 * DEFAULT_PART_BYTES,
    ['CreateMultipartUpload', ...Array<string>(3).fill('UploadPart'), 'CompleteMultipartUpload'],
  ],
] as const

const STORES = [
  ['kept', 'that keeps checksums'],
  ['unanswered', 'that checks parts and does not answer their checksums'],
  ['unheeded', 'that does not heed checksums'],
  ['refused', 'that refuses to hear of checksums'],
] as const

const SIGNED = [
  [undefined, 'kept', /^[0-9a-f]{64}$/, 'without TLS each part is hashed for its signature'],
  [ONE, 'kept', /^UNSIGNED-PAYLOAD$/, 'over TLS a part is not hashed beside its CRC32'],
  [ONE, 'unheeded', /^UNSIGNED-PAYLOAD$/, 'over TLS a part is not hashed beside its MD5'],
] as const

const PARTS = 3
const ALL = PARTS * DEFAULT_PART_BYTES

for (const [way, sizes] of WAYS) {
  for (const [bytes, operations] of SIZES) {
    t.test(`${way}: ${bytes} bytes are stored unchanged`, async (t) => {
      const { s3, bucket, objects } = await store(t)
      t.equal(await bucket.upload({ key: 'k', source: bytesOf(bytes), ...sizes }), bytes)
      const stored = objects.objects.get('k')?.body ?? Buffer.alloc(1)
      t.equal(stored.length, bytes)
      t.equal(crc32(stored), await checksumOf(bytesOf(bytes)))
      const made = s3.calls.map(({ operation }) => operation)
      t.strictSame(
        made.filter((operation) => operation !== 'HeadObject').sort(),
        [...operations].sort(),
      )
    })
  }

  t.test(`${way}: chunks that are part of a larger buffer are stored as they are`, async (t) => {
    const { bucket, objects } = await store(t)
    const bytes = 2 * DEFAULT_PART_BYTES + 1
    const whole = new Uint8Array(bytes + 6).map((_, at) => at)
    async function* source() {
      yield whole.subarray(3, 3 + DEFAULT_PART_BYTES + 5)
      yield whole.subarray(3 + DEFAULT_PART_BYTES + 5, 3 + bytes)
    }
    t.equal(await bucket.upload({ key: 'k', source: source(), ...sizes }), bytes)
    t.equal(
      crc32(objects.objects.get('k')?.body ?? Buffer.alloc(0)),
      crc32(whole.subarray(3, 3 + bytes)),
    )
  })

  for (const [checksums, what] of STORES) {
    for (const isLocked of [false, true]) {
      const locked = isLocked ? ', under Object Lock,' : ''
      t.test(`${way}: a store ${what}${locked} is served`, async (t) => {
        const { s3, bucket, objects } = await store(t)
        Object.assign(objects, { checksums, isLocked, wantsEqualParts: true })
        for (const bytes of [MIB, 2 * DEFAULT_PART_BYTES + 1]) {
          const key = `k-${bytes}`
          t.equal(await bucket.upload({ key, source: bytesOf(bytes), ...sizes }), bytes)
          const stored = objects.objects.get(key)?.body ?? Buffer.alloc(0)
          t.equal(crc32(stored), await checksumOf(bytesOf(bytes)))
        }
        t.equal(await bucket.putJson('json', {}), true)
        const begun = s3.calls.filter(({ operation }) => operation === 'CreateMultipartUpload')
        t.equal(begun.length, checksums === 'refused' ? 2 : 1)
        t.equal(objects.uploads.size, 0)
      })
    }
  }

  for (const [tls, checksums, payload, what] of SIGNED) {
    t.test(`${way}: ${what}`, async (t) => {
      const { s3, bucket, objects } = await store(t, tls)
      objects.checksums = checksums
      await bucket.upload({ key: 'k', source: bytesOf(DEFAULT_PART_BYTES + MIB), ...sizes })
      const parts = s3.calls.filter(({ operation }) => operation === 'UploadPart')
      matchWhole(t, parts, [{ payload }, { payload }])
      t.equal(objects.objects.get('k')?.body.length, DEFAULT_PART_BYTES + MIB)
    })
  }

  for (const [answer, what] of [
    [{ lost: true }, 'whose answer is lost'],
    [{ status: 400, code: 'BadDigest' }, 'that changed in transit'],
    [{ status: 503, code: 'SlowDown' }, 'that the store has no time for'],
    [{ cut: 'in' }, 'whose connection is cut'],
  ] as const) {
    t.test(`${way}: a part ${what} is sent again`, async (t) => {
      const { s3, bucket, objects } = await store(t)
      let isDone = false
      s3.misbehave(({ operation }) => {
        if (operation !== 'UploadPart' || isDone) return undefined
        isDone = true
        return answer
      })
      await bucket.upload({ key: 'k', source: bytesOf(ALL), ...sizes })
      t.equal(s3.calls.filter(({ operation }) => operation === 'UploadPart').length, PARTS + 1)
      const stored = objects.objects.get('k')?.body ?? Buffer.alloc(0)
      t.equal(crc32(stored), await checksumOf(bytesOf(ALL)))
    })
  }

  t.test(`${way}: an upload whose creation gets no answer leaves no open upload`, async (t) => {
    const { s3, bucket, objects } = await store(t)
    let begun = 0
    s3.misbehave(({ operation }) =>
      operation === 'CreateMultipartUpload' && begun++ === 0 ? { lost: true } : undefined,
    )
    await bucket.upload({ key: 'k', source: bytesOf(ALL), ...sizes })
    t.equal(begun, 2)
    t.equal(objects.uploads.size, 0)
  })

  t.test(`${way}: uploads of other keys stay open`, async (t) => {
    const { s3, bucket, objects } = await store(t)
    objects.begin('k-2')
    let begun = 0
    s3.misbehave(({ operation }) =>
      operation === 'CreateMultipartUpload' && begun++ === 0 ? { lost: true } : undefined,
    )
    await bucket.upload({ key: 'k', source: bytesOf(ALL), ...sizes })
    t.strictSame(
      [...objects.uploads.values()].map(({ key }) => key),
      ['k-2'],
    )
  })

  t.test(`${way}: a completion whose response is lost is recognized`, async (t) => {
    const { s3, bucket } = await store(t)
    let completions = 0
    s3.misbehave(({ operation }) =>
      operation === 'CompleteMultipartUpload' && completions++ === 0 ? { lost: true } : undefined,
    )
    t.equal(await bucket.upload({ key: 'k', source: bytesOf(ALL), ...sizes }), ALL)
    t.equal(completions, 2)
  })

  t.test(`${way}: a completion that is answered with 200 and an error is no success`, async (t) => {
    const { s3, bucket, objects } = await store(t)
    let failures = 1
    s3.misbehave(({ operation }) =>
      operation === 'CompleteMultipartUpload' && failures-- > 0
        ? { status: 200, code: 'InternalError' }
        : undefined,
    )
    t.equal(await bucket.upload({ key: 'k', source: bytesOf(ALL), ...sizes }), ALL)
    t.equal(objects.objects.get('k')?.body.length, ALL, 'it is sent again')

    failures = Infinity
    await t.rejects(bucket.upload({ key: 'k2', source: bytesOf(ALL), ...sizes }), {
      message: /COMPLETE UPLOAD .* InternalError/,
    })
    t.equal(objects.objects.get('k2'), undefined)
    t.equal(objects.uploads.size, 0)
  })

  t.test(`${way}: a completion that did not happen is not a success`, async (t) => {
    const { s3, bucket, objects } = await store(t)
    s3.misbehave(({ operation }) => {
      if (operation === 'CompleteMultipartUpload') objects.uploads.clear()
      return undefined
    })
    await t.rejects(bucket.upload({ key: 'k', source: bytesOf(ALL), ...sizes }), {
      message: /COMPLETE UPLOAD .* answered 404 NoSuchUpload|HEAD .* 404/,
    })
  })

  t.test(`${way}: an object of another size is not mistaken for a lost completion`, async (t) => {
    const { s3, bucket, objects } = await store(t)
    s3.misbehave(({ operation }) => {
      if (operation !== 'CompleteMultipartUpload') return undefined
      objects.uploads.clear()
      objects.put('k', Buffer.from('of another writer'))
      return undefined
    })
    await t.rejects(bucket.upload({ key: 'k', source: bytesOf(ALL), ...sizes }), {
      message: /COMPLETE UPLOAD .* answered 404 NoSuchUpload/,
    })
  })

  t.test(`${way}: a rejected upload has the store's error code`, async (t) => {
    const { s3, bucket } = await store(t)
    s3.misbehave(({ operation }) =>
      operation === 'CreateMultipartUpload' ? { status: 403, code: 'AccessDenied' } : undefined,
    )
    await t.rejects(bucket.upload({ key: 'k', source: bytesOf(ALL), ...sizes }), {
      message: /CREATE UPLOAD .* answered 403 AccessDenied/,
    })
    t.equal(s3.calls.length, 1)
  })

  t.test(`${way}: a part that fails for good ends the stream and the other parts`, async (t) => {
    const { s3, bucket, objects } = await store(t)
    const never = Promise.withResolvers<undefined>()
    t.teardown(() => never.resolve(undefined))
    let parts = 0
    s3.misbehave(({ operation }) => {
      if (operation !== 'UploadPart') return undefined
      // One is in progress until it is aborted.
      return parts++ === 1 ? { status: 403, code: 'AccessDenied' } : { after: never.promise }
    })
    const source = endless()
    await t.rejects(bucket.upload({ key: 'k', source, ...sizes }), {
      message: /PUT PART \d .* answered 403 AccessDenied/,
    })
    t.strictSame(await source.next(), { done: true, value: undefined }, 'the stream is closed')
    t.equal(objects.uploads.size, 0)
    t.ok(parts <= 4)
  })

  t.test(`${way}: a stream that fails leaves nothing`, async (t) => {
    const { bucket, objects } = await store(t)
    async function* failing() {
      yield* bytesOf(2 * DEFAULT_PART_BYTES + MIB)
      throw new Error('broke off')
    }
    await t.rejects(bucket.upload({ key: 'k', source: failing(), ...sizes }), {
      message: 'broke off',
    })
    t.equal(objects.uploads.size, 0)
    t.equal(objects.objects.size, 0)
  })

  t.test(`${way}: SIGTERM ends an upload at once, and aborts it at the store`, async (t) => {
    const { s3, bucket, objects } = await store(t)
    const never = Promise.withResolvers<undefined>()
    t.teardown(() => never.resolve(undefined))
    const end = new AbortController()
    s3.misbehave(({ operation }) => {
      if (operation !== 'UploadPart') return undefined
      end.abort(new Error('SIGTERM'))
      return { after: never.promise }
    })
    const { signal } = end
    await t.rejects(bucket.upload({ key: 'k', source: endless(), signal, ...sizes }), {
      message: 'SIGTERM',
    })
    t.equal(objects.uploads.size, 0)
    t.equal(objects.objects.size, 0)
  })

  t.test(`${way}: the source is read only when memory is available`, async (t) => {
    const { s3, bucket } = await store(t)
    const gate = Promise.withResolvers<undefined>()
    s3.misbehave(({ operation }) =>
      operation === 'UploadPart' ? { after: gate.promise } : undefined,
    )
    let read = 0
    async function* source() {
      for await (const chunk of bytesOf(10 * DEFAULT_PART_BYTES)) {
        read += chunk.length
        yield chunk
      }
    }
    const upload = bucket.upload({ key: 'k', source: source(), ...sizes })
    let before = -1
    while (before !== read || read < 3 * DEFAULT_PART_BYTES) {
      before = read
      for (let tick = 0; tick < 1000; tick += 1) await setImmediate()
    }
    t.ok(read <= 6 * DEFAULT_PART_BYTES, `${read / MIB} MiB were read while no part was answered`)
    gate.resolve(undefined)
    t.equal(await upload, 10 * DEFAULT_PART_BYTES)
  })
}

async function* endless(): AsyncGenerator<Buffer> {
  for (;;) yield Buffer.alloc(65_536)
}

t.test('an object with another size in the store is not a success', async (t) => {
  const { s3, bucket, objects } = await store(t)
  s3.misbehave(({ operation }) => {
    if (operation === 'HeadObject') objects.put('k', Buffer.from('other'))
    return undefined
  })
  await t.rejects(bucket.upload({ key: 'k', source: bytesOf(10), sizeBytes: 10 }), {
    message: 's3://backups/k has 5 bytes after 10 were uploaded',
  })
})

t.test('a body that is sent in pieces is signed, checked and sent again as a whole', async (t) => {
  const { s3, bucket, objects } = await store(t, ONE)
  const bytes = 3 * 24 * MIB
  let isDone = false
  s3.misbehave(({ operation }) => {
    if (operation !== 'UploadPart' || isDone) return undefined
    isDone = true
    return { cut: 'in' }
  })
  // Parts of 24 MiB: a seventh of what they would hold.
  const expectedBytes = 120_000 * MIB
  await bucket.upload({ key: 'k', source: bytesOf(bytes), expectedBytes })
  t.equal(s3.calls.filter(({ operation }) => operation === 'UploadPart').length, 4)
  t.equal(
    crc32(objects.objects.get('k')?.body ?? Buffer.alloc(0)),
    await checksumOf(bytesOf(bytes)),
  )
})

t.test('checksums of a body of any length are those of all its bytes', async (t) => {
  for (const bytes of [0, 5, 4 * MIB, 4 * MIB + 1, 17 * MIB]) {
    const body = Buffer.alloc(bytes, 'some bytes')
    t.equal(await md5Base64(body), createHash('md5').update(body).digest('base64'))
    t.equal(await sha256Hex(body), createHash('sha256').update(body).digest('hex'))
    t.equal(Buffer.from(await crc32Base64(body), 'base64').readUInt32BE(), crc32(body))
  }
})
