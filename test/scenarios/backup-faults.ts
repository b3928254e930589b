/** Bad days of a VecBackup: Jobs that are killed, buckets that refuse, and names that are taken. */
import { matchWhole } from '../match-whole.ts'
import {
  backupJobs,
  backupResource,
  backupStatus,
  deleted,
  engineFiles,
  eventually,
  filledCluster,
  heldUpload,
  isUpload,
  said,
  untilEnded,
  untilInProgress,
  uploads,
  verify,
} from './backup-parts.ts'
import type { Scenario } from './scenario.ts'

const killed: Scenario = {
  title: 'H4: a backup Job that is killed goes on where it stood and moves nothing twice',
  async run(world, t) {
    const { namespace, bucket } = await filledCluster(world, 'killed-backup', ['one', 'two'])
    const { reference, of } = backupResource('VecBackup', { namespace, name: 'b' }, bucket)
    const held = heldUpload(bucket, 'b/two/')
    await world.apply(of())
    await eventually(world, 'the second collection is being uploaded', held.begun)
    const [job = ''] = await backupJobs(world, namespace)
    await world.faults.killJobPod(namespace, job)
    held.release()
    await untilEnded(world, reference)
    t.strictSame(await backupJobs(world, namespace), [job], 'the same Job, another pod')
    const [first = '', ...rest] = Object.keys(uploads(bucket)).filter((key) =>
      key.startsWith('b/one/'),
    )
    t.strictSame(rest, [])
    t.equal(uploads(bucket)[first], 1, 'what was whole is not moved again')
    t.match(await world.logs(namespace, job), /collection one is already in the bucket/)
    const snapshots = (await bucket.keys()).filter((key) => key.endsWith('.snapshot'))
    t.equal(snapshots.length, 2, 'nothing is left of the attempt that was killed')
    for (const name of ['one', 'two']) {
      t.strictSame(await engineFiles(world, namespace, 1, name), [])
    }
    t.equal((await verify(bucket, 'b')).code, 0)
  },
}

const deletedEarly: Scenario = {
  title:
    'a backup deleted while it runs: its Job stops first, then its own prefix is emptied, and no other',
  async run(world, t) {
    const { namespace, bucket } = await filledCluster(world, 'deleted-backup', ['one', 'two'])
    const { reference, of } = backupResource('VecBackup', { namespace, name: 'b' }, bucket)
    // Not `n/b` itself: a store on a file system cannot hold both.
    const others = ['n/b.snapshot', 'n/b-b/x.snapshot', 'n/bb/x.snapshot', 'b/x.snapshot']
    for (const key of others) await bucket.put(key, 'not ours')
    const held = heldUpload(bucket, 'n/b/two/')
    const s3 = { ...bucket.target, prefix: 'n' }
    await world.apply(of({ storage: { s3 } }))
    await eventually(world, 'the second collection is being uploaded', held.begun)
    t.ok((await bucket.keys('n/b/')).length > 0)
    await deleted(world, reference)
    held.release()
    t.strictSame(await bucket.keys(), others.toSorted())
    t.strictSame(await backupJobs(world, namespace), [])
    t.strictSame(await engineFiles(world, namespace, 1, 'two'), [], 'the engine’s file goes too')
  },
}

const refusedByStore: Scenario = {
  title:
    'a wrong key, a missing bucket, a wrong region: Failed, with a message that says what to fix',
  async run(world, t) {
    const { namespace, bucket } = await filledCluster(world, 'refused-backup')
    await world.apply({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { namespace, name: 'wrong' },
      stringData: {
        id: bucket.access.accessKeyId,
        secret: 'not-the-secret-of-this-store',
      },
    })
    const keys = { accessKeyIdKey: 'id', secretAccessKeyKey: 'secret' }
    const cases: [name: string, target: object, error: RegExp][] = [
      [
        'wrong-key',
        { credentialsSecretRef: { name: 'wrong', ...keys } },
        /403 SignatureDoesNotMatch.*\(check the credentials, the bucket policy, endpoint and forcePathStyle\)/,
      ],
      ['no-bucket', { bucket: 'nowhere' }, /404 NoSuchBucket.*there is no bucket nowhere/],
      ['wrong-region', { region: 'eu-north-7' }, /answered 40\d .*eu-north-7/],
    ]
    for (const [name, target] of cases) {
      const { of } = backupResource('VecBackup', { namespace, name }, bucket)
      await world.apply(of({ storage: { s3: { ...bucket.target, ...target } } }))
    }
    for (const [name, , error] of cases) {
      const { reference } = backupResource('VecBackup', { namespace, name }, bucket)
      const status = await untilEnded(world, reference, 'Failed')
      t.match(status.error, error, name)
      t.notOk(status.error?.includes('not-the-secret'))
      t.match(said(await world.get(reference))?.message, /Backed up 0\/\d collections/)
    }
  },
}

