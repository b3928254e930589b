/** A VecRestore whose Job fails, is silent or was created before, and one that has ended. */
import t from 'tap'
import type { AnyObject } from '../../../crds/kubernetes.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { RestorePlan } from '../../../crds/contract/restore-job.ts'
import { unchanged } from '../../../hooks/request.ts'
import { restoreRbac } from '../../../hooks/restore/job.ts'
import { sync } from '../../../hooks/restore/sync.ts'
import { NOW, ago, context } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { backup, runningCluster } from '../backup/objects.ts'
import { createdJob, jobPlan, statusSummary } from '../decisions.ts'
import {
  OWN_HOLDER,
  completedBackup,
  heldLeases,
  ready,
  report,
  restore,
  restoreJob,
} from './objects.ts'

t.test('a Job that ended without a report: again in 2 s, after 30 s Failed', async (t) => {
  const ended = (seconds: number) =>
    sync(
      ready({ jobs: [restoreJob({ ended: ['Failed', seconds], failed: 7 })], progress: report() }),
      context,
    )
  t.equal(ended(10).resyncAfterSeconds, 2)
  t.not(ended(10).status.phase, 'Failed')
  t.equal(ended(31).status.error, 'Job crashed 7 times')
})

/** The copy that Velero creates, or `kubectl create` from the output of `kubectl get -o yaml`. */
function copyOf(state: 'Started' | 'Done' | 'Failed' | 'Refused', more: object = {}) {
  const formerReport = JSON.stringify({
    ...report({ state, at: ago(9000) }),
    uid: 'uid-of-last-year',
  })
  return restore({ annotations: { [ANNOTATIONS.progress]: formerReport }, ...more })
}

t.test(
  'a copy of a restore that has ended is not run again, and says what to do (M14)',
  async (t) => {
    for (const state of ['Done', 'Failed', 'Refused'] as const) {
      const decision = sync(ready({ restore: copyOf(state) }), context)
      const message = `this is a copy of a VecRestore (uid uid-of-last-year) that finished as ${state} at ${ago(9000)}, and is not run again; to run it, create another VecRestore without the annotation vec-operator.dev/progress`
      t.strictSame(statusSummary(decision), ['Failed', 'RestoreFailed', message])
      t.match(decision.status, { phase: 'Failed', error: message })
      t.strictSame(
        decision.children.filter(({ kind }) => kind === 'Job'),
        [],
      )
      matchWhole(t, decision.events, [{ type: 'Warning', reason: 'RestoreFailed', message }])
    }
  },
)

t.test(
  'a copy that is not permitted is refused as a copy: permission starts nothing',
  async (t) => {
    const elsewhere = {
      namespace: 'mine',
      spec: {
        targetClusterRef: { name: 'a', namespace: 'ns' },
        backupRef: { name: 'b', namespace: 'ns' },
      },
    }
    const allowing = (name: string) => ({ annotations: { [ANNOTATIONS.allowedNamespaces]: name } })
    const parts = {
      backup: completedBackup(allowing('mine')),
      cluster: runningCluster(allowing('other')),
    }
    const first = sync(ready({ ...parts, restore: copyOf('Done', elsewhere) }), context)
    t.match(first.status, { phase: 'Failed', error: /^this is a copy of a VecRestore/ })
    const { status } = first
    const permitted = { ...parts, cluster: runningCluster(allowing('mine')) }
    const restored = copyOf('Done', { ...elsewhere, status })
    t.equal(createdJob(sync(ready({ ...permitted, restore: restored }), context)), undefined)
  },
)

t.test(
  'a report of another resource stops no restore that was looked at, or of one at work',
  async (t) => {
    const seen = copyOf('Done', { status: { phase: 'Pending' } })
    t.ok(createdJob(sync(ready({ restore: seen }), context)))
    t.ok(createdJob(sync(ready({ restore: copyOf('Started') }), context)))
    const broken = restore({
      annotations: { [ANNOTATIONS.progress]: '{"uid":"x","state":"Done"}' },
    })
    t.ok(createdJob(sync(ready({ restore: broken }), context)))
  },
)

t.test('a Job without a report is recreated with the next number', async (t) => {
  const silent = restoreJob({ createdAgo: 601 })
  const decision = sync(ready({ jobs: [silent] }), context)
  t.strictSame(decision.deleteJobs, [{ namespace: 'ns', name: silent.metadata.name, uid: 'job-1' }])
  t.equal(statusSummary(decision)[1], 'JobNotStarted')
  const next = sync(ready({ progress: report() }), context)
  t.equal(jobPlan(next, RestorePlan).run, 2)
})

t.test('a Job that appears after its Lease was lost is stopped', async (t) => {
  const [mine, others] = [heldLeases(OWN_HOLDER), heldLeases('VecBackup/ns/other/uid-o')]
  for (const leases of [
    others,
    { ...mine, write: others.write },
    { ...others, write: mine.write },
  ]) {
    const decision = sync(ready({ jobs: [restoreJob()], leases }), context)
    matchWhole(t, decision.deleteJobs, [{ uid: 'job-1' }])
    t.match(statusSummary(decision)[2], /lost its Lease/)
  }
})

t.test('a Job without a report stays while its plan is current', async (t) => {
  const job = restoreJob()
  const started = sync(ready({ jobs: [job] }), context)
  t.equal(started.deleteJobs, undefined)
  t.strictSame(statusSummary(started), [
    'Pending',
    'RestoreStarting',
    `Job ${job.metadata.name} is starting`,
  ])
  const changed = sync(ready({ jobs: [restoreJob({ plan: 'other' })] }), context)
  t.match(statusSummary(changed)[2], /has an outdated plan/)
  for (const gone of ['cluster', 'backup', 'leases'] as const) {
    const unseen = { ...ready({ jobs: [job] }), [gone]: undefined }
    t.equal(sync(unseen, context).deleteJobs, undefined, `its ${gone} cannot be seen`)
  }
})

t.test(
  'a Job that was just created is not created twice, and its Leases are not released',
  async (t) => {
    const decision = sync(ready({ liveJobs: [restoreJob()], backup: backup() }), context)
    t.equal(createdJob(decision), undefined)
    t.equal(decision.leases, undefined)
    t.equal(statusSummary(decision)[2], 'the Job was just created')
    const blocked = sync(ready({ backup: backup() }), context)
    t.equal(blocked.leases?.length, 2, 'without that Job they are')
  },
)

t.test('a finished restore is unchanged, whatever is missing later', async (t) => {
  const status = { phase: 'Completed', sourceBackup: 'b', completionTime: ago(50) } as const
  const job = restoreJob({ ended: ['Complete', 50] })
  const observed = {
    restore: restore({ status }),
    children: [...(restoreRbac(restore()) as AnyObject[]), job],
    jobs: [job],
    secrets: {},
  }
  const decision = sync(observed, context)
  t.strictSame(decision.status, { ...status, jobName: 'r-restore-b2c51-1' })
  t.strictSame(decision.children, [unchanged(job)], 'the Job stays for its log')
  matchWhole(t, decision.pruned, [
    { kind: 'ServiceAccount', reason: 'the restore has ended' },
    { kind: 'Role' },
    { kind: 'RoleBinding' },
  ])
  const later = { ...context, now: new Date(NOW.getTime() + 86_400_000) }
  t.match(sync(observed, later).pruned?.at(0), { kind: 'Job' })
})
