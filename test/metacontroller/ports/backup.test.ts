/** Ports of the VecBackup hooks: the real API client, and the real bucket client for the purge. */
import t, { type Test } from 'tap'
import { pino } from 'pino'
import type { VecBackup } from '../../../crds/backup.ts'
import { ANNOTATIONS, API_VERSION } from '../../../crds/contract/names.ts'
import type { S3Target } from '../../../crds/storage.ts'
import { backupPorts } from '../../../metacontroller/ports/backup.ts'
import { AddressGuard } from '../../../jobs/clients/http/address-guard.ts'
import { cachedSecretReader } from '../../../metacontroller/ports/cluster.ts'
import { startBucketServer } from '../../doubles/bucket/server.ts'
import { matchWhole } from '../../match-whole.ts'
import { ONE } from '../certificates.ts'
import type { ApiClient } from '../../world/client.ts'
import { embeddedApi, installCrds } from '../embedded.ts'

const BACKUP = { namespace: 'ns', name: 'b' }
const REFERENCE = { apiVersion: API_VERSION, kind: 'VecBackup', ...BACKUP }
const OWNER = {
  ...BACKUP,
  uid: 'uid-b',
  cluster: { namespace: 'ns', name: 'a' },
  startedAt: '2026-03-01T11:00:00Z',
  collections: ['docs'],
}
const KEYS = { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'secretsecret' }

function storage(endpoint?: string): S3Target {
  return {
    bucket: 'backups',
    region: 'us-east-1',
    forcePathStyle: true,
    prefix: 'p',
    ...(endpoint !== undefined && { endpoint }),
    credentialsSecretRef: {
      name: 'bucket',
      accessKeyIdKey: 'CLOUD_ACCESS_KEY_ID',
      secretAccessKeyKey: 'CLOUD_SECRET_ACCESS_KEY',
    },
  }
}

interface Options {
  namespaces?: string[]
  crds?: boolean
  guard?: AddressGuard
}

async function stage(t: Test, { namespaces = [], crds = true, guard }: Options = {}) {
  const embedded = await embeddedApi(t)
  const { kubernetes, clock, api } = embedded
  if (crds) await installCrds(api)
  const lines: Record<string, unknown>[] = []
  const write = (line: string) => lines.push(JSON.parse(line) as Record<string, unknown>)
  const sleeps: number[] = []
  const statuses: (number | undefined)[] = []
  const ports = backupPorts({
    ...{ kubernetes, namespaces, guard },
    secret: cachedSecretReader(kubernetes, () => clock.now()),
    clock: {
      now: () => clock.now(),
      monotonicMs: () => sleeps.reduce((sum, ms) => sum + ms, 0),
      sleep: async (ms) => void sleeps.push(ms),
    },
    log: pino({ level: 'warn' }, { write }),
    onCall: ({ status }) => statuses.push(status),
  })
  const makeSecret = (stringData: Record<string, string> = KEYS) =>
    api.create({ apiVersion: 'v1', kind: 'Secret', metadata: metadataOf('bucket'), stringData })
  return { ...embedded, ports, lines, sleeps, statuses, makeSecret }
}

function metadataOf(name: string, namespace = 'ns') {
  return { name, namespace }
}

function makeBackup(api: ApiClient) {
  const spec = { clusterRef: { name: 'a' }, storage: { s3: storage() } }
  return api.create({ apiVersion: API_VERSION, kind: 'VecBackup', metadata: BACKUP, spec })
}

async function makeRestore(api: ApiClient, name: string, namespace: string, source: object) {
  const spec = { targetClusterRef: { name: 'a' }, ...source }
  const metadata = metadataOf(name, namespace)
  await api.create({ apiVersion: API_VERSION, kind: 'VecRestore', metadata, spec })
}

/** A bucket with the objects of the backup under `p/b/`, and one that is none of its. */
async function bucketOf(t: Test, tls?: typeof ONE) {
  const s3 = await startBucketServer(tls === undefined ? {} : { tls })
  t.teardown(() => s3.close())
  const store = s3.buckets.get('backups')
  store?.put('p/b/owner.json', Buffer.from(JSON.stringify(OWNER)))
  store?.put('p/b/manifest.json', Buffer.from('{}'))
  store?.put('p/b-2/manifest.json', Buffer.from('{}'))
  const target = { ...BACKUP, uid: 'uid-b', storage: storage(s3.url) }
  return { s3, store, target }
}

