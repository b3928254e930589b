/** The Job of a VecRestore: which plan it has, and which Secrets it is given. */
import t from 'tap'
import type { VecRestore } from '../../../crds/restore.ts'
import { restoreJob, desiredPlan } from '../../../hooks/restore/job.ts'
import { firstBlocker } from '../../../hooks/restore/sync.ts'
import { secret, settings, statefulSet } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { bucketKeys, keySecret, runningCluster } from '../backup/objects.ts'
import { completedBackup, directRestore, ready, restore } from './objects.ts'

const secured = runningCluster({
  spec: {
    apiKey: { autoGenerate: true, jwtRbac: false },
    tls: { enabled: true, secretRef: { name: 'cert' } },
  },
})
const secrets = { bucket: bucketKeys, engine: keySecret(), tls: secret({ 'ca.crt': 'a' }) }

interface Pod {
  volumes: { name: string; secret?: { secretName: string; optional?: boolean } }[]
  containers: { args: string[]; resources: object }[]
}

function podFor(parent: VecRestore, cluster = secured): Pod {
  const run = desiredPlan(parent, cluster, { backup: completedBackup() })
  if (run === undefined) throw new Error('there is no plan')
  const observed = ready({ restore: parent, cluster, secrets })
  const job = restoreJob(observed, cluster, { ...run, run: 1 }, settings)
  return (job['spec'] as { template: { spec: Pod } }).template.spec
}

const mounted = ({ volumes }: Pod) => volumes.flatMap(({ name, secret: of }) => (of ? [[name, of]] : [])) // prettier-ignore

t.test('Secrets in the namespace of the restore are mounted directly', async (t) => {
  t.strictSame(mounted(podFor(restore())), [
    ['bucket', { secretName: 's3', optional: true }],
    ['engine', { secretName: 'vec-a-apikey', optional: true }],
    ['tls', { secretName: 'cert', optional: true }],
  ])
})

t.test('Secrets of other namespaces are mounted from copies, which pods wait for', async (t) => {
  const far = restore({ spec: { targetClusterRef: { name: 'a', namespace: 'far' } } })
  const [bucket, engine, tls, ...more] = mounted(podFor(far))
  t.strictSame(bucket, ['bucket', { secretName: 's3', optional: true }])
  matchWhole(t, engine, ['engine', { secretName: 'r-restore-b2c51-1-engine' }])
  matchWhole(t, tls, ['tls', { secretName: 'r-restore-b2c51-1-tls' }])
  t.strictSame(more, [])
})

t.test('the Job runs the restore with the resources of data Jobs', async (t) => {
  matchWhole(t, podFor(restore()).containers, [
    { args: ['jobs/main.js', 'restore', 'run', 'ns/r'], resources: settings.jobResources.data },
  ])
})

t.test('a plan has the existing nodes and the current state of the backup', async (t) => {
  const hashes = [
    desiredPlan(restore(), secured, { backup: completedBackup() }),
    desiredPlan(restore(), secured, { backup: completedBackup(), statefulSet: statefulSet(3) }),
    desiredPlan(restore(), secured, { backup: completedBackup({ name: 'other' }) }),
    desiredPlan(directRestore(), secured, {}),
  ].map((plan) => plan?.hash)
  t.equal(new Set(hashes).size, hashes.length)
  t.equal(desiredPlan(restore(), secured, {}), undefined, 'the backup is not known')
})

t.test('the authority of a bucket is mounted from its own namespace, or from a copy', async (t) => {
  const key = 'ca.crt'
  const s3 = { ...completedBackup().spec.storage.s3, caConfigMapRef: { name: 'root', key } }
  const backup = completedBackup({ spec: { storage: { s3 } } })
  const volumeFor = (parent: VecRestore) => {
    const plan = desiredPlan(parent, secured, { backup })
    if (plan === undefined) throw new Error('there is no plan')
    const observed = ready({ restore: parent, backup, cluster: secured, secrets })
    const job = restoreJob(observed, secured, { ...plan, run: 1 }, settings)
    const { volumes } = (job['spec'] as { template: { spec: Pod } }).template.spec
    return volumes.filter(({ name }) => name === 'bucket-ca')
  }
  t.strictSame(volumeFor(restore()), [
    {
      name: 'bucket-ca',
      configMap: { name: 'root', items: [{ key, path: key }], optional: true },
    },
  ])
  const far = restore({ spec: { backupRef: { name: 'b', namespace: 'far' } } })
  const [copy, ...more] = volumeFor(far)
  t.match(copy?.secret?.secretName, /^r-restore-[0-9a-f]{5}-1-bucket-ca$/)
  t.strictSame(more, [])
})

t.test('a missing authority is named as a field of the restore, or of its backup', async (t) => {
  const named = { caSecretRef: { name: 'root', key: 'ca.crt' } }
  const direct = directRestore()
  const { s3 } = direct.spec.source ?? {}
  if (s3 === undefined) throw new Error('there is no source')
  const source = { s3: { ...s3, ...named } }
  const own = ready({ restore: { ...direct, spec: { ...direct.spec, source } }, secrets })
  t.strictSame(firstBlocker(own, settings), {
    reason: 'SecretNotFound',
    message: 'spec.source.s3.caSecretRef: Secret ns/root not found',
  })
  const ofBackup = { s3: { ...completedBackup().spec.storage.s3, ...named } }
  const backup = completedBackup({ spec: { storage: ofBackup } })
  t.strictSame(firstBlocker(ready({ restore: restore(), backup, secrets }), settings), {
    reason: 'SecretNotFound',
    message: 'backup ns/b: spec.storage.s3.caSecretRef: Secret ns/root not found',
  })
})
