/** A bucket that names its certificate authority: what blocks the Job, and what is mounted in it. */
import t, { type Test } from 'tap'
import type { ConfigMap, Job, Secret } from '../../../crds/kubernetes.ts'
import { StorageError } from '../../../crds/contract/errors.ts'
import type { BucketAccess } from '../../../crds/storage.ts'
import { backupRbac } from '../../../hooks/backup/job.ts'
import type { BackupPorts } from '../../../hooks/backup/observe.ts'
import { firstBlocker, sync } from '../../../hooks/backup/sync.ts'
import { ago, configMap, context, secret, settings } from '../../builders.ts'
import { ONE } from '../../metacontroller/certificates.ts'
import { hookRequest } from '../request.ts'
import { callHook } from './call-hook.ts'
import { backup, bucketKeys, identityBackup, ready, serviceAccount } from './objects.ts'

const key = 'ca.crt'
const bySecret = { caSecretRef: { name: 'root', key } }
const byConfigMap = { caConfigMapRef: { name: 'root', key } }

function backupWith(access: BucketAccess, make = backup, status = {}) {
  const storage = { s3: { ...make().spec.storage.s3, ...access } }
  return make({ spec: { storage }, ...status })
}

function blockerOf(access: BucketAccess, ca?: Secret | ConfigMap) {
  const secrets = { bucket: bucketKeys, ...(ca !== undefined && { bucketCa: ca }) }
  return firstBlocker(ready({ backup: backupWith(access), secrets }), settings)
}

t.test('a certificate in the named key does not block', async (t) => {
  t.equal(blockerOf(bySecret, secret({ [key]: ONE.cert })), undefined)
  t.equal(blockerOf(byConfigMap, configMap({ [key]: ONE.cert })), undefined)
  const pair = { [key]: ONE.cert, 'tls.crt': ONE.cert, 'tls.key': ONE.key }
  t.equal(blockerOf(bySecret, secret(pair, 'kubernetes.io/tls')), undefined, 'of cert-manager')
})

const SECRET = 'spec.storage.s3.caSecretRef: Secret ns/root'
const CONFIG_MAP = 'spec.storage.s3.caConfigMapRef: ConfigMap ns/root'
const noCredentials = (type: string) =>
  `${SECRET} is of type ${type}, which cannot hold credentials; use a Secret of type Opaque`

const TYPES = ['kubernetes.io/service-account-token', 'helm.sh/release.v1']
const BLOCKED: [string, BucketAccess, Secret | ConfigMap | undefined, string, string][] = [
  ['no Secret', bySecret, undefined, 'SecretNotFound', `${SECRET} not found`],
  ['no ConfigMap', byConfigMap, undefined, 'ConfigMapNotFound', `${CONFIG_MAP} not found`],
  [
    ...(['a Secret without the key', bySecret, secret({ other: ONE.cert })] as const),
    ...(['InvalidSecret', `${SECRET} has no value in key ca.crt`] as const),
  ],
  [
    ...(['a ConfigMap without the key', byConfigMap, configMap({ [key]: '' })] as const),
    ...(['InvalidConfigMap', `${CONFIG_MAP} has no value in key ca.crt`] as const),
  ],
  [
    ...(['a value that is no certificate', bySecret, secret({ [key]: ONE.key })] as const),
    ...(['InvalidCertificate', `${SECRET} has no valid certificate (PEM) in key ca.crt`] as const),
  ],
  [
    ...(['a broken certificate', byConfigMap, configMap({ [key]: ONE.cert.slice(40) })] as const),
    ...([
      'InvalidCertificate',
      `${CONFIG_MAP} has no valid certificate (PEM) in key ca.crt`,
    ] as const),
  ],
  ...TYPES.map(
    (type) =>
      [
        ...([`a Secret of type ${type}`, bySecret, secret({ [key]: ONE.cert }, type)] as const),
        ...(['InvalidSecret', noCredentials(type)] as const),
      ] satisfies [string, BucketAccess, Secret, string, string],
  ),
  [
    'the private key of a TLS Secret',
    { caSecretRef: { name: 'root', key: 'tls.key' } },
    secret({ 'tls.key': ONE.key }, 'kubernetes.io/tls'),
    'InvalidSecret',
    noCredentials('kubernetes.io/tls'),
  ],
]

for (const [what, access, object, reason, message] of BLOCKED) {
  t.test(`${what} blocks the Job, and the message names the field`, async (t) => {
    t.strictSame(blockerOf(access, object), { reason, message })
  })
}

