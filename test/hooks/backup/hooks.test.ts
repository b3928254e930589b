/** The VecBackup hooks: requests, answers and writes. */
import t from 'tap'
import { desiredPlan } from '../../../hooks/backup/job.ts'
import { deletionActionFor } from '../../../hooks/backup/deletion-policy.ts'
import { backupHooks } from '../../../hooks/backup/index.ts'
import { timestamp } from '../../../hooks/conditions.ts'
import type { BackupPorts } from '../../../hooks/backup/observe.ts'
import type { BackupStatus, VecBackup } from '../../../crds/backup.ts'
import { StorageError } from '../../../crds/contract/errors.ts'
import { BackupPlan, decodePlan } from '../../../crds/contract/job.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import type { Desired } from '../../../hooks/protocol.ts'
import { ago, context, secret, statefulSet } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import {
  OWN_HOLDER,
  backup,
  bucketKeys,
  keySecret,
  result,
  runningCluster,
  dataJob,
} from './objects.ts'
import { leaseOf } from '../data-job/fixtures.ts'
import { fakePorts } from './ports.ts'
import { hookRequest } from '../request.ts'
import { rbac, callHook, withProgress } from './call-hook.ts'
import { jobPod } from '../decisions.ts'

/** Nothing is missing. */
const whole: Partial<BackupPorts> = {
  cluster: async () => runningCluster(),
  secret: async () => bucketKeys,
}

t.test('customize shows the VecCluster, by name and namespace', async (t) => {
  const hooks = backupHooks(fakePorts().ports)
  const rule = { apiVersion: 'vec-operator.dev/v1alpha1', resource: 'vecclusters', names: ['a'] }
  t.strictSame(hooks.customize(backup()), [{ ...rule, namespace: 'ns' }])
  const far = backup({ spec: { clusterRef: { name: 'a', namespace: 'far' } } })
  t.strictSame(hooks.customize(far), [{ ...rule, namespace: 'far' }])
  t.strictSame(hooks.customize(backup({ status: { phase: 'Completed' } })), [], 'it has ended')
})

t.test('Leases, live Jobs and the live cluster are read only when a Job may be due', async (t) => {
  const read: string[] = []
  const noted =
    <T>(name: string, value: T) =>
    async () => {
      read.push(name)
      return value
    }
  const answers = {
    lease: noted('lease', undefined),
    jobsOf: noted('jobsOf', []),
    cluster: noted('cluster', runningCluster()),
  }
  await callHook('sync', hookRequest(backup({ status: { phase: 'Completed' } })), answers)
  const jobs = [dataJob()]
  await callHook('sync', hookRequest(withProgress({}), [...rbac, ...jobs]), answers)
  await callHook('sync', hookRequest(withProgress({ state: 'Done' }), rbac), answers)
  t.strictSame(read, [])
  await callHook('sync', hookRequest(backup(), rbac), answers)
  t.strictSame(read, ['cluster', 'lease', 'lease', 'jobsOf'])
  await callHook('sync', hookRequest(backup(), rbac), {
    ...answers,
    cluster: async () => undefined,
  })
  t.equal(read.length, 4, 'no cluster, no Leases')
})

t.test('both Leases of the cluster are read', async (t) => {
  const read: string[] = []
  const lease: BackupPorts['lease'] = async (namespace, name) => {
    read.push(`${namespace}/${name}`)
    return undefined
  }
  const far = backup({ namespace: 'far', spec: { clusterRef: { name: 'a', namespace: 'ns' } } })
  await callHook('sync', hookRequest(far), { ...whole, lease })
  t.strictSame(read, ['ns/vec-a-write', 'ns/vec-a-backup'])
})

t.test('the backup is read live when its Job ended without a report, or no Job runs', async (t) => {
  const reads: string[] = []
  const answers: Partial<BackupPorts> = {
    ...whole,
    backup: async (namespace, name) => void reads.push(`${namespace}/${name}`),
  }
  const crashed = dataJob({ ended: ['Failed', 60] })
  const failed = backup({ status: { phase: 'Failed' } })
  await callHook('sync', hookRequest(failed, [...rbac, crashed]), answers)
  await callHook('sync', hookRequest(backup(), [...rbac, dataJob()]), answers)
  t.strictSame(reads, [])
  await callHook('sync', hookRequest(backup(), rbac), answers)
  t.strictSame(reads, ['ns/b'])
  await callHook('sync', hookRequest(backup(), [...rbac, crashed]), answers)
  t.strictSame(reads, ['ns/b', 'ns/b'])
})