const { signal } = new AbortController()

t.test('a VecBackup is read live, and deleted only where it is that very one', async (t) => {
  const { api, ports } = await stage(t)
  t.equal(await ports.backup('ns', 'b'), undefined)
  const { metadata } = await makeBackup(api)
  t.match(await ports.backup('ns', 'b'), { metadata: { uid: metadata.uid } })
  await ports.deleteBackup({ ...BACKUP, uid: 'another' })
  t.ok(await api.get(REFERENCE))
  await ports.deleteBackup({ ...BACKUP, uid: metadata.uid ?? '' })
  t.equal(await api.get(REFERENCE), undefined)
  await ports.deleteBackup({ ...BACKUP, uid: metadata.uid ?? '' })
})

t.test('the time of the API server is that of its answer', async (t) => {
  const { ports, clock } = await stage(t)
  clock.advance(3600_000)
  t.strictSame(await ports.apiTime('ns'), new Date('2026-03-01T13:00:00Z'))
})

t.test('a report is replaced on that very backup', async (t) => {
  const { api, ports, lines } = await stage(t)
  const { metadata } = await makeBackup(api)
  const uid = metadata.uid ?? ''
  const report = {
    ...{
      uid,
      verb: 'run',
      run: 1,
      job: 'job',
      runner: 'pod',
      plan: 'hash',
      state: 'Done' as const,
    },
    ...{ at: '2026-03-01T12:00:00Z', startedAt: '2026-03-01T12:00:00Z' },
  }
  const written = async () => (await api.get(REFERENCE))?.metadata.annotations
  await ports.replaceReport({ ...BACKUP, uid: 'another' }, report)
  t.equal(await written(), undefined, 'a namesake')
  await ports.replaceReport({ ...BACKUP, uid }, report)
  t.strictSame(await written(), { [ANNOTATIONS.progress]: JSON.stringify(report) })
  await ports.replaceReport({ namespace: 'ns', name: 'gone', uid }, report)
  t.strictSame(lines, [])
})

t.test('without their CRDs, cluster, backup and restores count as absent', async (t) => {
  const { ports } = await stage(t, { crds: false })
  t.equal(await ports.cluster('ns', 'a'), undefined)
  t.equal(await ports.backup('ns', 'b'), undefined)
  t.strictSame(await ports.restoresReading({ ...BACKUP, storage: storage() }), [])
})

t.test('restores of a backup name it, or its location in the bucket', async (t) => {
  const { api, ports } = await stage(t)
  const { name } = BACKUP
  await makeRestore(api, 'here', 'ns', { backupRef: { name } })
  await makeRestore(api, 'across', 'other', { backupRef: { name, namespace: 'ns' } })
  await makeRestore(api, 'namesake', 'other', { backupRef: { name } })
  await makeRestore(api, 'another', 'ns', { backupRef: { name: 'b-2' } })
  const found = await ports.restoresReading({ ...BACKUP, storage: storage() })
  t.strictSame(found.map(({ namespace, name: one }) => `${namespace}/${one}`).sort(), [
    'ns/here',
    'other/across',
  ])
  t.ok(found.every(({ uid }) => uid !== ''))
  const reference = { apiVersion: API_VERSION, kind: 'VecRestore', namespace: 'ns', name: 'here' }
  await api.patch(reference, { status: { phase: 'Failed' } }, { subresource: 'status' })
  const later = await ports.restoresReading({ ...BACKUP, storage: storage() })
  const ended = later.filter(({ isFinished }) => isFinished === true)
  t.strictSame(
    ended.map(({ name: one }) => one),
    ['here'],
  )
})

