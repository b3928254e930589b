/** A VecBackup whose bucket is accessed with the identity of a ServiceAccount. */
import t from 'tap'
import { decodePlan, BackupPlan } from '../../../crds/contract/job.ts'
import type { AnyObject, Job } from '../../../crds/kubernetes.ts'
import { firstBlocker, sync } from '../../../hooks/backup/sync.ts'
import { firstBlocker as firstRestoreBlocker } from '../../../hooks/restore/sync.ts'
import { restoreJob, restoreRbac, desiredPlan } from '../../../hooks/restore/job.ts'
import { backupRbac } from '../../../hooks/backup/job.ts'
import { ago, context, settings } from '../../builders.ts'
import { hookRequest } from '../request.ts'
import { ready as readyRestore, restore } from '../restore/objects.ts'
import { callHook } from './call-hook.ts'
import {
  backup,
  dataJob,
  identityBackup,
  ready,
  report,
  runningCluster,
  serviceAccount,
} from './objects.ts'
import { fakePorts } from './ports.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { matchWhole } from '../../match-whole.ts'

interface Pod {
  serviceAccountName: string
  volumes: { name: string }[]
  containers: { env: { name: string; value?: string }[] }[]
}

/** Ready to start, with this ServiceAccount. */
function readyWith(account: AnyObject | undefined) {
  const parent = identityBackup()
  return ready({
    ...{ backup: parent, secrets: {}, children: backupRbac(parent) },
    ...(account !== undefined && { account }),
  })
}

function podOf(children: { kind: string }[]): Pod {
  const job = children.find(({ kind }) => kind === 'Job') as unknown as Job
  return job.spec?.template.spec as unknown as Pod
}

t.test('its Role is bound to that ServiceAccount, and no account is created', async (t) => {
  const rbac = backupRbac(identityBackup())
  t.strictSame(
    rbac.map(({ kind }) => kind),
    ['Role', 'RoleBinding'],
  )
  matchWhole(t, rbac[0], { rules: [{ resourceNames: ['b'], verbs: ['get', 'patch'] }] })
  t.strictSame(rbac[1]?.['subjects'], [{ kind: 'ServiceAccount', name: 'backup', namespace: 'ns' }])
  const [own] = backupRbac(backup())
  t.not(rbac[0].metadata.name, own.metadata.name, 'objects of another account have other names')
})

t.test('the Job runs under it, without a Secret and without the role of the node', async (t) => {
  const env = [
    { name: 'AWS_ACCESS_KEY_ID', value: 'installation' },
    { name: 'HTTPS_PROXY', value: 'http://proxy' },
  ]
  const data = { ...settings.jobPods.data, env }
  const jobPods = { ...settings.jobPods, data }
  const withEnv = { ...context, settings: { ...settings, jobPods } }
  const decision = sync(readyWith(serviceAccount()), withEnv)
  const pod = podOf(decision.children)
  t.equal(pod.serviceAccountName, 'backup')
  t.strictSame(
    pod.volumes.map(({ name }) => name),
    ['tmp'],
  )
  const [container] = pod.containers
  const variables = new Map(container?.env.map(({ name, value }) => [name, value]))
  t.equal(variables.get('AWS_EC2_METADATA_DISABLED'), 'true')
  t.equal(variables.get('HTTPS_PROXY'), 'http://proxy')
  t.notOk(variables.has('AWS_ACCESS_KEY_ID'), 'a key of the installation is no identity')
  const { storage } = decodePlan(BackupPlan, variables.get('PLAN') ?? '')
  t.equal(storage.serviceAccountName, 'backup')
  const own = podOf(sync(ready(), withEnv).children)
  t.ok(own.containers[0]?.env.some(({ name }) => name === 'AWS_ACCESS_KEY_ID'))
  t.notOk(own.containers[0]?.env.some(({ name }) => name === 'AWS_EC2_METADATA_DISABLED'))
})

const ANNOTATE =
  'ServiceAccount ns/backup does not allow data Jobs: set its annotation vec-operator.dev/data-jobs to allow'