t.test('a backup that ended after the state of the cache stays ended', async (t) => {
  const live = backup({ status: { phase: 'Failed', error: 'it was refused' } })
  const { desired } = await callHook('sync', hookRequest(backup(), rbac), {
    ...whole,
    backup: async () => live,
  })
  t.strictSame(desired.status, live.status)
  const namesake = { ...live, metadata: { ...live.metadata, uid: 'another' } }
  const other = await callHook('sync', hookRequest(backup(), rbac), {
    ...whole,
    backup: async () => namesake,
  })
  t.match(other.desired.status, { phase: 'Pending' }, 'not with the report of another backup')
})

t.test('the existing nodes are backed up, not those of the spec', async (t) => {
  const lease = async (_: string, name: string) =>
    name === 'vec-a-backup' ? leaseOf('backup', OWN_HOLDER) : undefined
  const answers: Partial<BackupPorts> = {
    ...whole,
    lease,
    cluster: async () => runningCluster({ spec: { replicas: 5 } }),
    statefulSet: async (namespace, name) =>
      namespace === 'ns' && name === 'vec-a' ? statefulSet(3) : undefined,
  }
  const replicas = async (parts: Partial<BackupPorts>) => {
    const { desired } = await callHook('sync', hookRequest(backup(), rbac), parts)
    const { env } = jobPod(desired).container
    const plan = env.find(({ name }) => name === 'PLAN')?.value ?? ''
    return decodePlan(BackupPlan, plan).cluster.replicas
  }
  t.equal(await replicas(answers), 3)
  t.equal(await replicas({ ...answers, statefulSet: async () => undefined }), 5)
})

t.test('a Job without a report gets its Secret copies like any other', async (t) => {
  const apiKey = { autoGenerate: true, jwtRbac: false }
  const keyed = runningCluster({ spec: { apiKey } })
  const spec = { clusterRef: { name: 'a', namespace: 'ns' } }
  const far = backup({ namespace: 'far', spec })
  const job = dataJob({ namespace: 'far', plan: desiredPlan(far, keyed, undefined).hash })
  const answers: Partial<BackupPorts> = {
    cluster: async () => keyed,
    secret: async () => keySecret(),
    lease: async () => leaseOf('backup', 'VecBackup/far/b/uid-b'),
  }
  const { written } = await callHook('sync', hookRequest(far, [job]), answers)
  t.strictSame(written, [`copy ${job.metadata.name}-engine`])
  const there = await callHook('sync', hookRequest(far, [job]), {
    ...answers,
    secretCopy: async () => keySecret(),
  })
  t.strictSame(there.written, [], 'one that is equal to its source is not written again')
})

t.test('a backup acquires its Lease, and creates its Job once the Lease is observed', async (t) => {
  const first = await callHook('sync', hookRequest(backup(), rbac), whole)
  t.strictSame(first.written, ['take vec-a-backup'])
  t.notOk(first.desired.children.some(({ kind }) => kind === 'Job'))
  const lease: BackupPorts['lease'] = async (_, name) =>
    name === 'vec-a-backup' ? leaseOf('backup', OWN_HOLDER) : undefined
  const second = await callHook('sync', hookRequest(backup(), rbac), { ...whole, lease })
  t.strictSame(second.written, ['take vec-a-backup'], 'the hold is renewed')
  t.ok(second.desired.children.some(({ kind }) => kind === 'Job'))
})

t.test('a backup creates no Job if its Lease changes before it is renewed', async (t) => {
  const lease: BackupPorts['lease'] = async (_, name) =>
    name === 'vec-a-backup' ? leaseOf('backup', OWN_HOLDER) : undefined
  const changed = { ...whole, lease, writeLease: async () => false }
  await t.rejects(callHook('sync', hookRequest(backup(), rbac), changed), {
    seconds: 2,
    message: 'Lease ns/vec-a-backup changed while a Job was about to start; trying again',
  })
})

t.test('the Leases are those of the live cluster, not of the cached one', async (t) => {
  const gone = { ...whole, cluster: async () => undefined }
  const { desired } = await callHook('sync', hookRequest(backup(), rbac, [runningCluster()]), gone)
  t.equal(desired.status.conditions?.[0]?.reason, 'ClusterNotFound')
})

t.test(
  'the key of the cluster is read in its namespace, the credentials in that of the backup',
  async (t) => {
    const read: string[] = []
    const far = backup({ spec: { clusterRef: { name: 'a', namespace: 'ns' } }, namespace: 'far' })
    const apiKey = { autoGenerate: true, jwtRbac: false }
    const tls = { enabled: true, secretRef: { name: 'cert' } }
    const answers: Partial<BackupPorts> = {
      cluster: async () => runningCluster({ spec: { apiKey, tls } }),
      secret: async (namespace, name) => {
        read.push(`${namespace}/${name}`)
        return { ...bucketKeys, ...keySecret(), data: { ...bucketKeys.data, ...keySecret().data } }
      },
    }
    await callHook('sync', hookRequest(far), answers)
    t.strictSame(read, ['far/s3', 'ns/vec-a-apikey', 'ns/cert'])
  },
)

