/** The end of a backup of ten thousand objects: how often its hook is called, how often the store is, and for how long. */
import { backupHooks } from '../../hooks/backup/index.ts'
import { ownerKey } from '../../crds/contract/backup-keys.ts'
import type { Owner } from '../../jobs/backup/owner.ts'
import { purge } from '../../metacontroller/ports/backup-purge.ts'
import { Bucket } from '../../jobs/clients/s3/bucket.ts'
import { jobLog } from '../../jobs/log.ts'
import { systemClock } from '../../jobs/clock.ts'
import { ago, context } from '../builders.ts'
import { startBucketServer, type BucketServer } from '../doubles/bucket/server.ts'
import { backup, bucketKeys } from '../hooks/backup/objects.ts'
import { fakePorts } from '../hooks/backup/ports.ts'
import type { Part, Plan } from './part.ts'
import { median, type Figure } from './table.ts'

const OBJECTS = 10_000
const BATCH = 1_000
const FOLDER = 'daily/b/'
const KEYS = { accessKeyId: 'id', secretAccessKey: 'secretsecret' }

export const purging: Part = {
  name: 'purge',
  title: `purge of ${OBJECTS} objects`,
  columns: ['ours', 'a bare list and delete'],
  measure,
}

/** The same objects in turns: by the hook of a backup that is deleted, and by the client alone. */
async function measure({ pairs }: Plan): Promise<Figure[]> {
  const s3 = await startBucketServer({ buckets: ['store'] })
  const bucket = bucketOf(s3)
  const ours: Finalized[] = []
  const bare: number[] = []
  try {
    for (let pair = 0; pair < pairs; pair += 1) {
      fill(s3)
      ours.push(await finalized(bucket))
      fill(s3)
      bare.push(await emptied(bucket))
    }
    const deletions = s3.calls.filter(({ operation }) => operation === 'DeleteObjects').length
    const inHooks = ours.map(({ hookSeconds }) => hookSeconds)
    return [
      counted('hook calls', Math.max(...ours.map(({ calls }) => calls)), 11),
      // One for each thousand, and owner.json by itself, the last of all.
      counted('deletions', deletions / pairs - OBJECTS / BATCH, OBJECTS / BATCH + 1),
      {
        ...{ what: 'in its hooks', unit: 's', value: median(inHooks) },
        ...{ best: Math.min(...inHooks), yardstick: median(bare) },
      },
      { what: 'pauses included', unit: 's', value: median(ours.map(({ seconds }) => seconds)) },
    ]
  } finally {
    bucket.close()
    await s3.close()
  }
}

function counted(what: string, value: number, target: number): Figure {
  return { what, unit: '', value, target, met: value <= target }
}

function bucketOf(s3: BucketServer): Bucket {
  return new Bucket({
    target: { bucket: 'store', region: 'us-east-1', endpoint: s3.url, forcePathStyle: true },
    credentials: async () => KEYS,
    time: systemClock,
    log: jobLog({ LOG_LEVEL: 'ERROR' }),
  })
}

function fill({ buckets }: BucketServer): void {
  const owner: Owner = {
    ...{ uid: 'uid-b', namespace: 'ns', name: 'b', startedAt: ago(600), collections: [] },
    cluster: { namespace: 'ns', name: 'a' },
  }
  const put = (key: string, body: string) => buckets.get('store')?.put(key, Buffer.from(body))
  put(ownerKey(FOLDER), JSON.stringify(owner))
  for (let index = 1; index < OBJECTS; index += 1) put(`${FOLDER}docs/node-0/${index}`, 'x')
}

interface Finalized {
  calls: number
  /** From the first call to the last answer. */
  seconds: number
  /** Of those the ones in which a hook was at work. */
  hookSeconds: number
}

/** Calls the hook, as often as it asks for, until it lets the backup go. */
async function finalized(bucket: Bucket): Promise<Finalized> {
  const { ports } = fakePorts({
    secret: async () => bucketKeys,
    purge: ({ uid, survey }, signal) =>
      purge(bucket, { prefix: 'daily', name: 'b', uid }, { signal, survey, now: new Date() }),
  })
  const room = backupHooks(ports)
  const parent = backup({ deletionTimestamp: ago(1), status: { startTime: ago(600) } })
  const began = performance.now()
  let hookSeconds = 0
  for (let calls = 1; ; calls += 1) {
    const request = { parent, children: {}, related: {}, finalizing: true }
    const asked = performance.now()
    const answer = await room.finalize?.(request, context)
    hookSeconds += (performance.now() - asked) / 1000
    const seconds = (performance.now() - began) / 1000
    if (answer?.finalized === true) return { calls, seconds, hookSeconds }
    await systemClock.sleep((answer?.resyncAfterSeconds ?? 0) * 1000)
  }
}

/** Seconds to list all there is and to delete it, a thousand at a time. */
async function emptied(bucket: Bucket): Promise<number> {
  const began = performance.now()
  const keys: string[] = []
  for await (const { key } of bucket.listAll(FOLDER)) keys.push(key)
  for (let at = 0; at < keys.length; at += BATCH) await bucket.delete(keys.slice(at, at + BATCH))
  return (performance.now() - began) / 1000
}