t.test(
  'backups are to be restored while a VecRestore that may use them has not ended',
  async (t) => {
    const { api, ports } = await stage(t)
    await makeBackup(api)
    const found = await ports.backup('ns', 'b')
    if (found === undefined) throw new Error('there is no backup')
    const other = { ...found, metadata: { ...found.metadata, name: 'b-2' } }
    const restoresOf = async (...backups: VecBackup[]) =>
      [...(await ports.backupsToRestore(backups))].map(([name, restores]) => [
        name,
        ...restores.map((restore) => `${restore.namespace}/${restore.name}`),
      ])
    const toRestore = () => restoresOf(found, other)
    t.strictSame(await toRestore(), [])
    await makeRestore(api, 'across', 'other', { backupRef: { name: 'b', namespace: 'ns' } })
    t.strictSame(await toRestore(), [], 'of a namespace that may not use it')
    const annotations = { [ANNOTATIONS.allowedNamespaces]: 'other' }
    const shared = { ...found, metadata: { ...found.metadata, annotations } }
    t.strictSame(await restoresOf(shared), [['b', 'other/across']])
    await makeRestore(api, 'here', 'ns', { backupRef: { name: 'b' } })
    t.strictSame(await toRestore(), [['b', 'ns/here']])
    t.strictSame((await restoresOf(shared)).flat().toSorted(), ['b', 'ns/here', 'other/across'])
    const reference = { apiVersion: API_VERSION, kind: 'VecRestore', namespace: 'ns', name: 'here' }
    const setPhase = (phase: string) =>
      api.patch(reference, { status: { phase } }, { subresource: 'status' })
    await setPhase('Pending')
    t.strictSame(await toRestore(), [['b', 'ns/here']])
    await setPhase('Failed')
    t.strictSame(await toRestore(), [], 'it has ended')
    const s3 = { bucket: 'backups', credentialsSecretRef: { name: 'bucket' }, path: 'p/b' }
    await makeRestore(api, 'place', 'ns', { source: { s3 } })
    t.strictSame(await toRestore(), [['b', 'ns/place']])
  },
)

t.test(
  'a restore by spec.source reads the backup whose bucket, store and path it names',
  async (t) => {
    const { api, ports } = await stage(t)
    const here = { bucket: 'backups', credentialsSecretRef: { name: 'bucket' }, path: 'p/b' }
    const endpoint = 'https://S3.example.com/'
    const sources: [string, object][] = [
      ['same', here],
      ['slashes', { ...here, path: '/p//b/' }],
      ['neighbour', { ...here, path: 'p/b-2' }],
      ['inside', { ...here, path: 'p/b/c' }],
      ['bucket', { ...here, bucket: 'archive' }],
      ['store', { ...here, endpoint }],
    ]
    for (const [name, s3] of sources) await makeRestore(api, name, 'other', { source: { s3 } })
    const namesOf = async (at?: string) => {
      const found = await ports.restoresReading({ ...BACKUP, storage: storage(at) })
      return found.map(({ name }) => name).sort()
    }
    t.strictSame(await namesOf(), ['same', 'slashes'])
    t.strictSame(await namesOf('https://s3.example.com'), ['store'])
  },
)

t.test('a service that watches one namespace lists the restores of that one', async (t) => {
  const { api, ports } = await stage(t, { namespaces: ['other'] })
  await makeRestore(api, 'here', 'ns', { backupRef: { name: 'b' } })
  await makeRestore(api, 'across', 'other', { backupRef: { name: 'b', namespace: 'ns' } })
  matchWhole(t, await ports.restoresReading({ ...BACKUP, storage: storage() }), [
    { namespace: 'other', name: 'across' },
  ])
})

t.test('objects in a namespace that is not watched are not found', async (t) => {
  const { api, ports } = await stage(t, { namespaces: ['other'] })
  await makeBackup(api)
  t.equal(await ports.backup('ns', 'b'), undefined)
  const cluster = { apiVersion: API_VERSION, kind: 'VecCluster', spec: { version: '1.18.3' } }
  await api.create({ ...cluster, metadata: metadataOf('a') })
  await api.create({ ...cluster, metadata: metadataOf('a', 'other') })
  t.equal(await ports.cluster('ns', 'a'), undefined)
  t.match(await ports.cluster('other', 'a'), { metadata: { namespace: 'other' } })
  t.equal(await ports.statefulSet('ns', 'vec-a'), undefined)
})

t.test('restores that cannot be listed are not none', async (t) => {
  const { ports, server } = await stage(t)
  await server.close()
  await t.rejects(ports.restoresReading({ ...BACKUP, storage: storage() }), {
    code: 'KubernetesError',
  })
})

