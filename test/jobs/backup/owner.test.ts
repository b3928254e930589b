/** Ownership of a folder: one backup, and none inside or around the folder of another. */
import t, { type Test } from 'tap'
import { backupFolder, ownerKey } from '../../../crds/contract/backup-keys.ts'
import { FolderClaim, type Owner } from '../../../jobs/backup/owner.ts'
import { Bucket } from '../../../jobs/clients/s3/bucket.ts'
import { jobLog } from '../../../jobs/log.ts'
import { startBucketServer, type S3Misbehave } from '../../doubles/bucket/server.ts'
import { instantClock } from '../job-world.ts'

const { signal } = new AbortController()

async function stage(t: Test, beforeChange?: () => Promise<void>) {
  const s3 = await startBucketServer()
  const log = jobLog({ LOG_LEVEL: 'FATAL' })
  const bucket = new Bucket({
    target: { bucket: 'backups', region: 'us-east-1', endpoint: s3.url, forcePathStyle: true },
    credentials: async () => ({ accessKeyId: 'id', secretAccessKey: 'secretsecret' }),
    time: instantClock(),
    log,
    beforeChange,
  })
  t.teardown(async () => {
    bucket.close()
    await s3.close()
  })
  const store = s3.buckets.get('backups')
  if (store === undefined) throw new Error('there is no bucket')
  const claimOf = (prefix: string, name: string, uid = `uid-${name}`) => {
    const claim = new FolderClaim({
      bucket,
      folder: backupFolder({ prefix, name }),
      uid,
      signal,
      log,
    })
    const take = (collections: string[] = []) =>
      claim.acquire(async () => ({ ...ownerNamed(name, uid), collections }))
    return { take, confirm: () => claim.verify() }
  }
  return { s3, store, claimOf, put: (key: string, text = 'x') => store.put(key, Buffer.from(text)) }
}

function ownerNamed(name: string, uid: string): Owner {
  const cluster = { namespace: 'ns', name: 'c' }
  return {
    ...{ uid, namespace: 'ns', name, cluster },
    ...{ startedAt: '2030-01-01T00:00:00Z', collections: [] },
  }
}

t.test('a free folder is claimed once, and its backup can resume there', async (t) => {
  const { claimOf, store, put } = await stage(t)
  t.strictSame(await claimOf('p', 'a').take(), ownerNamed('a', 'uid-a'))
  put('p/a/docs/node-0/checkpoint.json')
  t.strictSame(await claimOf('p', 'a').take(), ownerNamed('a', 'uid-a'))
  await t.rejects(claimOf('p', 'a', 'uid-namesake').take(), {
    code: 'Rejected',
    message: 'prefix holds another backup (VecBackup ns/a): s3://backups/p/a/',
  })
  t.match(JSON.parse(store.text('p/a/owner.json') ?? ''), { uid: 'uid-a' })
})

t.test('an owner.json that no purge would read is not written', async (t) => {
  const { store, claimOf } = await stage(t)
  const collections = Array.from({ length: 9000 }, (_, at) => String(at).padEnd(255, 'x'))
  await t.rejects(claimOf('p', 'a').take(collections), {
    code: 'Rejected',
    message:
      /^the names of 9000 collections have \d+ bytes, more than the 2097152 that owner\.json may have/,
  })
  t.strictSame(store.keys(), [])
  t.ok(await claimOf('p', 'a').take(collections.slice(0, 8000)))
  t.strictSame(store.keys(), ['p/a/owner.json'])
})

t.test('backups whose names share a prefix have separate folders', async (t) => {
  const { claimOf, store } = await stage(t)
  const folders: [string, string][] = [
    ['p', 'a'],
    ['p', 'a-b'],
    ['p/q', 'a'],
    ['', 'pa'],
  ]
  for (const [prefix, name] of folders) await claimOf(prefix, name).take()
  t.strictSame(store.keys(), [
    ...['p/a-b/owner.json', 'p/a/owner.json', 'p/q/a/owner.json', 'pa/owner.json'],
  ])
})

