/**
 * A pod that was presumed dead, as on an unreachable node, continues after the pod that replaced it has
 * completed the backup. It deletes nothing of that backup.
 */
import t, { type Test } from 'tap'
import type { BackupMethod } from '../../../crds/backup.ts'
import { shardSnapshotKey } from '../../../crds/contract/backup-keys.ts'
import { encodePlan, EXIT, JOB_ENV } from '../../../crds/contract/job.ts'
import type { S3Misbehave } from '../../doubles/bucket/server.ts'
import { snapshotFiles } from '../../doubles/engine/snapshots.ts'
import { instantClock, runJob, takeOver, TAKEN_OVER } from '../job-world.ts'
import { backupFixture, MIB, type BackupFixture } from './fixture.ts'
import { assertComplete, shardFixture } from './shards/fixture.ts'

/** Runs one pod until the nth write of an object, another one from the start to its end, then the rest of the first. */
async function overtaken(
  t: Test,
  { s3, world }: Pick<BackupFixture, 's3' | 'world'>,
  { file, write, meanwhile }: { file: string; write: number; meanwhile?: () => void },
): Promise<void> {
  const reached = Promise.withResolvers<undefined>()
  const released = Promise.withResolvers<undefined>()
  let writes = 0
  s3.misbehave(({ operation, key }) => {
    if (operation !== 'PutObject' || !key.endsWith(file) || (writes += 1) !== write) {
      return undefined
    }
    reached.resolve(undefined)
    return { after: released.promise }
  })
  const first = world.run({}, { pod: 'pod-1' })
  await reached.promise
  meanwhile?.()
  const second = await world.run({}, { pod: 'pod-2' })
  t.equal(second.code, EXIT.done, second.log)
  released.resolve(undefined)
  const { code, log } = await first
  t.equal(code, EXIT.crash)
  t.match(log, /pod pod-2 works on this run: this pod stops/)
}

for (const [where, shard] of [
  ['before it streams the next shard', 0],
  ['before it removes stale objects', 1],
] as const) {
  t.test(`by shard, a pod that was replaced deletes nothing ${where}`, async (t) => {
    const fixture = await shardFixture(t, { shards: 2, parallelism: 1 })
    // The second checkpoint of a shard says that it is complete.
    await overtaken(t, fixture, { file: `shard-${shard}/checkpoint.json`, write: 2 })
    await assertComplete(t, fixture)
  })
}

t.test('by node, a pod that was replaced does not discard the round of the other', async (t) => {
  const fixture = await backupFixture(t, { nodes: 2 })
  const { engine, world } = fixture
  // Requested, accepted, made, uploaded.
  await overtaken(t, fixture, {
    file: 'node-1/checkpoint.json',
    write: 4,
    meanwhile() {
      engine.removeCollection('docs')
      engine.createCollection('docs', 2, 1)
    },
  })
  const { code, log } = await world.verify('s3://backups/nightly/b')
  t.equal(code, EXIT.done, log)
})

t.test('a pod that was replaced while it reads the aliases writes no manifest', async (t) => {
  const { nodes, s3, world } = await backupFixture(t)
  const reached = Promise.withResolvers<undefined>()
  const released = Promise.withResolvers<undefined>()
  let readings = 0
  nodes[0]?.misbehave(({ path }) => {
    // At the beginning and at the end.
    if (path.join('/') !== 'aliases' || (readings += 1) !== 2) return undefined
    reached.resolve(undefined)
    return { until: released.promise }
  })
  const first = world.run({}, { pod: 'pod-1' })
  await reached.promise
  t.equal((await world.run({}, { pod: 'pod-2' })).code, EXIT.done)
  released.resolve(undefined)
  t.equal((await first).code, EXIT.crash)
  const written = s3.calls.filter(
    ({ operation, key }) => operation === 'PutObject' && key.endsWith('manifest.json'),
  )
  t.equal(written.length, 1)
})