const restless: Scenario = {
  title: 'a store that is busy, answers 503 or cuts connections is asked again until it is done',
  async run(world, t) {
    const { namespace, bucket } = await filledCluster(world, 'restless')
    const faults = [
      { status: 503, code: 'SlowDown' },
      { cut: true as const },
      { status: 500, code: 'InternalError' },
    ]
    bucket.misbehave((call) => (isUpload(call) ? faults.shift() : undefined))
    const { reference, of } = backupResource('VecBackup', { namespace, name: 'b' }, bucket)
    await world.apply(of())
    await untilEnded(world, reference)
    t.strictSame(faults, [])
    t.strictSame(Object.values(uploads(bucket)), [4])
    t.equal((await verify(bucket, 'b')).code, 0)
  },
}

const forbidden: Scenario = {
  title:
    'a bucket that refuses half way: the status says that credentials are awaited, then Failed, and what was done stands in the manifest',
  // The Job waits for credentials that are being renewed, in the time of the machine.
  only: 'cluster',
  async run(world, t) {
    const { namespace, bucket } = await filledCluster(world, 'forbidden', ['one', 'two'])
    const { reference, of } = backupResource('VecBackup', { namespace, name: 'b' }, bucket)
    bucket.misbehave((call) => {
      const isSecond = isUpload(call) && call.key.startsWith('b/two/')
      return isSecond ? { status: 403, code: 'AccessDenied' } : undefined
    })
    await world.apply(of())
    const waits = /; waiting for renewed credentials: PUT .*\/b\/two\/.* answered 403 AccessDenied/
    const waiting = await world.waitFor(
      reference,
      'says what it waits for, or is over',
      (object) =>
        waits.test(said(object)?.message ?? '') ||
        backupStatus(object).completionTime !== undefined,
      600,
    )
    t.match(said(waiting)?.message, waits)
    const status = await untilEnded(world, reference, 'Failed')
    t.match(status.error, /s3:\/\/.*\/b\/two\/.* answered 403 AccessDenied \(check the credentials/)
    matchWhole(t, status.collections, [
      { name: 'one', status: 'Completed' },
      { name: 'two', status: 'Failed', error: /AccessDenied/ },
    ])
    bucket.misbehave()
    matchWhole(t, await bucket.json('b/manifest.json'), { collections: [{ name: 'one' }] })
    t.strictSame(await engineFiles(world, namespace, 1, 'two'), [])
    t.equal((await verify(bucket, 'b')).code, 1, 'one collection is missing')
  },
}

/** The name another namespace already uses in the same bucket. */
const namesake: Scenario = {
  title:
    'a prefix has one owner: a namesake from another namespace neither writes there nor purges it',
  async run(world, t) {
    const { namespace, bucket, cluster } = await filledCluster(world, 'owner')
    const other = await world.namespace('namesake')
    await world.patch(cluster, {
      metadata: { annotations: { 'vec-operator.dev/allowed-namespaces': '*' } },
    })
    await bucket.grantAccess(other)
    const first = backupResource('VecBackup', { namespace, name: 'b' }, bucket)
    await world.apply(first.of())
    await untilEnded(world, first.reference)
    const keys = await bucket.keys()

    const second = backupResource('VecBackup', { namespace: other, name: 'b' }, bucket)
    await world.apply(second.of({ clusterRef: { name: 'a', namespace } }))
    const { error } = await untilEnded(world, second.reference, 'Failed')
    t.match(error, `prefix holds another backup (VecBackup ${namespace}/b)`)
    await deleted(world, second.reference)
    t.strictSame(await bucket.keys(), keys)
    t.equal((await verify(bucket, 'b')).code, 0)
  },
}

const unattended: Scenario = {
  title:
    'the hook service is down while a backup runs: the Job completes, and the status reports it afterwards',
  disturbs: true,
  async run(world, t) {
    const { namespace, bucket } = await filledCluster(world, 'unattended')
    const { reference, of } = backupResource('VecBackup', { namespace, name: 'b' }, bucket)
    const held = heldUpload(bucket)
    await world.apply(of())
    await eventually(world, 'the upload has begun', held.begun)
    await untilInProgress(world, reference)
    await world.faults.stopService()
    held.release()
    await eventually(world, 'the manifest is written', async () =>
      (await bucket.keys()).includes('b/manifest.json'),
    )
    t.equal(backupStatus(await world.get(reference)).phase, 'InProgress')
    await world.faults.startService()
    const { completionTime = '' } = await untilEnded(world, reference)
    t.ok(Date.parse(completionTime) > 0)
    t.equal((await backupJobs(world, namespace)).length, 1)
    t.equal((await verify(bucket, 'b')).code, 0)
  },
}

export const backupFaults: Scenario[] = [
  killed,
  deletedEarly,
  refusedByStore,
  restless,
  forbidden,
  namesake,
  unattended,
]
