/**
 * Jobs that the previous release created, under names made of a hash of the uid: this release
 * continues them and creates no second Job next to them. Remove with the next release.
 */
import t from 'tap'
import type { Job } from '../../crds/kubernetes.ts'
import { sync as syncBackup } from '../../hooks/backup/sync.ts'
import { finalize } from '../../hooks/cluster/finalize.ts'
import { secretCopyRefs } from '../../hooks/data-job/secret-copies.ts'
import { latestJob, isSigned } from '../../hooks/request.ts'
import { sync as syncMigration } from '../../hooks/migration/sync.ts'
import type { Desired } from '../../hooks/protocol.ts'
import { sync as syncRestore } from '../../hooks/restore/sync.ts'
import {
  ago,
  context,
  helmJob,
  observed,
  progress,
  settings,
  type JobOverrides,
} from '../builders.ts'
import * as backups from './backup/objects.ts'
import { ready as readyCluster, sync as syncCluster } from './cluster/decisions.ts'
import { createdJob } from './decisions.ts'
import * as migrations from './migration/objects.ts'
import * as restores from './restore/objects.ts'

type Progress = ReturnType<typeof backups.report>
interface State {
  jobs?: Job[]
  liveJobs?: Job[]
  progress?: Progress
}

const DATA_KINDS = [
  {
    ...{
      kind: 'backup',
      job: backups.dataJob,
      report: backups.report,
      newName: 'b-backup-fcdbd-1',
    },
    sync: (state: State) => syncBackup(backups.ready(state), context),
  },
  {
    ...{ kind: 'restore', job: restores.restoreJob, report: restores.report },
    newName: 'r-restore-b2c51-1',
    sync: (state: State) => syncRestore(restores.ready(state), context),
  },
  {
    ...{ kind: 'migration', job: migrations.migrationJob, report: migrations.report },
    newName: 'm-migration-aa424-1',
    sync: (state: State) => syncMigration(migrations.ready(state), context),
  },
]

function jobNames({ children }: Pick<Desired<unknown>, 'children'>): string[] {
  return children.filter(({ kind }) => kind === 'Job').map(({ metadata }) => metadata.name)
}

for (const { kind, job: jobOf, report, newName, sync } of DATA_KINDS) {
  const name = `${kind}-run-2f20fcea3fd2-1`
  const former = (overrides: JobOverrides = {}) => jobOf({ name, ...overrides })

  t.test(`without a Job, a ${kind} gets one named after its resource`, async (t) => {
    t.strictSame(jobNames(sync({})), [newName])
  })

  t.test(`the Job of a ${kind} continues under its former name`, async (t) => {
    t.ok(isSigned(former(), settings.jobKeys))
    const starting = sync({ jobs: [former()] })
    t.strictSame(jobNames(starting), [name])
    t.equal(starting.deleteJobs, undefined)
    t.equal(starting.status.phase, 'Pending')
    const working = sync({ jobs: [former()], progress: report({ job: 'job-1' }) })
    t.strictSame(jobNames(working), [name])
    t.equal(working.deleteJobs, undefined)
  })

  t.test(`no second Job of a ${kind} is created next to one under a former name`, async (t) => {
    // The cache of Metacontroller does not have it.
    const hidden = sync({ liveJobs: [former({ createdAgo: 1 })] })
    t.strictSame(jobNames(hidden), [])
    const deleting = sync({ jobs: [former({ deletionTimestamp: ago(1) })] })
    t.strictSame(jobNames(deleting), [name])
  })

  t.test(`the outcome of a ${kind} is recorded from a Job under a former name`, async (t) => {
    const jobs = [former({ ended: ['Failed', 29], failed: 7 })]
    t.strictSame(jobNames(sync({ jobs })), [name], 'its last report may still arrive')
    t.equal(sync({ jobs }).status.completionTime, undefined)
    const crashed = sync({ jobs: [former({ ended: ['Failed', 30], failed: 7 })] })
    t.match(crashed.status, { phase: 'Failed', error: 'Job crashed 7 times' })
    t.strictSame(jobNames(crashed), [name])
    const done = sync({
      jobs: [former({ ended: ['Complete', 5] })],
      progress: report({ job: 'job-1', state: 'Done' }),
    })
    t.equal(done.status.phase, 'Completed')
    t.strictSame(jobNames(done), [name])
  })
}

t.test('secret copies of a Job under a former name are found under theirs', async (t) => {
  const job = backups.dataJob({ name: 'backup-run-2f20fcea3fd2-1' })
  t.strictSame(secretCopyRefs(['engine'], job), [
    { namespace: 'ns', name: 'backup-run-2f20fcea3fd2-1-engine', ownerUid: 'job-1' },
  ])
})

const UPGRADE = 'cluster-upgrade-2f20fcea3fd2-4'

t.test('a helm Job under a former name continues, and the next run is counted on', async (t) => {
  const running = syncCluster(
    readyCluster({
      jobs: [helmJob({ name: UPGRADE, run: 4 })],
      progress: progress({ state: 'Started', run: 4, job: 'job-4' }),
    }),
    context,
  )
  t.strictSame(jobNames(running), [UPGRADE])
  t.equal(running.deleteJobs, undefined)

  const hidden = syncCluster(
    readyCluster({ liveJobs: [helmJob({ name: UPGRADE, run: 4 })] }),
    context,
  )
  t.equal(createdJob(hidden), undefined)

  const ended = helmJob({ name: UPGRADE, run: 4, ended: ['Failed', 60] })
  const next = syncCluster(readyCluster({ jobs: [ended], liveJobs: [ended] }), context)
  t.strictSame(jobNames(next), [UPGRADE, 'a-upgrade-3af3d-5'])
})

t.test('a cluster that is deleted stops a helm Job under a former name first', async (t) => {
  const job = helmJob({ name: UPGRADE, run: 4 })
  const stopping = finalize(observed({ jobs: [job], liveJobs: [job] }), context)
  t.strictSame(stopping.deleteJobs, [{ namespace: 'ns', name: UPGRADE, uid: 'job-4' }])
  t.strictSame(jobNames(stopping), [UPGRADE])
})

t.test('the newest Job is the one with the highest number, under both names', async (t) => {
  const names = ['backup-run-2f20fcea3fd2-9', 'b-2026-backup-10', 'backup-run-2f20fcea3fd2-2']
  t.equal(latestJob(names.map((name) => backups.dataJob({ name })))?.metadata.name, names[1])
})