t.test('missing credentials are reported first, and two authorities for good', async (t) => {
  const parent = backupWith(bySecret)
  t.match(firstBlocker(ready({ backup: parent, secrets: {} }), settings), {
    message: 'Secret ns/s3 not found',
  })
  const both = ready({ backup: backupWith({ ...bySecret, ...byConfigMap }) })
  t.strictSame(firstBlocker(both, settings), {
    reason: 'InvalidAccess',
    message:
      'at most one of spec.storage.s3.caSecretRef and spec.storage.s3.caConfigMapRef is allowed',
    terminal: true,
    showMessage: true,
  })
})

interface Pod {
  volumes: { name: string }[]
  containers: { volumeMounts: { name: string; mountPath: string; readOnly?: boolean }[] }[]
}

function podOf(children: { kind: string }[]): Pod {
  const job = children.find(({ kind }) => kind === 'Job') as unknown as Job
  return job.spec?.template.spec as unknown as Pod
}

function checkMount(t: Test, { volumes, containers }: Pod, source: object) {
  t.strictSame(
    volumes.filter(({ name }) => name === 'bucket-ca'),
    [{ name: 'bucket-ca', ...source }],
  )
  const [container] = containers
  t.strictSame(
    container?.volumeMounts.filter(({ name }) => name === 'bucket-ca'),
    [{ name: 'bucket-ca', mountPath: '/var/run/vec/bucket-ca', readOnly: true }],
  )
}

/** The named key, and nothing else of the object. */
const ONE_KEY = { items: [{ key, path: key }], optional: true }

t.test('only the named key is mounted, with credentials and with an identity', async (t) => {
  const ca = secret({ [key]: ONE.cert })
  const observed = ready({
    ...{ backup: backupWith(bySecret), secrets: { bucket: bucketKeys, bucketCa: ca } },
  })
  checkMount(t, podOf(sync(observed, context).children), {
    secret: { secretName: 'root', ...ONE_KEY },
  })
  const parent = backupWith(byConfigMap, identityBackup)
  const identity = ready({
    ...{ backup: parent, account: serviceAccount(), children: backupRbac(parent) },
    secrets: { bucketCa: configMap({ [key]: ONE.cert }) },
  })
  checkMount(t, podOf(sync(identity, context).children), {
    configMap: { name: 'root', ...ONE_KEY },
  })
  t.notOk(podOf(sync(ready(), context).children).volumes.some(({ name }) => name === 'bucket-ca'))
})

t.test('a purge Job has it too', async (t) => {
  const status = { status: { phase: 'Completed' as const, startTime: ago(900) } }
  const deleted = { ...status, deletionTimestamp: ago(60) }
  const parent = backupWith(byConfigMap, identityBackup, deleted)
  const { desired } = await callHook('finalize', hookRequest(parent, backupRbac(parent)), {
    serviceAccount: async () => serviceAccount(),
  })
  checkMount(t, podOf(desired.children), { configMap: { name: 'root', ...ONE_KEY } })
})

t.test('the hook reads it where the backup is', async (t) => {
  const parent = backupWith(byConfigMap)
  const asked: string[] = []
  await callHook('sync', hookRequest(parent), {
    configMap: async (namespace, name) => void asked.push(`${namespace}/${name}`),
  })
  t.strictSame(asked, ['ns/root'])
})

t.test('a deleted namespace does not wait for an authority that was deleted first', async (t) => {
  const spec = { deletionPolicy: 'Delete' as const }
  const storage = { s3: { ...backup().spec.storage.s3, ...byConfigMap } }
  const parent = backup({
    ...{ spec: { ...spec, storage }, deletionTimestamp: ago(60) },
    status: { phase: 'Completed', startTime: ago(900) },
  })
  const finalize = (ports: Partial<BackupPorts>) =>
    callHook('finalize', hookRequest(parent), {
      ...{ secret: async () => bucketKeys, isNamespaceTerminating: async () => true },
      purge: async () => Promise.reject(new StorageError('the authority is missing')),
      ...ports,
    })
  const gone = await finalize({})
  t.equal(gone.desired.finalized, true)
  t.strictSame(gone.written, [
    'event CredentialsMissing',
    'warn namespace ns is being deleted and its ConfigMap root was deleted first; the remaining objects in s3://store/daily/b were not deleted',
  ])
  const present = await finalize({ configMap: async () => configMap({ [key]: ONE.cert }) })
  t.equal(present.desired.finalized, undefined)
  const later = await finalize({ isNamespaceTerminating: async () => false })
  t.equal(later.desired.finalized, undefined, 'a user can create it again')
  t.match(later.desired.status.conditions?.[0], { reason: 'PurgeFailed' })
})