for (const [prefix, name] of [
  ['docs', 'nightly'],
  ['docs/x/y', 'nightly'],
] as const) {
  const inner = backupFolder({ prefix, name })
  t.test(`a folder inside the folder of another backup is rejected: ${inner}`, async (t) => {
    const { claimOf, store } = await stage(t)
    await claimOf('', 'docs').take()
    await t.rejects(claimOf(prefix, name).take(), {
      code: 'Rejected',
      message: `s3://backups/${inner} is inside the folder of another backup (VecBackup ns/docs, s3://backups/docs/): use another prefix or name`,
    })
    t.strictSame(store.keys(), ['docs/owner.json'], 'nothing was written')
  })

  t.test(`a folder around the folder of another backup is rejected: ${inner}`, async (t) => {
    const { claimOf, store, put } = await stage(t)
    await claimOf(prefix, name).take()
    put(`${inner}c/node-0/1.snapshot`)
    const keys = store.keys()
    await t.rejects(claimOf('', 'docs').take(), {
      code: 'Rejected',
      message: `s3://backups/docs/ contains the folder of another backup (VecBackup ns/nightly, s3://backups/${inner}): use another prefix or name`,
    })
    t.strictSame(store.keys(), keys, 'nothing was written')
  })
}

t.test('objects without an owner are rejected, and the error names one of them', async (t) => {
  const { claimOf, put, store } = await stage(t)
  put('p/a/holiday/photo.jpg')
  await t.rejects(claimOf('p', 'a').take(), {
    message: 'prefix holds another backup, or other objects: s3://backups/p/a/holiday/photo.jpg',
  })
  t.strictSame(store.keys(), ['p/a/holiday/photo.jpg'])
})

/** The write of this key is done only once both have looked. */
function delayWrite(of: string, until: Promise<void>): S3Misbehave {
  return ({ operation, key }) =>
    operation === 'PutObject' && key === of ? { after: until } : undefined
}

t.test(
  'of two nested folders that are claimed at the same moment at most one is claimed',
  async (t) => {
    const { s3, claimOf } = await stage(t)
    let release: () => void = () => undefined
    const until = new Promise<void>((resolve) => (release = resolve))
    let writes = 0
    s3.misbehave((call) => {
      if (call.operation !== 'PutObject') return undefined
      writes += 1
      if (writes === 2) release()
      return { after: until }
    })
    const ends = await Promise.allSettled([
      claimOf('', 'docs').take(),
      claimOf('docs', 'nightly').take(),
    ])
    t.equal(writes, 2, 'both had looked before either wrote')
    const refused = ends.flatMap((end) => (end.status === 'rejected' ? [String(end.reason)] : []))
    t.not(refused.length, 0)
    for (const words of refused) t.match(words, /(inside|contains) the folder of another backup/)
  },
)

t.test(
  'an attempt that was killed before its second check does the check when it resumes',
  async (t) => {
    const { claimOf, put } = await stage(t)
    put('docs/owner.json', JSON.stringify(ownerNamed('docs', 'uid-docs')))
    put('docs/nightly/owner.json', JSON.stringify(ownerNamed('nightly', 'uid-nightly')))
    await t.rejects(claimOf('', 'docs').take(), {
      message: /contains the folder of another backup/,
    })
    await t.rejects(claimOf('docs', 'nightly').take(), { message: /inside the folder of another/ })
  },
)

t.test('with a store that ignores If-None-Match the replaced owner notices', async (t) => {
  const { store, claimOf, put } = await stage(t)
  store.ignoresConditions = true
  const first = claimOf('p', 'a')
  await first.take()
  put('p/a/owner.json', JSON.stringify(ownerNamed('a', 'uid-other')))
  await t.rejects(first.confirm(), {
    code: 'Rejected',
    message: 'prefix holds another backup (VecBackup ns/a): s3://backups/p/a/',
  })
})

