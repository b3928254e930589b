/** Which credentials reach the Job of a VecRestore as copies, and what they are created from. */
import t from 'tap'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { copiedCredentials, copySources, type Observed } from '../../../hooks/restore/observe.ts'
import { secret, settings } from '../../builders.ts'
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

t.test('what is in another namespace can only be copied', async (t) => {
  t.strictSame(copiedCredentials({ restore: restore() }), [])
  t.strictSame(copiedCredentials({ restore: directRestore() }), [])
  t.strictSame(copiedCredentials({ restore: farBackup }), ['bucket'])
  t.strictSame(copiedCredentials({ restore: farTarget }), ['engine', 'tls'])
})

t.test('copies are made of what is foreign, and of nothing else', async (t) => {
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
})

t.test('of what is gone nothing is copied', async (t) => {
  t.strictSame(originals({ restore: farBackup, secrets: {} }), [])
  t.strictSame(originals({ restore: farTarget, cluster: undefined as never }), [])
  t.strictSame(originals({ restore: farBackup, backup: undefined as never }), [])
})
