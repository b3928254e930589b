/** The purge of a bucket that is accessed with the identity of a ServiceAccount: by a Job. */
import t from 'tap'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { criticalConditions } from '../../../crds/critical-conditions.ts'
import { decodePlan, PurgePlan } from '../../../crds/contract/job.ts'
import type { AnyObject, Job } from '../../../crds/kubernetes.ts'
import { backupRbac } from '../../../hooks/backup/job.ts'
import type { BackupPorts } from '../../../hooks/backup/observe.ts'
import { ago } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { hookRequest } from '../request.ts'
import { callHook } from './call-hook.ts'
import { identityBackup, OWN_HOLDER, report, serviceAccount } from './objects.ts'
import { leaseOf } from '../data-job/fixtures.ts'

type Report = Parameters<typeof report>[0]

/** Under deletion, after a backup that completed. */
function deletedBackup(purge?: Report, overrides: Parameters<typeof identityBackup>[0] = {}) {
  return identityBackup({
    ...{ deletionTimestamp: ago(60), status: { phase: 'Completed', startTime: ago(900) } },
    ...overrides,
    annotations: {
      ...overrides.annotations,
      [ANNOTATIONS.progress]: JSON.stringify(
        report(purge === undefined ? { run: 1, state: 'Done' } : { verb: 'purge', ...purge }),
      ),
    },
  })
}

const RBAC = backupRbac(identityBackup())
const ALLOWED: Partial<BackupPorts> = { serviceAccount: async () => serviceAccount() }

/** The Job that the hook creates, as it is stored. */
async function purgeJobOf(): Promise<Job> {
  const { desired } = await callHook('finalize', hookRequest(deletedBackup(), RBAC), ALLOWED)
  const job = desired.children.find(({ kind }) => kind === 'Job') as unknown as Job
  return {
    ...job,
    metadata: { ...job.metadata, uid: 'purge-1', creationTimestamp: ago(20) },
  }
}

function finished(job: Job, type: 'Complete' | 'Failed', seconds: number): Job {
  const condition = { type, status: 'True', lastTransitionTime: ago(seconds) }
  return { ...job, status: { conditions: [condition] } }
}

async function finalize(
  parent: ReturnType<typeof deletedBackup>,
  jobs: Job[] = [],
  ports: Partial<BackupPorts> = ALLOWED,
) {
  const children = [...RBAC, ...jobs] as AnyObject[]
  const answer = await callHook('finalize', hookRequest(parent, children), {
    ...{ jobsOf: async () => jobs, backup: async () => parent },
    ...ports,
  })
  const condition = answer.desired.status.conditions?.find(({ type }) => type === 'Purged')
  return { ...answer, condition }
}

t.test('RBAC first, then a Job under the ServiceAccount, which needs no Secret', async (t) => {
  const lease = async () => leaseOf('backup', OWN_HOLDER)
  const first = await callHook('finalize', hookRequest(deletedBackup()), { ...ALLOWED, lease })
  t.strictSame(first.written, [])
  t.strictSame(
    first.desired.children.map(({ kind }) => kind),
    ['Role', 'RoleBinding'],
  )
  const purge: BackupPorts['purge'] = async () => Promise.reject(new Error('called'))
  const second = await callHook('finalize', hookRequest(deletedBackup(), RBAC), {
    ...{ ...ALLOWED, purge, lease },
  })
  t.equal(second.desired.finalized, undefined)
  const job = second.desired.children.find(({ kind }) => kind === 'Job') as unknown as Job
  const pod = job.spec?.template.spec as unknown as {
    serviceAccountName: string
    volumes: { name: string }[]
    containers: { args: string[]; env: { name: string; value: string }[] }[]
  }
  t.equal(pod.serviceAccountName, 'backup')
  t.strictSame(
    pod.volumes.map(({ name }) => name),
    ['tmp'],
  )
  const [container] = pod.containers
  t.strictSame(container?.args, ['jobs/main.js', 'backup', 'purge', 'ns/b'])
  t.equal(container?.env[0]?.name, 'PLAN')
  t.ok(
    container?.env.some(
      ({ name, value }) => name === 'AWS_EC2_METADATA_DISABLED' && value === 'true',
    ),
  )
  const plan = decodePlan(PurgePlan, container?.env[0]?.value ?? '')
  t.match(plan, { namespace: 'ns', name: 'b', uid: 'uid-b', run: 2 })
  t.strictSame(second.written, ['drop vec-a-backup'], 'a purge needs no Lease')
})