t.test('copies are read and written while a Job runs, and deleted when it has ended', async (t) => {
  const apiKey = { autoGenerate: true, jwtRbac: false }
  const spec = { clusterRef: { name: 'a', namespace: 'ns' } }
  const jobs = [dataJob({ namespace: 'far' })]
  const { name } = dataJob().metadata
  const clusters = [runningCluster({ spec: { apiKey } })]
  const running = hookRequest(withProgress({}, { namespace: 'far', spec }), jobs, clusters)
  const answers = { secret: async () => keySecret() }
  t.strictSame((await callHook('sync', running, answers)).written, [
    `copy ${name}-engine`,
    'event BackupStarted',
  ])
  const same = { ...answers, secretCopy: async () => secret({ 'api-key': 'k' }) }
  t.strictSame((await callHook('sync', running, same)).written, ['event BackupStarted'])
  const ended = hookRequest(
    withProgress({ state: 'Done' }, { namespace: 'far', spec }),
    jobs,
    clusters,
  )
  t.strictSame((await callHook('sync', ended, answers)).written, [
    `delete copy ${name}-engine`,
    `delete copy ${name}-tls`,
    'event BackupCompleted',
  ])
})

t.test(
  'after 30 s without a final report the resource is read live before the Job counts as crashed',
  async (t) => {
    const jobs = [dataJob({ ended: ['Complete', 31] })]
    const asked = hookRequest(withProgress({}), [...rbac, ...jobs])
    const live = withProgress({ state: 'Done', backup: result({ completed: 2 }) })
    const answer = await callHook('sync', asked, { backup: async () => live })
    t.equal(answer.desired.status.phase, 'Completed')
    const crashed = await callHook('sync', asked)
    t.match(crashed.desired.status, { phase: 'Failed', error: 'Job crashed 1 times' })
  },
)

t.test('a progress annotation of another uid is ignored', async (t) => {
  const asked = hookRequest(withProgress({ uid: 'namesake', state: 'Started' }), rbac)
  t.equal((await callHook('sync', asked, whole)).desired.status.phase, 'Pending')
})

t.test('a clock that is ahead does not delete a backup', async (t) => {
  const status = { phase: 'Completed', expiresAt: ago(1) } as const
  const at = (seconds: number) => ({ apiTime: async () => new Date(ago(seconds)) })
  const { written, desired } = await callHook('sync', hookRequest(backup({ status })), at(2))
  t.strictSame(written, ['event ClockAhead'])
  t.strictSame(desired.status, status)
  t.equal(desired.resyncAfterSeconds, 300)
  const due = await callHook('sync', hookRequest(backup({ status })), at(1))
  t.match(due.desired.status.conditions?.at(-1), { type: 'Expired', status: 'True' })
  let asked = 0
  const young = backup({ status: { phase: 'Completed', expiresAt: ago(-1) } })
  await callHook('sync', hookRequest(young), {
    apiTime: async () => {
      asked += 1
      return undefined
    },
  })
  t.equal(asked, 0, 'it is read only before a deletion')
})

t.test(
  'a backup that a clock ahead has called expired is not, once the clock is set back',
  async (t) => {
    const recorded = async () => {
      const status = { phase: 'Completed', expiresAt: ago(1) } as const
      return (await callHook('sync', hookRequest(backup({ status })))).desired.status
    }
    const spec = { deletionPolicy: 'Retain' as const }
    const status = { ...(await recorded()), expiresAt: ago(-60) }
    const { desired, written } = await callHook('sync', hookRequest(backup({ spec, status })))
    t.strictSame(written, [])
    t.strictSame(desired.status.conditions, [])
    const unexpired = backup({ spec, status: desired.status })
    const deleted = deletionActionFor(unexpired, { isNamespaceTerminating: false })
    t.equal(deleted, 'retain', 'a user who deletes it keeps the objects')
    const behind = { apiTime: async () => new Date(ago(3600)) }
    const other = await callHook('sync', hookRequest(backup({ status: await recorded() })), behind)
    t.strictSame(other.desired.status.conditions, [], 'nor by the clock of the API server')
  },
)

t.test('an expired backup deletes itself, by its uid', async (t) => {
  const status = { phase: 'Completed', expiresAt: ago(1) } as const
  const first = await callHook('sync', hookRequest(backup({ status })))
  t.strictSame(first.written, [], 'not before it is recorded that it expired')
  t.equal(first.desired.resyncAfterSeconds, 2)
  const second = await callHook('sync', hookRequest(backup({ status: first.desired.status })))
  t.strictSame(second.written, ['expire b uid-b'])
})

