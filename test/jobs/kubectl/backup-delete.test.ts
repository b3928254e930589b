/** `backup delete`: only what the backup has written, only if nothing uses it, and only if it is asked to. */
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { API_VERSION } from '../../../crds/contract/names.ts'
import { customResourceDefinition, RESOURCES } from '../../../crds/crd.ts'
import { EXIT_CODES } from '../../../jobs/kubectl/command.ts'
import { KEYS } from '../backup/backup-world.ts'
import { startBucket } from '../engine-and-bucket.ts'
import { openApi, START } from '../job-fixture.ts'
import { runCommand, writeKubeconfig } from './cli-user.ts'

const OWNER = {
  uid: 'u',
  namespace: 'ns',
  name: 'a',
  cluster: { namespace: 'ns', name: 'c' },
  startedAt: '2030-01-01T00:00:00Z',
  collections: ['c'],
}
const TARGET = 's3://backups/p/a'
const WRITTEN = {
  'p/a/c/collection.json': '{}',
  'p/a/c/node-0/1.snapshot': 'xyz',
  'p/a/manifest.json': { uid: 'u' },
  'p/a/owner.json': OWNER,
}
const WHAT =
  /4 objects, \d+ B, written by VecBackup ns\/a \(uid u, started at 2030-01-01T00:00:00Z\)/

/** A bucket with the backup p/a and these objects. */
async function bucketWith(t: Test, others: Record<string, object | string> = {}) {
  const { s3, store: found } = await startBucket(t, () => '')
  const store = found()
  const put = (key: string, content: object | string) =>
    store.put(key, Buffer.from(typeof content === 'string' ? content : JSON.stringify(content)))
  for (const [key, content] of Object.entries({ ...WRITTEN, ...others })) put(key, content)
  const type = (
    args: string[],
    { env = {}, answer }: { env?: NodeJS.ProcessEnv; answer?: string } = {},
  ) =>
    runCommand(
      ['backup', 'delete', ...args, '--endpoint', s3.url, '--path-style'],
      { ...KEYS, KUBECONFIG: '/nothing', ...env },
      answer,
    )
  return {
    ...{ s3, store, put },
    /** With a kubeconfig in `env`, or an answer on the terminal. */
    type,
    /** Without a Kubernetes cluster. */
    remove: (target = TARGET, ...flags: string[]) => type([target, '--bucket-only', ...flags]),
  }
}

t.test('only the objects of the backup are deleted', async (t) => {
  const others = {
    'p/a-b/manifest.json': 'x',
    'p/a.json': 'x',
    'p/aa/owner.json': { ...OWNER, uid: 'v' },
    'p/owner.json': { ...OWNER, uid: 'w' },
    'p/manifest.json': { uid: 'w' },
    'a/owner.json': OWNER,
  }
  const { remove, store } = await bucketWith(t, others)
  store.pageSize = 2
  for (const target of [TARGET, `${TARGET}/`]) {
    const dry = await remove(target, '--dry-run')
    t.equal(dry.code, EXIT_CODES.success, dry.err)
    const listed = dry.out.match(/^\d+ s3:\/\/\S+$/gm)
    t.strictSame(
      listed?.map((line) => line.split(' ')[1]),
      Object.keys(WRITTEN).map((key) => `s3://backups/${key}`),
    )
    t.match(dry.out, new RegExp(`\nwould be deleted: ${WHAT.source}\n$`))
    t.match(dry.out, /^3 s3:\/\/backups\/p\/a\/c\/node-0\/1\.snapshot$/m)
  }
  t.equal(store.keys().length, 10)
  const { code, out, err } = await remove(TARGET, '--yes')
  t.strictSame(
    { code, out, err },
    { code: EXIT_CODES.success, out: '4 objects deleted\n', err: '' },
  )
  t.strictSame(store.keys(), Object.keys(others).toSorted())
  const again = await remove(TARGET, '--yes')
  t.equal(again.code, EXIT_CODES.failure)
  t.match(again.err, 's3://backups/p/a/ has no owner.json')
})