t.test('while the Job runs, nothing else is created and it is not stopped', async (t) => {
  const job = await purgeJobOf()
  const starting = await finalize(deletedBackup(), [job])
  t.match(starting.condition, { reason: 'Purging', message: /^Job b-purge-\S+ is deleting/ })
  const running = {
    run: 2,
    job: 'purge-1',
    state: 'Started',
    message: '700 objects remain',
  } as const
  const later = await finalize(deletedBackup(running), [job])
  t.match(later.condition, { reason: 'Purging', message: /daily\/b; 700 objects remain$/ })
  const lease = async () => leaseOf('backup', OWN_HOLDER)
  const leasing = await finalize(deletedBackup(running), [job], { ...ALLOWED, lease })
  for (const { desired, written } of [starting, later, leasing]) {
    t.equal(desired.finalized, undefined)
    t.notOk('pruned' in desired)
    t.strictSame(written, [])
    t.equal(desired.children.filter(({ kind }) => kind === 'Job').length, 1)
  }
})

t.test('a purge Job that the API server refuses, or that gets no pod, is reported', async (t) => {
  const first = await finalize(deletedBackup())
  const created = first.desired.children.find(({ kind }) => kind === 'Job')?.metadata.name ?? ''
  t.match(first.condition, { reason: 'Purging', message: `creating Job ${created}` })
  const status = { phase: 'Completed' as const, startTime: ago(900) }
  const conditions = first.condition === undefined ? [] : [first.condition]
  const later = deletedBackup(undefined, { status: { ...status, conditions } })
  const refused = await finalize(later)
  const message = `Job ${created} could not be created: kubectl describe vecbackup b -n ns shows the cause in an Event, such as a quota or an admission webhook`
  t.match(refused.condition, { reason: 'JobNotStarted', message })
  t.strictSame(refused.written, ['event JobNotStarted'])
  t.ok(refused.desired.children.some(({ kind }) => kind === 'Job'))
  const job = await purgeJobOf()
  const old = { ...job, metadata: { ...job.metadata, creationTimestamp: ago(61) } }
  const stuck = await finalize(deletedBackup(), [old])
  t.match(stuck.condition, { reason: 'JobNotStarted', message: /^Job b-purge-\S+ has no pod/ })
  const reported = stuck.condition === undefined ? [] : [stuck.condition]
  const again = deletedBackup(undefined, { status: { ...status, conditions: reported } })
  t.strictSame((await finalize(again, [old])).written, [])
})

t.test('the resource is finalized once the Job has reported the end of the purge', async (t) => {
  const job = finished(await purgeJobOf(), 'Complete', 1)
  const done = await finalize(deletedBackup({ run: 2, state: 'Done' }), [job])
  t.equal(done.desired.finalized, true)
  t.strictSame(done.written, [])
  const others = '2 objects that this backup did not write were not deleted, such as s3://store/x'
  const message = await finalize(deletedBackup({ run: 2, state: 'Done', message: others }), [job])
  t.equal(message.desired.finalized, true)
  t.strictSame(message.written, ['event OtherObjectsKept', `warn s3://store/daily/b: ${others}`])
  // The report of the backup itself is none of the purge.
  const early = await finalize(deletedBackup(), [job])
  t.equal(early.desired.finalized, undefined)
})

