/** The Job of a VecRestore: which plan it has, and which Secrets it is given. */
import t from 'tap'
import type { VecRestore } from '../../../crds/restore.ts'
import { restoreJob, desiredPlan } from '../../../hooks/restore/job.ts'
import { secret, settings, statefulSet } from '../../builders.ts'
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

t.test('what stands next to the restore is mounted where it stands', async (t) => {
  t.strictSame(mounted(podFor(restore())), [
    ['bucket', { secretName: 's3', optional: true }],
    ['engine', { secretName: 'vec-a-apikey', optional: true }],
    ['tls', { secretName: 'cert', optional: true }],
  ])
})

t.test('what stands elsewhere is mounted from its copy, which the pods wait for', async (t) => {
  const far = restore({ spec: { targetClusterRef: { name: 'a', namespace: 'far' } } })
  const [bucket, engine, tls, ...more] = mounted(podFor(far))
  t.strictSame(bucket, ['bucket', { secretName: 's3', optional: true }])
  t.match(engine, ['engine', { secretName: 'r-restore-b2c51-1-engine' }])
  t.match(tls, ['tls', { secretName: 'r-restore-b2c51-1-tls' }])
  t.strictSame(more, [])
})

t.test('the Job runs the restore with the means of those that move data', async (t) => {
  t.match(podFor(restore()).containers, [
    { args: ['jobs/main.js', 'restore', 'run', 'ns/r'], resources: settings.jobResources.data },
  ])
})

t.test('a plan is of the nodes there are, and of the backup as it is now', async (t) => {
  const hashes = [
    desiredPlan(restore(), secured, { backup: completedBackup() }),
    desiredPlan(restore(), secured, { backup: completedBackup(), statefulSet: statefulSet(3) }),
    desiredPlan(restore(), secured, { backup: completedBackup({ name: 'other' }) }),
    desiredPlan(directRestore(), secured, {}),
  ].map((plan) => plan?.hash)
  t.equal(new Set(hashes).size, hashes.length)
  t.equal(desiredPlan(restore(), secured, {}), undefined, 'the backup is not known')
})
