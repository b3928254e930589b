/** `backup run` with failures, from the real engine at ENGINE_BIN into the real store at S3_BIN. */
import t, { type Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { purge } from '../../../jobs/backup/purge.ts'
import { Bucket } from '../../../jobs/clients/s3/bucket.ts'
import { jobLog } from '../../../jobs/log.ts'
import { systemClock } from '../../../jobs/clock.ts'
import { KEYS, realStore } from '../../contract/bucket/real.ts'
import { realSubject } from '../../contract/engine/real.ts'
import { matchWhole } from '../../match-whole.ts'
import { openGate } from '../../world/buckets/gate.ts'
import type { BucketCall, BucketFault } from '../../world/world.ts'
import { ask } from '../restore/collection-state.ts'
import { backupWorld, type BackupWorldOptions } from './backup-world.ts'

const { ENGINE_BIN: engineBin, S3_BIN: storeBin } = process.env
const FIRST = 's3://backups/nightly/b'
const real = { time: systemClock }

if (engineBin === undefined || storeBin === undefined) {
  t.pass('ENGINE_BIN and S3_BIN name no engine and store: nothing to back up', { skip: true })
} else {
  t.setTimeout(600_000)
  t.test('from a real engine into a real store', { timeout: 580_000 }, async (t) =>
    examine(t, engineBin, storeBin),
  )
}

async function examine(t: Test, engineBin: string, storeBin: string) {
  const engine = await realSubject(engineBin, { size: 'one', service: {} })
  const store = await realStore(storeBin, t.testdir({}))
  const gate = await openGate(store.endpoint, '127.0.0.1')
  t.teardown(async () => {
    await gate.close()
    await store.close()
    await engine.close()
  })
  const [url = ''] = engine.urls
  for (const name of ['one', 'two']) await fill(url, name)
  const filesOf = async (name: string) => ask(url, 'GET', `/collections/${name}/snapshots`)
  const opened = (t: Test, options: Partial<BackupWorldOptions> = {}) =>
    backupWorld(t, { ports: [Number(new URL(url).port)], endpoint: gate.url, ...options })
  const bad = (decide?: (call: BucketCall) => BucketFault | undefined) =>
    gate.misbehave('backups', decide)

  await t.test(
    'calls to a store that answers 503 or SlowDown or cuts connections are retried until they succeed',
    async (t) => {
      const world = await opened(t)
      const faults: BucketFault[] = [
        { status: 503, code: 'ServiceUnavailable' },
        { status: 503, code: 'SlowDown' },
        { cut: true },
        { status: 500, code: 'InternalError' },
      ]
      bad((call) => (isUpload(call) ? faults.shift() : undefined))
      const { code, log } = await world.run({}, real)
      t.equal(code, EXIT.done, log.slice(-2000))
      t.strictSame(faults, [])
      t.equal((await world.verify(FIRST)).code, EXIT.done)
      t.strictSame(await filesOf('one'), [])
    },
  )

  await t.test('a full store fails a backup; the previous backup is unchanged', async (t) => {
    const world = await opened(t, { prefix: 'later' })
    bad((call) => (isUpload(call) ? { status: 507, code: 'InsufficientStorage' } : undefined))
    t.equal((await world.run({}, real)).code, EXIT.failed)
    const { error = '' } = (await world.progress())?.backup ?? {}
    t.match(error, /later\/b\/one\/.* answered 507 InsufficientStorage.*the store is full/)
    t.strictSame(await filesOf('one'), [], 'no file is left in the engine')
    bad()
    const bucket = bucketOf(t, gate.url)
    const later = { prefix: 'later', name: 'b', uid: world.uid }
    const { done } = await purge(bucket, later, { now: new Date() })
    t.ok(done)
    t.equal(
      (await world.verify(FIRST)).code,
      EXIT.done,
      'the failed backup deleted nothing of the previous one',
    )
  })

  await t.test(
    'only the collections named are backed up; a missing one fails by name',
    async (t) => {
      const world = await opened(t, { prefix: 'chosen', collections: ['none', 'two'] })
      t.equal((await world.run({}, real)).code, EXIT.failed)
      matchWhole(t, (await world.progress())?.backup, {
        error: /there is no collection none/,
        collections: [
          { name: 'none', status: 'Failed' },
          { name: 'two', status: 'Completed' },
        ],
      })
      const whole = await world.verify('s3://backups/chosen/b')
      t.equal(whole.code, EXIT.failed, 'one collection is missing in the backup')
      const { code, log } = await world.verify('s3://backups/chosen/b', '--collections', 'two')
      t.equal(code, EXIT.done, log)
      t.strictSame(await filesOf('two'), [])
    },
  )

  await t.test(
    'a node that is killed during the stream of its snapshot returns, and the backup completes',
    async (t) => {
      const world = await opened(t, { prefix: 'killed' })
      let killing: Promise<void> | undefined
      bad((call) => {
        if (!isUpload(call) || killing !== undefined) return undefined
        return { hold: (killing = engine.restart(0)) }
      })
      const { code, log } = await world.run({}, real)
      t.equal(code, EXIT.done, log.slice(-2000))
      t.equal((await world.verify('s3://backups/killed/b')).code, EXIT.done)
      for (const name of ['one', 'two']) t.strictSame(await filesOf(name), [])
    },
  )
}

function isUpload({ method, key }: BucketCall): boolean {
  return method === 'PUT' && key.endsWith('.snapshot')
}

function bucketOf(t: Test, endpoint: string): Bucket {
  const bucket = new Bucket({
    target: { bucket: 'backups', region: 'us-east-1', endpoint, forcePathStyle: true },
    credentials: async () => KEYS,
    time: systemClock,
    log: jobLog({ LOG_LEVEL: 'ERROR' }),
  })
  t.teardown(() => bucket.close())
  return bucket
}

const POINTS = 200
/** So that a snapshot has several parts. */
const PAYLOAD = 'x'.repeat(100_000)

async function fill(url: string, name: string) {
  const path = `/collections/${name}`
  await ask(url, 'PUT', path, { vectors: { size: 4, distance: 'Dot' } })
  for (let from = 0; from < POINTS; from += 50) {
    const points = Array.from({ length: 50 }, (_, index) => ({
      ...{ id: from + index, vector: [index, 1, 2, 3] },
      payload: { text: PAYLOAD },
    }))
    await ask(url, 'PUT', `${path}/points?wait=true`, { points })
  }
}
