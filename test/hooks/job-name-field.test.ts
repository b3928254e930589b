/** `status.jobName`: the Job that `kubectl logs job/...` is asked about. */
import t from 'tap'
import type { Job } from '../../crds/kubernetes.ts'
import { sync as syncBackup } from '../../hooks/backup/sync.ts'
import { finalize } from '../../hooks/cluster/finalize.ts'
import { jobNameField } from '../../hooks/request.ts'
import { sync as syncMigration } from '../../hooks/migration/sync.ts'
import { sync as syncRestore } from '../../hooks/restore/sync.ts'
import { ago, cluster, context, helmJob, observed } from '../builders.ts'
import * as backups from './backup/objects.ts'
import { ready as readyCluster, sync as syncCluster } from './cluster/decisions.ts'
import * as migrations from './migration/objects.ts'
import * as restores from './restore/objects.ts'

interface State {
  jobs?: Job[]
  liveJobs?: Job[]
}

const FINISHED = { phase: 'Completed' as const, completionTime: ago(600), jobName: 'deleted' }
const STARTED = { startTime: ago(600), jobName: 'deleted' }

const DATA_KINDS = [
  {
    ...{ kind: 'backup', job: backups.dataJob, name: 'b-backup-fcdbd' },
    sync: (status: object, state: State) =>
      syncBackup({ ...backups.ready(state), backup: backups.backup({ status }) }, context).status,
  },
  {
    ...{ kind: 'restore', job: restores.restoreJob, name: 'r-restore-b2c51' },
    sync: (status: object, state: State) =>
      syncRestore({ ...restores.ready(state), restore: restores.restore({ status }) }, context)
        .status,
  },
  {
    ...{ kind: 'migration', job: migrations.migrationJob, name: 'm-migration-aa424' },
    sync: (status: object, state: State) =>
      syncMigration(
        { ...migrations.ready(state), migration: migrations.migration({ status }) },
        context,
      ).status,
  },
]

for (const { kind, job, name, sync } of DATA_KINDS) {
  t.test(`the status of a ${kind} names its Job while the Job exists`, async (t) => {
    t.equal(sync({}, { jobs: [job()] }).jobName, `${name}-1`)
    t.equal(sync(STARTED, { jobs: [job()] }).jobName, `${name}-1`)
    t.equal(sync({}, { liveJobs: [job()] }).jobName, `${name}-1`, 'the cache does not have it yet')
    t.notOk('jobName' in sync(STARTED, {}))
  })

  t.test(`the status of a finished ${kind} names its Job until it is deleted`, async (t) => {
    const jobs = [job({ ended: ['Complete', 600] })]
    t.equal(sync({}, { jobs: [job({ ended: ['Failed', 600] })] }).jobName, `${name}-1`)
    t.match(sync(FINISHED, { jobs }), { phase: 'Completed', jobName: `${name}-1` })
    t.match(sync(FINISHED, {}), { phase: 'Completed' })
    t.notOk('jobName' in sync(FINISHED, {}))
  })

  t.test(`the status of a ${kind} names a Job of the previous release`, async (t) => {
    const former = `${kind}-run-2f20fcea3fd2-1`
    t.equal(sync(STARTED, { jobs: [job({ name: former })] }).jobName, former)
  })
}

t.test('the status of a cluster names its newest Job, also while it is deleted', async (t) => {
  const jobs = [helmJob({ run: 1, ended: ['Complete', 600] }), helmJob({ run: 2 })]
  const named = cluster({ status: { jobName: 'deleted' } })
  t.equal(
    syncCluster(readyCluster({ cluster: named, jobs }), context).status.jobName,
    'a-upgrade-3af3d-2',
  )
  t.notOk('jobName' in syncCluster(readyCluster({ cluster: named }), context).status)
  const uninstall = [...jobs, helmJob({ verb: 'uninstall', run: 3 })]
  const deleted = finalize(observed({ jobs: uninstall, liveJobs: uninstall }), context)
  t.equal(deleted.status.jobName, 'a-uninstall-3af3d-3')
})

t.test('the newest Job is named, wherever it was read', async (t) => {
  const [first, second] = [helmJob({ run: 1 }), helmJob({ run: 2 })]
  t.strictSame(jobNameField({ jobs: [first], liveJobs: [second] }), {
    jobName: 'a-upgrade-3af3d-2',
  })
  t.strictSame(jobNameField({ jobs: [] }), {})
})