for (const method of ['Node', 'Shard'] as const) {
  t.test(`by ${method}, no manifest is written if an object is gone by then`, async (t) => {
    const { s3, store, world, keys } = await backupFixture(t, { method })
    let gone = ''
    s3.misbehave(({ operation, key }) => {
      if (operation !== 'PutObject' || !key.endsWith('collection.json')) return undefined
      gone = keys().find((name) => name.endsWith('.snapshot')) ?? ''
      store().objects.delete(gone)
      return undefined
    })
    const { code } = await world.run()
    t.equal(code, EXIT.failed)
    t.not(gone, '')
    const error = `s3://backups/${gone} was deleted or replaced during the backup`
    t.match(await world.progress(), { state: 'Failed', reason: 'BucketFailed', message: error })
    t.notOk(keys().includes('nightly/b/manifest.json'))
  })
}

type BucketCall = Parameters<S3Misbehave>[0]

/** Without AbortMultipartUpload: a pod aborts the uploads that it has begun itself. */
const CHANGES = ['PutObject', 'DeleteObjects', 'CompleteMultipartUpload']

/** Another pod takes the backup over during this call, which the store then answers, or refuses for the moment. */
async function changesAfter(
  { s3, world }: Pick<BackupFixture, 's3' | 'world'>,
  { isMeant, isAnswered }: { isMeant: (call: BucketCall) => boolean; isAnswered: boolean },
) {
  let done: Promise<void> | undefined
  let from = Infinity
  s3.misbehave((call) => {
    if (done !== undefined || !isMeant(call)) return undefined
    from = s3.calls.length
    done = takeOver(world.api, { kind: 'VecBackup', name: 'b' })
    return isAnswered ? { after: done } : { status: 503, code: 'SlowDown' }
  })
  const { code, log } = await world.run({}, { time: instantClock(() => done) })
  const later = s3.calls.slice(from).filter(({ operation }) => CHANGES.includes(operation))
  const changes = later.map(({ operation, key }) => `${operation} ${key}`)
  return { code, log, isReached: done !== undefined, changes }
}

/** Ends a pod at this call: the next one continues its work. */
async function endAt(
  isMeant: (call: BucketCall) => boolean,
  { s3, world }: BackupFixture,
): Promise<void> {
  const controller = new AbortController()
  s3.misbehave((call) => {
    if (isMeant(call)) controller.abort(new Error('SIGTERM'))
    return undefined
  })
  await world.run({}, { pod: 'pod-0', signal: controller.signal })
}

const isListing = ({ operation }: BucketCall) => operation === 'ListMultipartUploads'
const isDeletion = ({ operation }: BucketCall) => operation === 'DeleteObjects'
const isPart = ({ operation }: BucketCall) => operation === 'UploadPart'
const isCompletion = ({ operation }: BucketCall) => operation === 'CompleteMultipartUpload'
const isWriteOf =
  (file: string) =>
  ({ operation, key }: BucketCall) =>
    operation === 'PutObject' && key.endsWith(file)
const leaveParts = (fixture: BackupFixture) => endAt(isPart, fixture)

type Case = [
  when: string,
  method: BackupMethod,
  isMeant: (call: BucketCall) => boolean,
  options?: { before?: (fixture: BackupFixture) => unknown; isAnswered?: true },
]

const CASES: Case[] = [
  ['lists what is left of a node', 'Node', isListing, { before: leaveParts, isAnswered: true }],
  ['lists what is left of a shard', 'Shard', isListing, { before: leaveParts, isAnswered: true }],
  [
    'lists the objects of a collection',
    'Shard',
    ({ operation, query }) =>
      operation === 'ListObjectsV2' && query.get('prefix')?.endsWith('/docs/shard-') === true,
    {
      async before(fixture) {
        await endAt(isWriteOf('checkpoint.json'), fixture)
        const ref = { collection: 'docs', shardId: 0, attempt: '00000000' }
        fixture.store().put(shardSnapshotKey('nightly/b/', ref), Buffer.from('stale'))
      },
      isAnswered: true,
    },
  ],
  ['deletes objects of a node', 'Node', isDeletion, { before: leaveParts }],
  ['deletes objects of a shard', 'Shard', isDeletion, { before: leaveParts }],
  ['writes a checkpoint', 'Node', isWriteOf('checkpoint.json')],
  ['writes a checkpoint', 'Shard', isWriteOf('checkpoint.json')],
  ['completes an upload', 'Node', isCompletion],
  ['completes an upload', 'Shard', isCompletion],
  ['writes collection.json', 'Node', isWriteOf('collection.json')],
  ['writes the manifest', 'Shard', isWriteOf('manifest.json')],
]