t.test('a backup that replaced the owner of a running backup removes its owner.json', async (t) => {
  const { s3, store, claimOf, put } = await stage(t)
  store.ignoresConditions = true
  let release: () => void = () => undefined
  const until = new Promise<void>((resolve) => (release = resolve))
  s3.misbehave(delayWrite('p/a/owner.json', until))
  const late = claimOf('p', 'a', 'uid-late').take()
  const isHeld = () => s3.calls.some(({ operation }) => operation === 'PutObject')
  while (!isHeld()) await new Promise((resolve) => setImmediate(resolve))
  // The other one was quicker by all of its backup.
  put('p/a/owner.json', JSON.stringify(ownerNamed('a', 'uid-a')))
  put('p/a/docs/node-0/1.snapshot')
  release()
  await t.rejects(late, { message: /prefix holds another backup, or other objects/ })
  t.strictSame(store.keys(), ['p/a/docs/node-0/1.snapshot'], 'no other backup can purge it')
  await t.rejects(claimOf('p', 'a').confirm(), { message: /prefix holds another backup/ })
})

t.test('a pod that was replaced does not remove the owner.json of the next one', async (t) => {
  let isReplaced = false
  const { s3, store, claimOf, put } = await stage(t, async () => {
    if (isReplaced) throw Object.assign(new Error('another pod'), { code: 'Superseded' })
  })
  s3.misbehave(({ operation, key }) => {
    // The next pod went on while this one stood still.
    if (operation !== 'PutObject' || key !== 'p/a/owner.json') return undefined
    put('p/a/docs/node-0/1.snapshot')
    isReplaced = true
    return undefined
  })
  await t.rejects(claimOf('p', 'a').take(), { code: 'Superseded' })
  t.strictSame(store.keys(), ['p/a/docs/node-0/1.snapshot', 'p/a/owner.json'])
})

t.test('an owner.json of another form, or one that cannot be read, owns no folder', async (t) => {
  const { s3, claimOf, put } = await stage(t)
  put('p/owner.json', 'not JSON')
  put('p/q/owner.json', '{"name":"of something else"}')
  await claimOf('p/q', 'a').take()
  s3.misbehave(({ operation, key }) =>
    operation === 'GetObject' && key === ownerKey('secret/')
      ? { status: 403, code: 'AccessDenied' }
      : undefined,
  )
  await claimOf('secret/team', 'a').take()
  const asked = s3.calls.filter(({ key }) => key === ownerKey('secret/'))
  t.equal(asked.length, 1, 'a folder that must not be read is asked for once')
})

t.test('a running backup whose owner.json is gone stops', async (t) => {
  const { store, claimOf } = await stage(t)
  const claim = claimOf('p', 'a')
  await claim.take()
  store.objects.delete('p/a/owner.json')
  await t.rejects(claim.confirm(), {
    code: 'Rejected',
    message: 'prefix holds another backup: s3://backups/p/a/',
  })
  t.strictSame(store.keys(), [], 'and does not write it again')
})

t.test('a running backup stops once an enclosing folder has another owner', async (t) => {
  const { claimOf, put } = await stage(t)
  const claim = claimOf('p/q', 'a')
  await claim.take()
  put('p/owner.json', JSON.stringify(ownerNamed('p', 'uid-a')))
  t.match(await claim.confirm(), { name: 'a' }, 'its own uid')
  put('p/owner.json', JSON.stringify(ownerNamed('p', 'uid-p')))
  await t.rejects(claim.confirm(), {
    code: 'Rejected',
    message:
      's3://backups/p/q/a/ is inside the folder of another backup (VecBackup ns/p, s3://backups/p/): use another prefix or name',
  })
})

t.test('an error of the store does not count as a folder without owner', async (t) => {
  const { s3, claimOf, put, store } = await stage(t)
  put('docs/nightly/owner.json', JSON.stringify(ownerNamed('nightly', 'uid-nightly')))
  const keys = store.keys()
  for (const key of ['docs/nightly/owner.json', 'docs/owner.json']) {
    s3.misbehave((call) =>
      call.operation === 'GetObject' && call.key === key
        ? { status: 400, code: 'InvalidRequest' }
        : undefined,
    )
    await t.rejects(claimOf('', 'docs').take(), { message: /InvalidRequest/ })
    await t.rejects(claimOf('docs/nightly', 'deep').take(), { message: /InvalidRequest/ })
    t.strictSame(store.keys(), keys, 'nothing was written')
  }
})
