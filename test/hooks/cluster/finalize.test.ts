import t from 'tap'
import { clusterRights } from '../../../hooks/cluster/children.ts'
import { finalize } from '../../../hooks/cluster/finalize.ts'
import type { Observed } from '../../../hooks/cluster/observed.ts'
import { uninstallRun } from '../../../hooks/cluster/plan.ts'
import { ago, cluster, context, helmJob, observed, progress } from '../../builders.ts'

const rights = clusterRights(cluster())
const { hash: plan } = uninstallRun(cluster())

/** A cluster that was installed once and is being deleted. */
function ending(parts: Partial<Observed> = {}): Observed {
  return observed({
    cluster: cluster({ deletionTimestamp: ago(5), status: { helmRelease: 'vec-a' } }),
    children: rights,
    liveJobs: [],
    progress: progress(),
    ...parts,
  })
}

t.test(
  'a running helm Job is stopped with its pods, and waited for, before the uninstall',
  async (t) => {
    const jobs = [helmJob()]
    const desired = finalize(ending({ jobs, liveJobs: jobs }), context)
    t.equal(desired.stop?.length, 1)
    t.equal(desired.finalized, undefined)
    t.equal(desired.children.filter((child) => child['spec'] !== undefined).length, 0)
    t.equal(desired.children.length, rights.length + 1)
  },
)

t.test('delete: helm uninstall runs once nothing else does', async (t) => {
  const desired = finalize(ending(), context)
  const job = desired.children.find(({ kind }) => kind === 'Job')
  t.match(job, { metadata: { labels: { 'vec-operator.dev/verb': 'uninstall' } } })
  t.equal(desired.finalized, undefined)
})

t.test('the rights of the uninstall come first when they are gone', async (t) => {
  const desired = finalize(ending({ children: [] }), context)
  t.strictSame(
    desired.children.map(({ kind }) => kind),
    ['ServiceAccount', 'Role', 'RoleBinding', 'RoleBinding'],
  )
})

t.test('an uninstall under way is waited for', async (t) => {
  const jobs = [helmJob({ verb: 'uninstall', run: 2 })]
  const desired = finalize(ending({ jobs, liveJobs: jobs }), context)
  t.equal(desired.stop, undefined)
  t.equal(desired.finalized, undefined)
  t.equal(desired.resyncAfterSeconds, 10)
})

t.test('the resource goes when the uninstall is done', async (t) => {
  const jobs = [helmJob({ verb: 'uninstall', run: 2, ended: ['Complete', 3] })]
  const report = progress({ verb: 'uninstall', run: 2, state: 'Done' })
  const desired = finalize(ending({ jobs, liveJobs: jobs, progress: report }), context)
  t.equal(desired.finalized, true)
})

t.test('a failed uninstall is shown and tried again after 30 s', async (t) => {
  const jobs = [helmJob({ verb: 'uninstall', run: 2, plan, ended: ['Failed', 3] })]
  const failed = { verb: 'uninstall', run: 2, state: 'Failed', plan, message: 'no' } as const
  const early = finalize(ending({ jobs, progress: progress({ ...failed, at: ago(3) }) }), context)
  t.equal(early.finalized, undefined)
  t.equal(early.resyncAfterSeconds, 27)
  t.match(early.status.conditions?.at(-1), { type: 'Applied', status: 'False', message: 'no' })
  const late = finalize(ending({ jobs, progress: progress({ ...failed, at: ago(31) }) }), context)
  t.equal(late.children.filter((child) => child['spec'] !== undefined).length, 1)
})

t.test('in a namespace that ends the resource goes without an uninstall', async (t) => {
  t.equal(finalize(ending({ namespaceEnds: true }), context).finalized, true)
})

t.test('in a namespace that ends a running Job is still stopped first', async (t) => {
  const liveJobs = [helmJob()]
  const desired = finalize(ending({ namespaceEnds: true, liveJobs, jobs: liveJobs }), context)
  t.equal(desired.finalized, undefined)
  t.equal(desired.stop?.length, 1)
})

t.test('a cluster that never got a Job goes at once', async (t) => {
  const never = observed({ cluster: cluster({ deletionTimestamp: ago(1) }), liveJobs: [] })
  t.equal(finalize(never, context).finalized, true)
})

t.test('a cluster whose report was lost is still uninstalled', async (t) => {
  const lost = ending()
  delete lost.progress
  t.equal(finalize(lost, context).finalized, undefined)
})