t.test('a report that the cache does not have yet is read live', async (t) => {
  const job = finished(await purgeJobOf(), 'Complete', 1)
  const reported = deletedBackup({ run: 2, state: 'Done' })
  const live = await finalize(deletedBackup(), [job], { ...ALLOWED, backup: async () => reported })
  t.equal(live.desired.finalized, true)
  const gone = await finalize(reported, [job], { ...ALLOWED, backup: async () => undefined })
  t.equal(gone.desired.finalized, true, 'otherwise the one of the cache')
})

t.test('a Job that has become silent is a condition and an Event', async (t) => {
  const job = await purgeJobOf()
  const report = { run: 2, job: 'purge-1', state: 'Started', at: ago(601) } as const
  const silent = await finalize(deletedBackup(report), [job])
  const message = `Job ${job.metadata.name} has not reported for more than 10 minutes: check its pods and their nodes`
  t.match(silent.condition, { reason: 'JobSilent', message })
  t.strictSame(silent.written, ['event JobSilent'])
  matchWhole(t, criticalConditions(silent.desired.status.conditions ?? []), [
    { type: 'Purged', reason: 'JobSilent' },
  ])
})

t.test('a suspended Job that has become silent is stopped, and another one follows', async (t) => {
  const job = await purgeJobOf()
  const report = { run: 2, job: 'purge-1', state: 'Started', at: ago(601) } as const
  const { spec = { template: { spec: { containers: [] } } } } = job
  const suspended = { ...job, spec: { ...spec, suspend: true } }
  const { desired, condition } = await finalize(deletedBackup(report), [suspended])
  const message = `Job ${job.metadata.name} is suspended; recreating it`
  t.match(condition, { reason: 'JobNotStarted', message })
  t.strictSame(
    desired.deleteJobs?.map(({ uid }) => uid),
    ['purge-1'],
  )
})

t.test('a Job that failed is reported and repeated after five minutes', async (t) => {
  const job = await purgeJobOf()
  const failed = {
    run: 2,
    job: 'purge-1',
    state: 'Failed',
    message: 'DELETE answered 403',
  } as const
  const early = await finalize(deletedBackup(failed), [finished(job, 'Failed', 60)])
  t.match(early.condition, {
    reason: 'PurgeFailed',
    message:
      's3://store/daily/b: DELETE answered 403 (set the annotation vec-operator.dev/retain-objects: "true" to retain the objects)',
  })
  t.equal(early.desired.resyncAfterSeconds, 240)
  t.strictSame(early.written, ['event PurgeFailed'])
  const late = await finalize(deletedBackup(failed), [finished(job, 'Failed', 301)])
  const created = late.desired.children.filter(({ kind }) => kind === 'Job')
  matchWhole(t, created, [{ metadata: { name: /-3$/ } }], 'the next one replaces it')
  matchWhole(t, late.desired.pruned, [{ kind: 'Job', name: job.metadata.name }])
  const ahead = await finalize(deletedBackup(failed), [finished(job, 'Failed', -86_400)])
  matchWhole(
    t,
    ahead.desired.children.filter(({ kind }) => kind === 'Job'),
    [{ metadata: { name: /-3$/ } }],
    'not once a clock that was ahead is there',
  )
  const silent = await finalize(deletedBackup(), [finished(job, 'Failed', 60)])
  t.match(silent.condition, { reason: 'PurgeFailed', message: /ended without a report/ })
})

t.test('a restore that reads the backup is waited for', async (t) => {
  const job = finished(await purgeJobOf(), 'Failed', 10)
  const message = 'waiting for VecRestore a/b, which recorded in the bucket'
  const found = await finalize(deletedBackup({ run: 2, state: 'Refused', message }), [job])
  t.match(found.condition, { reason: 'WaitingForRestore', message })
  t.equal(found.desired.resyncAfterSeconds, 20)
})

t.test('a Job that does not start is recreated', async (t) => {
  const job = await purgeJobOf()
  const old = { ...job, metadata: { ...job.metadata, creationTimestamp: ago(601) } }
  const found = await finalize(deletedBackup(), [old])
  t.strictSame(found.written, [`stop ${job.metadata.name}`, 'event JobNotStarted'])
  t.match(found.condition, { message: /has not reported for 600 s; recreating it/ })
})