t.test("a purge empties the backup's own folder, with AWS_* as the second choice", async (t) => {
  const { ports, makeSecret } = await stage(t)
  const { store, target } = await bucketOf(t)
  await makeSecret()
  t.strictSame(await ports.purge(target, signal), { done: true, deleted: 2 })
  t.strictSame(store?.keys(), ['p/b-2/manifest.json'])
  t.strictSame(
    await ports.purge(target, signal),
    { done: true, deleted: 0 },
    'again, and nothing is left',
  )
})

t.test('a purge deletes one batch at a call and continues at the next', async (t) => {
  const { ports, makeSecret } = await stage(t)
  const { store, target } = await bucketOf(t)
  for (let index = 0; index < 1_000; index += 1) {
    store?.put(`p/b/docs/node-0/${index}`, Buffer.from('x'))
  }
  await makeSecret()
  t.strictSame(await ports.purge(target, signal), {
    done: false,
    deleted: 1001,
    survey: { left: 1, inner: [] },
  })
  t.ok(store?.objects.has('p/b/owner.json'))
  t.strictSame(await ports.purge(target, signal), { done: true, deleted: 1 })
  t.strictSame(store?.keys(), ['p/b-2/manifest.json'])
})

t.test('objects of another backup are kept, and a missing bucket counts as purged', async (t) => {
  const { ports, makeSecret } = await stage(t)
  const { s3, store, target } = await bucketOf(t)
  await makeSecret()
  t.strictSame(await ports.purge({ ...target, uid: 'uid-namesake' }, signal), {
    done: true,
    deleted: 0,
  })
  t.equal(store?.keys().length, 3)
  s3.buckets.delete('backups')
  t.strictSame(await ports.purge(target, signal), { done: true, deleted: 0 })
})

t.test('keys with other names are read from the Secret, and a missing one is named', async (t) => {
  const { ports, makeSecret } = await stage(t)
  const { store, target } = await bucketOf(t)
  await makeSecret({ user: 'id', pass: 'secretsecret' })
  await t.rejects(ports.purge(target, signal), {
    code: 'StorageError',
    message: 'Secret bucket has no CLOUD_ACCESS_KEY_ID',
  })
  const reference = { name: 'bucket', accessKeyIdKey: 'user', secretAccessKeyKey: 'pass' }
  const named = { ...target.storage, credentialsSecretRef: reference }
  t.strictSame(await ports.purge({ ...target, storage: named }, signal), { done: true, deleted: 2 })
  t.equal(store?.keys().length, 1)
})

t.test('a Secret that never has credentials of a bucket is sent nowhere', async (t) => {
  const types = ['helm.sh/release.v1', 'kubernetes.io/tls', 'kubernetes.io/ssh-auth']
  for (const type of types) {
    const { ports, api } = await stage(t)
    const { s3, store, target } = await bucketOf(t)
    const metadata = metadataOf('bucket')
    const filler = { 'tls.crt': 'x', 'tls.key': 'x', 'ssh-privatekey': 'x' }
    await api.create({
      ...{ apiVersion: 'v1', kind: 'Secret', metadata, type },
      stringData: { ...KEYS, ...filler },
    })
    const message = `Secret ns/bucket is of type ${type}, which cannot hold credentials; use a Secret of type Opaque`
    await t.rejects(ports.purge(target, signal), { reason: 'InvalidSecret', message })
    t.strictSame(s3.calls, [], 'not even for owner.json')
    t.equal(store?.keys().length, 3)
  }
})

t.test('without the Secret a purge is an error, not the end', async (t) => {
  const { ports } = await stage(t)
  const { store, target } = await bucketOf(t)
  await t.rejects(ports.purge(target, signal), { code: 'StorageError' })
  t.equal(store?.keys().length, 3)
})

t.test('a store that is busy is asked twice, and then again by the next hook', async (t) => {
  const { ports, makeSecret, sleeps, statuses } = await stage(t)
  const { s3, target } = await bucketOf(t)
  await makeSecret()
  s3.misbehave(() => ({ status: 503, code: 'SlowDown' }))
  await t.rejects(ports.purge(target, signal), { code: 'StorageError', status: 503 })
  t.equal(s3.calls.length, 2)
  t.equal(sleeps.length, 1)
  t.strictSame(statuses, [503, 503], 'both are in the metrics')
  s3.misbehave()
  t.strictSame(await ports.purge(target, signal), { done: true, deleted: 2 })
})