t.test('other objects in the folder stay, and the exit code is 1', async (t) => {
  const others = {
    'p/a/README': 'x',
    'p/a/c/node-0/../1.snapshot': 'x',
    'p/a/ü ?#%2F&<\'">/x': 'x',
    'p/a/c/inner/collection.json': 'x',
    'p/a/inner/node-0/1.snapshot': 'x',
    'p/a/inner/owner.json': { ...OWNER, uid: 'v', name: 'inner' },
    'p/a/inner/manifest.json': { uid: 'v' },
    // Of another program.
    'p/a/plain/manifest.json': '{}',
    'p/a/plain/node-0/1.snapshot': 'x',
  }
  const { remove, store } = await bucketWith(t, others)
  const { code, out, err } = await remove(TARGET, '--yes')
  t.strictSame({ code, out }, { code: EXIT_CODES.failure, out: '' })
  t.equal(
    err,
    'vec-operator: 4 objects deleted; 9 objects that the backup did not write left, such as s3://backups/p/a/README\n',
  )
  t.strictSame(store.keys(), Object.keys(others).toSorted())
})

t.test('a backup inside the folder of another is deleted alone', async (t) => {
  const inner = {
    'p/a/inner/c/shard-0/1.snapshot': 'x',
    'p/a/inner/manifest.json': { uid: 'v' },
    'p/a/inner/owner.json': { ...OWNER, uid: 'v', name: 'inner' },
  }
  const { remove, store } = await bucketWith(t, inner)
  const { code, err } = await remove('s3://backups/p/a/inner', '--yes')
  t.equal(code, EXIT_CODES.success, err)
  t.strictSame(store.keys(), Object.keys(WRITTEN).toSorted())
})

t.test('thousands of objects are deleted to the last', async (t) => {
  const { remove, store, put } = await bucketWith(t)
  for (let index = 0; index < 2500; index += 1) put(`p/a/c/shard-1/${index}`, 'x')
  const { code, out, err } = await remove(TARGET, '--yes')
  t.equal(code, EXIT_CODES.success, err)
  t.equal(out, '2504 objects deleted\n')
  t.strictSame(store.keys(), [])
})

for (const target of [
  ...['backups/p/a', 's3://backups', 's3://backups/', 's3:///p/a'],
  ...['s3://backups/p/../p/a', 's3://backups/p/./a', 's3://backups/p//a', 's3://backups//p/a'],
  ...['s3://backups/p/a//', 's3://backups/p/a/..'],
]) {
  t.test(`${target} names no backup`, async (t) => {
    const { remove, store, s3 } = await bucketWith(t)
    const { code, err } = await remove(target, '--yes')
    t.equal(code, EXIT_CODES.usage)
    t.match(err, `${target} is not of the form s3://<bucket>/<prefix>/<name>`)
    t.strictSame(s3.calls, [])
    t.equal(store.keys().length, 4)
  })
}

const REFUSED: [string, Record<string, object | string>, RegExp][] = [
  [
    'an owner.json of another backup',
    { 'p/a/owner.json': { ...OWNER, uid: 'v' } },
    /does not match the manifest/,
  ],
  [
    'an owner.json of another program',
    { 'p/a/owner.json': { uid: 'u' } },
    /is not an owner\.json of a backup/,
  ],
  [
    'a manifest of another program',
    { 'p/a/manifest.json': { backupName: 'a' } },
    /does not match the manifest/,
  ],
  ['a manifest that is null', { 'p/a/manifest.json': 'null' }, /does not match the manifest/],
  ['a manifest that is not JSON', { 'p/a/manifest.json': 'x' }, /manifest\.json is not JSON/],
]
for (const [what, objects, message] of REFUSED) {
  t.test(`nothing is deleted with ${what}`, async (t) => {
    const { remove, store } = await bucketWith(t, objects)
    const before = store.keys()
    const { code, out, err } = await remove(TARGET, '--yes')
    t.strictSame({ code, out }, { code: EXIT_CODES.failure, out: '' })
    t.match(err, message)
    t.strictSame(store.keys(), before)
  })
}

