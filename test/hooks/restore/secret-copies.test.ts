/** Which credentials reach the Job of a VecRestore as copies, and what they are created from. */
import t from 'tap'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { copiedCredentials, copySources, type Observed } from '../../../hooks/restore/observe.ts'
import { configMap, secret, settings } from '../../builders.ts'
import { ONE } from '../../metacontroller/certificates.ts'
import { bucketKeys, keySecret, runningCluster } from '../backup/objects.ts'
import { completedBackup, directRestore, ready, restore } from './objects.ts'

const farBackup = restore({ spec: { backupRef: { name: 'b', namespace: 'far' } } })
const farTarget = restore({ spec: { targetClusterRef: { name: 'a', namespace: 'far' } } })
const allowing = completedBackup({
  namespace: 'far',
  annotations: { [ANNOTATIONS.allowedNamespaces]: 'ns' },
})
const secured = runningCluster({
  spec: {
    apiKey: { autoGenerate: true, jwtRbac: false },
    tls: { enabled: true, secretRef: { name: 'cert' } },
  },
})
const secrets = { bucket: bucketKeys, engine: keySecret(), tls: secret({ 'ca.crt': 'a' }) }

function originals(parts: Partial<Observed>) {
  const observed = ready({ secrets, cluster: secured, backup: allowing, ...parts })
  return copySources(observed, settings)
}

const BUCKET = {
  credential: 'bucket',
  keys: [
    ...['CLOUD_ACCESS_KEY_ID', 'AWS_ACCESS_KEY_ID'],
    ...['CLOUD_SECRET_ACCESS_KEY', 'AWS_SECRET_ACCESS_KEY'],
    ...['CLOUD_SESSION_TOKEN', 'AWS_SESSION_TOKEN'],
    'ca.crt',
  ],
  secret: bucketKeys,
}

t.test('Secrets of another namespace are copied', async (t) => {
  t.strictSame(copiedCredentials({ restore: restore() }), [])
  t.strictSame(copiedCredentials({ restore: directRestore() }), [])
  t.strictSame(copiedCredentials({ restore: farBackup }), ['bucket', 'bucket-ca'])
  t.strictSame(copiedCredentials({ restore: farTarget }), ['engine', 'tls'])
})

t.test('only Secrets of other namespaces are copied', async (t) => {
  t.strictSame(originals({ restore: restore(), backup: completedBackup() }), [])
  t.strictSame(originals({ restore: farBackup }), [BUCKET])
  const ofCluster = [
    { credential: 'engine', keys: ['api-key'], secret: secrets.engine },
    { credential: 'tls', keys: ['ca.crt'], secret: secrets.tls },
  ]
  t.strictSame(originals({ restore: farTarget, backup: completedBackup() }), ofCluster)
  const named = directRestore()
  const spec = { ...named.spec, targetClusterRef: { name: 'a', namespace: 'far' } }
  const without = { restore: { ...named, spec }, backup: undefined as never }
  t.strictSame(originals(without), ofCluster, 'also where no backup is named')
})

t.test('nothing is copied for a recreated backup, which may allow less', async (t) => {
  t.strictSame(originals({ restore: farBackup, backup: completedBackup({ namespace: 'far' }) }), [])
  t.strictSame(originals({ restore: farBackup, backup: allowing }), [BUCKET])
})

t.test('nothing is copied of missing Secrets', async (t) => {
  t.strictSame(originals({ restore: farBackup, secrets: {} }), [])
  t.strictSame(originals({ restore: farTarget, cluster: undefined as never }), [])
  t.strictSame(originals({ restore: farBackup, backup: undefined as never }), [])
})

t.test('the named key of a certificate authority is copied, and only a certificate', async (t) => {
  const withCa = (name: 'caSecretRef' | 'caConfigMapRef', key = 'root.pem') => {
    const storage = { s3: { ...allowing.spec.storage.s3, [name]: { name: 'root', key } } }
    return { ...allowing, spec: { ...allowing.spec, storage } }
  }
  const copied = (backup: typeof allowing, bucketCa: Observed['secrets']['bucketCa']) =>
    originals({
      ...{ restore: farBackup, backup },
      secrets: { ...secrets, ...(bucketCa !== undefined && { bucketCa }) },
    }).filter(({ credential }) => credential === 'bucket-ca')
  const { data } = secret({ 'root.pem': ONE.cert })
  const copy = [{ credential: 'bucket-ca', keys: ['root.pem'], secret: { data } }]
  const files = { 'root.pem': ONE.cert, other: 'x' }
  t.strictSame(copied(withCa('caSecretRef'), secret(files)), copy)
  t.strictSame(copied(withCa('caConfigMapRef'), configMap(files)), copy)
  t.strictSame(copied(withCa('caSecretRef', 'other'), secret(files)), [])
  t.strictSame(copied(withCa('caSecretRef'), secret(files, 'helm.sh/release.v1')), [])
  t.strictSame(copied(withCa('caSecretRef'), undefined), [])
  t.strictSame(copied(allowing, secret(files)), [], 'the bucket names none')
  const denied = {
    ...withCa('caSecretRef'),
    metadata: completedBackup({ namespace: 'far' }).metadata,
  }
  t.strictSame(copied(denied, secret(files)), [])
})
