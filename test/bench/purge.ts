/** The end of a backup of ten thousand objects: how often its hook is called, and the store is. */
import { backupRoom } from '../../hooks/backup/index.ts'
import { ownerKey } from '../../crds/layout.ts'
import type { Owner } from '../../jobs/backup/owner.ts'
import { purge } from '../../jobs/backup/purge.ts'
import { Bucket } from '../../jobs/clients/s3.ts'
import { jobLog } from '../../jobs/log.ts'
import { systemTime } from '../../jobs/time.ts'
import { ago, context } from '../builders.ts'
import { startBucketServer, type BucketServer } from '../doubles/bucket/server.ts'
import { backup, bucketKeys } from '../hooks/backup/objects.ts'
import { portsOf } from '../hooks/backup/ports.ts'
import type { Figure } from './table.ts'

const OBJECTS = 10_000
const BATCH = 1_000
const FOLDER = 'daily/b/'
const KEYS = { accessKeyId: 'id', secretAccessKey: 'secretsecret' }

export async function purging(): Promise<Figure[]> {
  const s3 = await startBucketServer({ buckets: ['store'] })
  const bucket = bucketOf(s3)
  try {
    fill(s3)
    const began = performance.now()
    const calls = await finalized(bucket)
    const seconds = (performance.now() - began) / 1000
    const deletions = s3.calls.filter(({ operation }) => operation === 'DeleteObjects').length
    const what = `purge of ${OBJECTS} objects`
    return [
      counted(`${what}: hook calls`, calls, 11),
      // One for each thousand, and owner.json by itself, the last of all.
      counted(`${what}: deletions`, deletions, OBJECTS / BATCH + 1),
      { what, unit: 's', value: seconds },
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
    time: systemTime,
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
  for (let index = 1; index < OBJECTS; index += 1) put(`${FOLDER}docs/${index}`, 'x')
}

/** Calls the hook, as often as it asks for, until it lets the backup go; answers how often. */
async function finalized(bucket: Bucket): Promise<number> {
  const { ports } = portsOf({
    secret: async () => bucketKeys,
    purge: ({ uid, left }, signal) =>
      purge(bucket, { prefix: 'daily', name: 'b', uid }, { signal, left }),
  })
  const room = backupRoom(ports)
  const parent = backup({ deletionTimestamp: ago(1), status: { startTime: ago(600) } })
  for (let calls = 1; ; calls += 1) {
    const request = { parent, children: {}, related: {}, finalizing: true }
    const answer = await room.finalize?.(request, context)
    if (answer?.finalized === true) return calls
    await systemTime.sleep((answer?.resyncAfterSeconds ?? 0) * 1000)
  }
}