for (const [what, account, reason, message] of [
  ['missing', undefined, 'ServiceAccountNotFound', 'ServiceAccount ns/backup not found'],
  ['without the annotation', serviceAccount({}), 'ServiceAccountNotAllowed', ANNOTATE],
  [
    ...['with another value', serviceAccount({ [ANNOTATIONS.dataJobs]: 'true' })],
    ...['ServiceAccountNotAllowed', ANNOTATE],
  ],
] as [string, AnyObject | undefined, string, string][]) {
  t.test(`a ServiceAccount ${what} blocks the Job`, async (t) => {
    const decision = sync(readyWith(account), context)
    matchWhole(t, decision.status.conditions, [
      { type: 'Complete', status: 'False', reason, message },
    ])
    t.notOk(decision.children.some(({ kind }) => kind === 'Job'))
  })
}

t.test('a resource that an older CRD admitted with both or neither is rejected', async (t) => {
  const { s3 } = backup().spec.storage
  const { credentialsSecretRef: _, ...neither } = s3
  for (const storage of [{ s3: { ...s3, serviceAccountName: 'backup' } }, { s3: neither }]) {
    const parent = backup({ spec: { storage } })
    t.match(firstBlocker(ready({ backup: parent, account: serviceAccount() }), settings), {
      terminal: true,
      message:
        'exactly one of spec.storage.s3.credentialsSecretRef and spec.storage.s3.serviceAccountName is required',
    })
  }
})

t.test('withdrawing the annotation stops a Job that has reported', async (t) => {
  const job = dataJob()
  const annotations = {
    [ANNOTATIONS.progress]: JSON.stringify(report({ job: job.metadata.uid ?? '' })),
  }
  const parent = identityBackup({ annotations, status: { startTime: ago(60) } })
  const request = hookRequest(parent, [...backupRbac(parent), job])
  const cluster = async () => runningCluster()
  const going = await callHook('sync', request, {
    ...{ cluster, serviceAccount: async () => serviceAccount() },
  })
  t.strictSame(
    going.written.filter((line) => line.startsWith('stop')),
    [],
  )
  const stopped = await callHook('sync', request, {
    ...{ cluster, serviceAccount: async () => serviceAccount({}) },
  })
  t.strictSame(
    stopped.written.filter((line) => line.startsWith('stop')),
    [`stop ${job.metadata.name}`],
  )
  matchWhole(t, stopped.desired.status.conditions, [{ reason: 'ServiceAccountNotAllowed' }])
  const { ports } = fakePorts()
  t.equal(await ports.serviceAccount('ns', 'backup'), undefined)
  const gone = await callHook('sync', request, { cluster })
  t.strictSame(
    gone.written.filter((line) => line.startsWith('stop')),
    [],
    'its token ends by itself',
  )
})

t.test('a restore of such a backup runs under the same ServiceAccount', async (t) => {
  const source = identityBackup({ status: { phase: 'Completed' } })
  const observed = readyRestore({ backup: source, account: serviceAccount() })
  t.equal(firstRestoreBlocker(observed, settings), undefined)
  const { account: _, ...without } = observed
  t.match(firstRestoreBlocker(without, settings), { reason: 'ServiceAccountNotFound' })
  const cluster = runningCluster()
  const plan = desiredPlan(observed.restore, cluster, { backup: source })
  if (plan === undefined) throw new Error('no plan')
  const job = restoreJob(observed, cluster, { ...plan, run: 1 }, settings)
  const pod = podOf([job])
  t.equal(pod.serviceAccountName, 'backup')
  t.notOk(pod.volumes.some(({ name }) => name === 'bucket'))
  t.strictSame(restoreRbac(observed.restore, 'backup')[1]?.['subjects'], [
    { kind: 'ServiceAccount', name: 'backup', namespace: 'ns' },
  ])
})

t.test('a restore in another namespace cannot use the ServiceAccount of a backup', async (t) => {
  const annotations = { [ANNOTATIONS.allowedNamespaces]: 'ns' }
  const source = identityBackup({ annotations, status: { phase: 'Completed' } })
  const far = { ...source, metadata: { ...source.metadata, namespace: 'archive' } }
  const spec = { backupRef: { name: 'b', namespace: 'archive' } }
  const observed = readyRestore({ restore: restore({ spec }), backup: far })
  t.match(firstRestoreBlocker(observed, settings), {
    terminal: true,
    message: /^backup archive\/b uses the ServiceAccount backup of its namespace/,
  })
  // One of the same name in the namespace of the restore says nothing about that of the backup.
  for (const account of [serviceAccount({}), serviceAccount()]) {
    t.match(firstRestoreBlocker({ ...observed, account }, settings), {
      reason: 'ServiceAccountOfOtherNamespace',
    })
  }
})