t.test('a Job with a running pod continues if a user removes its report', async (t) => {
  const job = await purgeJobOf()
  const metadata = { ...job.metadata, creationTimestamp: ago(900) }
  const parent = deletedBackup()
  delete parent.metadata.annotations?.[ANNOTATIONS.progress]
  const running = await finalize(parent, [{ ...job, metadata, status: { active: 1, ready: 1 } }])
  t.strictSame(running.written, [])
  const stuck = await finalize(parent, [{ ...job, metadata, status: { active: 1, ready: 0 } }])
  t.strictSame(stuck.written, [`stop ${job.metadata.name}`, 'event JobNotStarted'])
})

t.test('a ServiceAccount that no longer allows data Jobs stops the purge', async (t) => {
  const ports = { serviceAccount: async () => serviceAccount({}) }
  const found = await finalize(deletedBackup(), [await purgeJobOf()], ports)
  t.match(found.condition, { reason: 'PurgeFailed', message: /does not allow data Jobs/ })
  matchWhole(t, found.written, [/^stop b-purge/, 'event PurgeFailed'])
  t.equal(found.desired.finalized, undefined)
})

t.test('without the ServiceAccount the objects remain, with a warning', async (t) => {
  const found = await finalize(deletedBackup(), [], { serviceAccount: async () => undefined })
  t.equal(found.desired.finalized, true)
  matchWhole(t, found.written, ['event CredentialsMissing', /ServiceAccount ns\/backup not found/])
})

t.test('in a namespace that is being deleted no Job can start: the objects remain', async (t) => {
  const parent = deletedBackup(undefined, { spec: { deletionPolicy: 'Delete' } })
  const ports = { ...ALLOWED, isNamespaceTerminating: async () => true }
  const found = await finalize(parent, [], ports)
  t.equal(found.desired.finalized, true)
  matchWhole(t, found.written, [
    'event ObjectsRetained',
    /no Job of ServiceAccount backup can be created/,
  ])
})

t.test('a user who retains the objects stops a purge that runs', async (t) => {
  const job = await purgeJobOf()
  const annotations = { [ANNOTATIONS.retainObjects]: 'true' }
  const found = await finalize(deletedBackup(undefined, { annotations }), [job])
  t.strictSame(found.written, [`stop ${job.metadata.name}`])
  const after = await finalize(deletedBackup(undefined, { annotations }), [])
  t.equal(after.desired.finalized, true)
})

t.test(
  'a purge that runs is stopped once the deletion of the namespace retains the objects',
  async (t) => {
    const job = await purgeJobOf()
    const ports = { ...ALLOWED, isNamespaceTerminating: async () => true }
    const found = await finalize(deletedBackup(), [job], ports)
    t.strictSame(found.written, [`stop ${job.metadata.name}`])
    t.equal(
      found.desired.finalized,
      undefined,
      'it may still delete objects that are to be retained',
    )
    const after = await finalize(deletedBackup(), [], ports)
    t.equal(after.desired.finalized, true)
    matchWhole(t, after.written, ['event ObjectsRetained', /the objects in .* are retained$/])
  },
)

t.test('RBAC objects that are deleted during a purge are created again', async (t) => {
  const job = await purgeJobOf()
  const [role, binding] = RBAC
  const parent = deletedBackup({ run: 2, job: 'purge-1', state: 'Started' })
  const createdWith = async (ports: Partial<BackupPorts>) => {
    const request = hookRequest(parent, [role, job] as AnyObject[])
    const jobsOf = async () => [job]
    const { desired } = await callHook('finalize', request, {
      ...{ jobsOf, backup: async () => parent },
      ...ports,
    })
    return desired.children.slice(2)
  }
  t.strictSame(await createdWith(ALLOWED), [binding])
  const terminating = { ...ALLOWED, isNamespaceTerminating: async () => true }
  t.strictSame(await createdWith(terminating), [], 'nothing can be created there')
})