t.test('without a manifest, it must be said that the backup is not running', async (t) => {
  const { remove, store } = await bucketWith(t)
  store.objects.delete('p/a/manifest.json')
  const refused = await remove(TARGET, '--yes')
  t.equal(refused.code, EXIT_CODES.failure)
  t.match(refused.err, /has no manifest\.json: .* pass --unfinished\n/)
  t.equal(store.keys().length, 3)
  t.equal((await remove(TARGET, '--yes', '--unfinished')).code, EXIT_CODES.success)
  t.strictSame(store.keys(), [])
})

t.test('a backup that a restore reads is not deleted', async (t) => {
  const uid = '3e6f1c9e-0000-4000-8000-000000000001'
  const { remove, store, put } = await bucketWith(t)
  const reader = { uid, namespace: 'far', name: 'drill', at: START.toISOString() }
  put(`p/a/readers/${uid}.json`, reader)
  for (const flag of ['--yes', '--dry-run']) {
    const { code, err } = await remove(TARGET, flag)
    t.equal(code, EXIT_CODES.failure)
    t.match(err, 'VecRestore far/drill recorded in the bucket that it reads the backup')
  }
  t.equal(store.keys().length, 5)
})

t.test('objects that the store refuses to delete are named, and the exit code is 1', async (t) => {
  const { remove, store } = await bucketWith(t)
  store.undeletable.set('p/a/c/node-0/1.snapshot', 'AccessDenied')
  const { code, out, err } = await remove(TARGET, '--yes')
  t.strictSame({ code, out }, { code: EXIT_CODES.failure, out: '' })
  t.match(err, /DELETE s3:\/\/backups\/p\/a\/c\/node-0\/1\.snapshot was refused: AccessDenied/)
  t.match(err, /; 2 objects of the backup \(\d+ B\) left\n$/)
  t.strictSame(store.keys(), ['p/a/c/node-0/1.snapshot', 'p/a/owner.json'])
})

t.test('a store that still lists deleted objects after all retries is a failure', async (t) => {
  const { remove, s3, put } = await bucketWith(t)
  s3.misbehave(({ operation }) => {
    if (operation === 'ListObjectsV2') put('p/a/c/node-0/1.snapshot', 'x')
    return undefined
  })
  const { code, err } = await remove(TARGET, '--yes')
  t.equal(code, EXIT_CODES.failure)
  t.match(err, /s3:\/\/backups\/p\/a\/ still has deleted objects; 2 objects of the backup/)
})

t.test('an owner.json that changes meanwhile stops the deletion', async (t) => {
  const { remove, s3, store, put } = await bucketWith(t)
  s3.misbehave(({ operation }) => {
    if (operation === 'ListObjectsV2') put('p/a/owner.json', { ...OWNER, uid: 'v' })
    return undefined
  })
  const { code, err } = await remove(TARGET, '--yes')
  t.equal(code, EXIT_CODES.failure)
  t.match(err, /0 objects deleted; 4 objects of the backup \(\d+ B\) left/)
  t.equal(store.keys().length, 4)
})

t.test('a listing without its rest deletes nothing', async (t) => {
  const { remove, store } = await bucketWith(t)
  store.pageSize = 2
  store.hidesTokens = true
  const { code, err } = await remove(TARGET, '--yes')
  t.equal(code, EXIT_CODES.failure)
  t.match(err, 'has more objects, but the store does not say how to list them')
  t.equal(store.keys().length, 4)
})