for (const [when, method, isMeant, { before, isAnswered = false } = {}] of CASES) {
  t.test(
    `by ${method}, a pod that is replaced while it ${when} changes nothing more`,
    async (t) => {
      const fixture = await backupFixture(t, { method, parallelism: 1, snapshotBytes: 9 * MIB })
      await before?.(fixture)
      const { code, log, isReached, changes } = await changesAfter(fixture, { isMeant, isAnswered })
      t.ok(isReached)
      t.strictSame(changes, [], log.slice(-2000))
      t.match(log, TAKEN_OVER)
      t.equal(code, EXIT.crash)
    },
  )
}

t.test('by node, a pod that was replaced does not delete the snapshot of the other', async (t) => {
  const { engine, s3, world } = await backupFixture(t, { nodes: 1 })
  const uploading = Promise.withResolvers<undefined>()
  const released = Promise.withResolvers<undefined>()
  let [writes, readings] = [0, 0]
  let isUploading = false
  let second: Promise<{ code: number; log: string }> | undefined
  s3.misbehave(({ operation, key }) => {
    if (second !== undefined) {
      if (operation !== 'PutObject' || !key.endsWith('.snapshot') || isUploading) return undefined
      isUploading = true
      uploading.resolve(undefined)
      return { after: released.promise }
    }
    if (!key.endsWith('node-0/checkpoint.json')) return undefined
    if (operation === 'PutObject' && (writes += 1) === 4) {
      engine.removeCollection('docs')
      engine.createCollection('docs', 1, 1)
    }
    // At the start, and before the round is discarded.
    if (operation !== 'GetObject' || (readings += 1) < 2) return undefined
    second = world.run({}, { pod: 'pod-2' })
    return { after: uploading.promise }
  })
  const { code, log } = await world.run({}, { pod: 'pod-1' })
  t.match(log, TAKEN_OVER)
  t.equal(code, EXIT.crash)
  t.equal(snapshotFiles(engine).size, 1)
  released.resolve(undefined)
  t.equal((await second)?.code, EXIT.done)
})

t.test('by node, a pod that was replaced requests no snapshot', async (t) => {
  const { nodes, s3, world } = await backupFixture(t, { nodes: 1 })
  let done: Promise<void> | undefined
  let requests = 0
  nodes[0]?.misbehave(({ method, path }) => {
    if (method === 'POST' && path[2] === 'snapshots') requests += 1
    const isAfterCheckpoint = s3.calls.some(
      ({ operation, key }) => operation === 'PutObject' && key.endsWith('checkpoint.json'),
    )
    // The topology is compared directly before the request.
    if (!isAfterCheckpoint || done !== undefined) return undefined
    done = takeOver(world.api, { kind: 'VecBackup', name: 'b' })
    return { until: done }
  })
  const { code, log } = await world.run()
  t.ok(done)
  t.equal(requests, 0)
  t.match(log, TAKEN_OVER)
  t.equal(code, EXIT.crash)
})

t.test('a purge that another pod has taken over deletes nothing more', async (t) => {
  const { s3, world, keys } = await backupFixture(t)
  t.equal((await world.run()).code, EXIT.done)
  const before = keys()
  let done: Promise<void> | undefined
  s3.misbehave(({ operation, key }) => {
    // The owner is read once, before a batch is deleted.
    if (operation !== 'GetObject' || !key.endsWith('owner.json') || done !== undefined)
      return undefined
    done = takeOver(world.api, { kind: 'VecBackup', name: 'b' })
    return { after: done }
  })
  const { resource, namespace, name, uid, storage } = world.plan
  const plan = { resource, namespace, name, uid, storage, run: 2, hash: 'purge' }
  const env = { ...world.env, [JOB_ENV.plan]: encodePlan(plan, 'spec') }
  const { code, log } = await runJob(['backup', 'purge', 'ns/b'], env)
  t.strictSame(keys(), before)
  t.match(log, TAKEN_OVER)
  t.equal(code, EXIT.crash)
})
