/** The VecBackup room, from a request to what it answers and writes. */
import t from 'tap'
import { wantedRun } from '../../../hooks/backup/children.ts'
import { backupRoom } from '../../../hooks/backup/index.ts'
import type { BackupPorts } from '../../../hooks/backup/ports.ts'
import { BackupPlan, decodePlan } from '../../../crds/command.ts'
import { ago, secret, statefulSet } from '../../builders.ts'
import {
  MINE,
  backup,
  bucketKeys,
  keySecret,
  result,
  runningCluster,
  transferJob,
} from './objects.ts'
import { leaseOf } from '../transfer.ts'
import { portsOf } from './ports.ts'
import { requestOf } from '../request.ts'
import { rights, answered, withReport } from './answered.ts'
import { podOf } from '../decisions.ts'

/** Nothing is missing. */
const whole: Partial<BackupPorts> = {
  cluster: async () => runningCluster(),
  secret: async () => bucketKeys,
}

t.test('customize shows the VecCluster, by name and namespace', async (t) => {
  const room = backupRoom(portsOf().ports)
  const rule = { apiVersion: 'vec-operator.dev/v1alpha1', resource: 'vecclusters', names: ['a'] }
  t.strictSame(room.customize(backup()), [{ ...rule, namespace: 'ns' }])
  const far = backup({ spec: { clusterRef: { name: 'a', namespace: 'far' } } })
  t.strictSame(room.customize(far), [{ ...rule, namespace: 'far' }])
  t.strictSame(room.customize(backup({ status: { phase: 'Completed' } })), [], 'it has ended')
})

t.test('Leases, live Jobs and the live cluster are read only where a Job may be due', async (t) => {
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
  await answered('sync', requestOf(backup({ status: { phase: 'Completed' } })), answers)
  const jobs = [transferJob()]
  await answered('sync', requestOf(withReport({}), [...rights, ...jobs]), answers)
  await answered('sync', requestOf(withReport({ state: 'Done' }), rights), answers)
  t.strictSame(read, [])
  await answered('sync', requestOf(backup(), rights), answers)
  t.strictSame(read, ['cluster', 'lease', 'lease', 'jobsOf'])
  await answered('sync', requestOf(backup(), rights), {
    ...answers,
    cluster: async () => undefined,
  })
  t.equal(read.length, 4, 'no cluster, no Leases')
})

t.test('the Leases that are looked at are both of the cluster', async (t) => {
  const read: string[] = []
  const lease: BackupPorts['lease'] = async (namespace, name) => {
    read.push(`${namespace}/${name}`)
    return undefined
  }
  const far = backup({ namespace: 'far', spec: { clusterRef: { name: 'a', namespace: 'ns' } } })
  await answered('sync', requestOf(far), { ...whole, lease })
  t.strictSame(read, ['ns/vec-a-write', 'ns/vec-a-backup'])
})

t.test(
  'the backup itself is read live where its Job ended without a word, or none runs',
  async (t) => {
    const reads: string[] = []
    const answers: Partial<BackupPorts> = {
      ...whole,
      backup: async (namespace, name) => void reads.push(`${namespace}/${name}`),
    }
    const crashed = transferJob({ ended: ['Failed', 60] })
    const failed = backup({ status: { phase: 'Failed' } })
    await answered('sync', requestOf(failed, [...rights, crashed]), answers)
    await answered('sync', requestOf(backup(), [...rights, transferJob()]), answers)
    t.strictSame(reads, [])
    await answered('sync', requestOf(backup(), rights), answers)
    t.strictSame(reads, ['ns/b'])
    await answered('sync', requestOf(backup(), [...rights, crashed]), answers)
    t.strictSame(reads, ['ns/b', 'ns/b'])
  },
)

t.test('a backup that has ended after what the cache shows stays so', async (t) => {
  const live = backup({ status: { phase: 'Failed', error: 'it was refused' } })
  const { desired } = await answered('sync', requestOf(backup(), rights), {
    ...whole,
    backup: async () => live,
  })
  t.strictSame(desired.status, live.status)
  const namesake = { ...live, metadata: { ...live.metadata, uid: 'another' } }
  const other = await answered('sync', requestOf(backup(), rights), {
    ...whole,
    backup: async () => namesake,
  })
  t.match(other.desired.status, { phase: 'Pending' }, 'the end of another backup is not its own')
})

t.test('the nodes there are, not those that are wanted, are backed up', async (t) => {
  const lease = async (_: string, name: string) =>
    name === 'vec-a-backup' ? leaseOf('backup', MINE) : undefined
  const answers: Partial<BackupPorts> = {
    ...whole,
    lease,
    cluster: async () => runningCluster({ spec: { replicas: 5 } }),
    statefulSet: async (namespace, name) =>
      namespace === 'ns' && name === 'vec-a' ? statefulSet(3) : undefined,
  }
  const replicas = async (parts: Partial<BackupPorts>) => {
    const { desired } = await answered('sync', requestOf(backup(), rights), parts)
    const { env } = podOf(desired).container
    const plan = env.find(({ name }) => name === 'PLAN')?.value ?? ''
    return decodePlan(BackupPlan, plan).cluster.replicas
  }
  t.equal(await replicas(answers), 3)
  t.equal(await replicas({ ...answers, statefulSet: async () => undefined }), 5)
})