t.test('a purge that is ended deletes nothing more', async (t) => {
  const { ports, makeSecret } = await stage(t)
  const { store, target } = await bucketOf(t)
  await makeSecret()
  await t.rejects(ports.purge(target, AbortSignal.abort()))
  t.equal(store?.keys().length, 3)
})

t.test('a purge calls no address that the guard denies', async (t) => {
  const guard = new AddressGuard({ allowHttp: true, denied: [] })
  const { ports, makeSecret } = await stage(t, { guard })
  const { s3, store, target } = await bucketOf(t)
  await makeSecret()
  await t.rejects(ports.purge(target, signal), {
    code: 'StorageError',
    reason: 'AddressRefused',
  })
  t.strictSame(s3.calls, [])
  t.equal(store?.keys().length, 3)
})

t.test('a purge ends after ten minutes, and the next one can start', async (t) => {
  const { ports, makeSecret } = await stage(t)
  const { s3, target } = await bucketOf(t)
  await makeSecret()
  const timeout = AbortSignal.timeout.bind(AbortSignal)
  t.teardown(() => (AbortSignal.timeout = timeout))
  const asked: number[] = []
  AbortSignal.timeout = (ms) => {
    asked.push(ms)
    return timeout(ms / 2000)
  }
  const { promise: never } = Promise.withResolvers<undefined>()
  s3.misbehave(() => ({ after: never }))
  await t.rejects(ports.purge(target, signal), {
    code: 'StorageError',
    message: 'not done within 600 s',
  })
  t.strictSame(asked, [600_000])
  t.equal(s3.calls.length, 1)
  s3.misbehave()
  // Of the same namespace, which has one purge at a time.
  t.strictSame(await ports.purge(target, signal), { done: true, deleted: 2 })
})

t.test('a warning names the backup in the log, and no key', async (t) => {
  const { ports, lines } = await stage(t)
  ports.warn(BACKUP, 'the objects stay')
  matchWhole(t, lines, [{ parent: 'VecBackup ns/b', msg: 'the objects stay' }])
})

const CA = { name: 'root', key: 'root.pem' }

t.test('a purge trusts the authority that the bucket names', async (t) => {
  const { ports, api, makeSecret } = await stage(t)
  const { store, target } = await bucketOf(t, ONE)
  await makeSecret()
  const metadata = metadataOf('root')
  const object = { apiVersion: 'v1', metadata }
  await api.create({ ...object, kind: 'ConfigMap', data: { 'root.pem': ONE.cert } })
  await api.create({ ...object, kind: 'Secret', stringData: { 'root.pem': ONE.cert } })
  await t.rejects(ports.purge(target, signal), { message: /self-signed certificate \(trust its / })
  for (const named of [{ caConfigMapRef: CA }, { caSecretRef: CA }]) {
    store?.put('p/b/owner.json', Buffer.from(JSON.stringify(OWNER)))
    const storage = { ...target.storage, ...named }
    t.match(await ports.purge({ ...target, storage }, signal), { done: true })
    t.strictSame(store?.keys(), ['p/b-2/manifest.json'])
  }
})

t.test('a purge is not sent with an authority that may not be read, or is missing', async (t) => {
  const { ports, api, makeSecret } = await stage(t)
  const { s3, target } = await bucketOf(t)
  await makeSecret()
  const purgeWith = (named: Partial<S3Target>) =>
    ports.purge({ ...target, storage: { ...target.storage, ...named } }, signal)
  await t.rejects(purgeWith({ caConfigMapRef: CA }), {
    code: 'StorageError',
    message: 'spec.storage.s3.caConfigMapRef: ConfigMap ns/root not found',
  })
  const type = 'helm.sh/release.v1'
  const stringData = { 'root.pem': ONE.cert }
  await api.create({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: metadataOf('root'),
    type,
    stringData,
  })
  await t.rejects(purgeWith({ caSecretRef: CA }), {
    code: 'StorageError',
    message: /^spec\.storage\.s3\.caSecretRef: Secret ns\/root is of type helm\.sh\/release\.v1, /,
  })
  t.strictSame(s3.calls, [])
})