t.test('without --yes it asks, and only yes deletes', async (t) => {
  const { type, store } = await bucketWith(t)
  const args = [TARGET, '--bucket-only']
  const refused = await type(args)
  t.equal(refused.code, EXIT_CODES.usage)
  t.match(refused.err, 'pass --yes to delete without being asked; nothing was deleted')
  for (const answer of ['', 'y', 'no', 'yesterday']) {
    const { code, err } = await type(args, { answer })
    t.equal(code, EXIT_CODES.failure)
    t.match(
      err,
      new RegExp(`^Delete ${WHAT.source}\\? \\(yes/no\\): vec-operator: nothing was deleted`),
    )
  }
  t.equal(store.keys().length, 4)
  t.equal((await type(args, { answer: ' Yes' })).code, EXIT_CODES.success)
  t.strictSame(store.keys(), [])
})

/** A Kubernetes cluster in which `put` creates resources in the namespace ns. */
async function clusterOf(t: Test) {
  const { server, api } = await openApi(t)
  for (const resource of RESOURCES) await api.create(customResourceDefinition(resource, '0.1.0'))
  await api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'ns' } })
  const file = join(t.testdir({}), 'kubeconfig')
  writeKubeconfig(file, server, 'default')
  const put = async (kind: string, name: string, spec: object, phase?: string) => {
    const metadata = { name, namespace: 'ns' }
    const created = await api.create({ apiVersion: API_VERSION, kind, metadata, spec })
    if (phase !== undefined) await api.replaceStatus({ ...created, status: { phase } })
    return created.metadata.uid ?? ''
  }
  return { put, env: { KUBECONFIG: file } }
}

const S3 = { bucket: 'backups', prefix: 'p', credentialsSecretRef: { name: 'keys' } }

t.test('while its VecBackup exists, the command refuses and names it', async (t) => {
  const { type, store, put } = await bucketWith(t)
  const cluster = await clusterOf(t)
  const spec = { clusterRef: { name: 'c' }, storage: { s3: S3 } }
  const uid = await cluster.put('VecBackup', 'a', spec)
  put('p/a/owner.json', { ...OWNER, uid })
  put('p/a/manifest.json', { uid })
  const { code, err } = await type([TARGET, '--yes'], cluster)
  t.equal(code, EXIT_CODES.failure)
  t.equal(
    err,
    'vec-operator: VecBackup ns/a owns these objects: delete it instead, with kubectl delete vecbackup a --namespace ns\n',
  )
  t.equal(store.keys().length, 4)
  for (const [key, content] of Object.entries(WRITTEN)) put(key, content)
  const another = await type([TARGET, '--yes'], cluster)
  t.equal(another.code, EXIT_CODES.success, 'another VecBackup has its name')
})

t.test('a VecRestore that has not ended and names it is waited for', async (t) => {
  const { type, store } = await bucketWith(t)
  const cluster = await clusterOf(t)
  const targetClusterRef = { name: 'c' }
  const { prefix: _, ...access } = S3
  const byPath = { targetClusterRef, source: { s3: { ...access, path: 'p/a' } } }
  await cluster.put('VecRestore', 'ended', byPath, 'Completed')
  await cluster.put('VecRestore', 'other', { targetClusterRef, backupRef: { name: 'b' } })
  t.equal((await type([TARGET, '--dry-run'], cluster)).code, EXIT_CODES.success)
  await cluster.put('VecRestore', 'running', byPath, 'Restoring')
  const { code, err } = await type([TARGET, '--yes'], cluster)
  t.equal(code, EXIT_CODES.failure)
  t.match(err, 'VecRestore ns/running reads this backup and has not ended')
  t.equal(store.keys().length, 4)
})

t.test(
  'if the Kubernetes cluster does not answer, nothing is deleted without --bucket-only',
  async (t) => {
    const { type, store, put } = await bucketWith(t)
    const cluster = await clusterOf(t)
    const check =
      /cannot check whether a VecBackup or VecRestore uses these objects: .*; pass --bucket-only/
    t.match(await type([TARGET, '--yes']), { code: EXIT_CODES.failure, err: check })
    put('p/a/owner.json', { ...OWNER, namespace: '..' })
    t.match(await type([TARGET, '--yes'], cluster), { code: EXIT_CODES.failure, err: check })
    t.equal(store.keys().length, 4)
  },
)