t.test('a Job that has not told of itself yet gets its copies as any other', async (t) => {
  const apiKey = { autoGenerate: true, jwtRbac: false }
  const keyed = runningCluster({ spec: { apiKey } })
  const spec = { clusterRef: { name: 'a', namespace: 'ns' } }
  const far = backup({ namespace: 'far', spec })
  const job = transferJob({ namespace: 'far', plan: wantedRun(far, keyed, undefined).hash })
  const answers: Partial<BackupPorts> = {
    cluster: async () => keyed,
    secret: async () => keySecret(),
    lease: async () => leaseOf('backup', 'VecBackup/far/b/uid-b'),
  }
  const { written } = await answered('sync', requestOf(far, [job]), answers)
  t.strictSame(written, [`copy ${job.metadata.name}-engine`])
  const there = await answered('sync', requestOf(far, [job]), {
    ...answers,
    copy: async () => keySecret(),
  })
  t.strictSame(there.written, [], 'one that is equal to its source is not written again')
})

t.test('a backup takes its Lease, and makes its Job once it sees it held', async (t) => {
  const first = await answered('sync', requestOf(backup(), rights), whole)
  t.strictSame(first.written, ['take vec-a-backup'])
  t.notOk(first.desired.children.some(({ kind }) => kind === 'Job'))
  const lease: BackupPorts['lease'] = async (_, name) =>
    name === 'vec-a-backup' ? leaseOf('backup', MINE) : undefined
  const second = await answered('sync', requestOf(backup(), rights), { ...whole, lease })
  t.strictSame(second.written, [])
  t.ok(second.desired.children.some(({ kind }) => kind === 'Job'))
})

t.test(
  'the Leases are those of the cluster that lives, not of the one the cache shows',
  async (t) => {
    const gone = { ...whole, cluster: async () => undefined }
    const { desired } = await answered(
      'sync',
      requestOf(backup(), rights, [runningCluster()]),
      gone,
    )
    t.equal(desired.status.conditions?.[0]?.reason, 'ClusterNotFound')
  },
)

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
    await answered('sync', requestOf(far), answers)
    t.strictSame(read, ['far/s3', 'ns/vec-a-apikey', 'ns/cert'])
  },
)

t.test('copies are read and written while a Job runs, and deleted when it has ended', async (t) => {
  const apiKey = { autoGenerate: true, jwtRbac: false }
  const spec = { clusterRef: { name: 'a', namespace: 'ns' } }
  const jobs = [transferJob({ namespace: 'far' })]
  const { name } = transferJob().metadata
  const clusters = [runningCluster({ spec: { apiKey } })]
  const running = requestOf(withReport({}, { namespace: 'far', spec }), jobs, clusters)
  const answers = { secret: async () => keySecret() }
  t.strictSame((await answered('sync', running, answers)).written, [
    `copy ${name}-engine`,
    'event BackupStarted',
  ])
  const same = { ...answers, copy: async () => secret({ 'api-key': 'k' }) }
  t.strictSame((await answered('sync', running, same)).written, ['event BackupStarted'])
  const ended = requestOf(withReport({ state: 'Done' }, { namespace: 'far', spec }), jobs, clusters)
  t.strictSame((await answered('sync', ended, answers)).written, [
    `delete copy ${name}-engine`,
    `delete copy ${name}-tls`,
    'event BackupCompleted',
  ])
})

t.test(
  'after 30 s without an end report the resource is read live before a crash is called',
  async (t) => {
    const jobs = [transferJob({ ended: ['Complete', 31] })]
    const asked = requestOf(withReport({}), [...rights, ...jobs])
    const live = withReport({ state: 'Done', backup: result({ completed: 2 }) })
    const told = await answered('sync', asked, { backup: async () => live })
    t.equal(told.desired.status.phase, 'Completed')
    const crashed = await answered('sync', asked)
    t.match(crashed.desired.status, { phase: 'Failed', error: 'Job crashed 1 times' })
  },
)

t.test('a progress annotation of another uid is ignored', async (t) => {
  const asked = requestOf(withReport({ uid: 'namesake', state: 'Done' }), rights)
  t.equal((await answered('sync', asked, whole)).desired.status.phase, 'Pending')
})

t.test('a clock that is ahead deletes no backup', async (t) => {
  const status = { phase: 'Completed', expiresAt: ago(1) } as const
  const at = (seconds: number) => ({ apiTime: async () => new Date(ago(seconds)) })
  const { written, desired } = await answered('sync', requestOf(backup({ status })), at(2))
  t.strictSame(written, ['event ClockAhead'])
  t.strictSame(desired.status, status)
  t.equal(desired.resyncAfterSeconds, 300)
  const due = await answered('sync', requestOf(backup({ status })), at(1))
  t.match(due.desired.status.conditions?.at(-1), { type: 'Expired', status: 'True' })
  let asked = 0
  const young = backup({ status: { phase: 'Completed', expiresAt: ago(-1) } })
  await answered('sync', requestOf(young), {
    apiTime: async () => {
      asked += 1
      return undefined
    },
  })
  t.equal(asked, 0, 'it is asked only where something would be deleted')
})

t.test('an expired backup deletes itself, by its uid', async (t) => {
  const status = { phase: 'Completed', expiresAt: ago(1) } as const
  const first = await answered('sync', requestOf(backup({ status })))
  t.strictSame(first.written, [], 'not before it is recorded that it expired')
  t.equal(first.desired.resyncAfterSeconds, 2)
  const second = await answered('sync', requestOf(backup({ status: first.desired.status })))
  t.strictSame(second.written, ['expire b uid-b'])
})

t.test('a silent Job is stopped', async (t) => {
  const jobs = [transferJob({ createdAgo: 700 })]
  const { written } = await answered('sync', requestOf(backup(), [...rights, ...jobs]), whole)
  t.strictSame(written, [`stop ${transferJob().metadata.name}`, 'event JobNotStarted'])
})