function toRestoreBy(...names: string[]): Partial<BackupPorts> {
  const restores = names.map((name) => ({ namespace: 'team', name }))
  return {
    backupsToRestore: async (backups) =>
      new Map(backups.map(({ metadata }) => [metadata.name, restores])),
  }
}

t.test('an expired backup that an unfinished VecRestore names is not deleted', async (t) => {
  const status = { phase: 'Completed', expiresAt: ago(1) } as const
  const first = await callHook('sync', hookRequest(backup({ status })), toRestoreBy('a'))
  t.strictSame(first.written, ['event NeededByRestore'])
  t.equal(first.desired.resyncAfterSeconds, 300)
  const { desired } = await callHook('sync', hookRequest(backup({ status })))
  const recorded = hookRequest(backup({ status: desired.status }))
  const named = await callHook('sync', recorded, toRestoreBy('a'))
  t.strictSame(named.written, ['event NeededByRestore'], 'also once it is recorded')
  matchWhole(t, named.desired.status.conditions, [{ type: 'Expired', status: 'False' }])
  t.strictSame((await callHook('sync', recorded)).written, ['expire b uid-b'])
})

t.test('an expired backup says which restores it is retained for', async (t) => {
  const status = { phase: 'Completed', expiresAt: ago(60) } as const
  const syncAs = async (status: VecBackup['status'], restores: string[]) => {
    const more = restores.length === 0 ? {} : toRestoreBy(...restores)
    const { desired, written } = await callHook('sync', hookRequest(backup({ status })), more)
    return { status: desired.status, events: written.filter((one) => one.startsWith('event')) }
  }
  const expired = (message: string) => ({
    ...{ type: 'Expired', status: 'False', reason: 'NeededByRestore' },
    message: `spec.retentionDays have passed; the backup is deleted after the restores that name it: ${message}`,
  })
  const one = await syncAs(status, ['a'])
  matchWhole(t, one.status.conditions, [
    {
      ...expired('VecRestore team/a'),
      lastTransitionTime: timestamp(context.now),
      observedGeneration: 1,
    },
  ])
  const same = await syncAs(one.status, ['a'])
  t.strictSame(same, { status: one.status, events: [] }, 'once')
  const many = await syncAs(one.status, ['d', 'b', 'c', 'a', 'e'])
  matchWhole(t, many.status.conditions, [
    expired('VecRestore team/a, VecRestore team/b, VecRestore team/c and 2 more'),
  ])
  t.strictSame(many.events, ['event NeededByRestore'], 'again when they change')
  const ended = await syncAs(many.status, [])
  matchWhole(t, ended.status.conditions, [
    { ...{ type: 'Expired', status: 'True' }, lastTransitionTime: timestamp(context.now) },
  ])
  const behind = { apiTime: async () => new Date(ago(3600)) }
  const early = await callHook('sync', hookRequest(backup({ status: many.status })), behind)
  t.strictSame(early.desired.status.conditions, [], 'it has not expired by another clock')
})

t.test('a silent Job is stopped', async (t) => {
  const jobs = [dataJob({ createdAgo: 700 })]
  const { written } = await callHook('sync', hookRequest(backup(), [...rbac, ...jobs]), whole)
  t.strictSame(written, [`stop ${dataJob().metadata.name}`, 'event JobNotStarted'])
})

t.test(
  'an answer that waits for a purge does not report that another answer ended it',
  async (t) => {
    const started = Promise.withResolvers<undefined>()
    const purge: BackupPorts['purge'] = (_, signal) => {
      const ended = new Promise<never>((_, reject) => {
        signal.addEventListener('abort', () => reject(new StorageError('aborted')))
      })
      started.resolve(undefined)
      return ended
    }
    const { ports, writes } = fakePorts({ secret: async () => bucketKeys, purge })
    const { finalize } = backupHooks(ports)
    const status = { phase: 'Completed', startTime: ago(900) } as const
    const deleted = { deletionTimestamp: ago(5), status }
    const waiting = finalize?.(hookRequest(backup(deleted)), context)
    await started.promise
    const annotations = { [ANNOTATIONS.retainObjects]: 'true' }
    const retained = hookRequest(backup({ ...deleted, annotations }))
    t.match(await finalize?.(retained, context), { finalized: true })
    const answer = (await waiting) as Desired<BackupStatus>
    matchWhole(t, answer.status.conditions, [{ type: 'Purged', reason: 'Purging' }])
    t.strictSame(writes, [])
  },
)
