/**
 * A Job of a VecCluster that is suspended after it has reported, by a user or by a queue of the Kubernetes cluster:
 * it has no pods and never ends, so it is recreated.
 */
import t from 'tap'
import type { Job } from '../../../crds/kubernetes.ts'
import { finalize } from '../../../hooks/cluster/finalize.ts'
import { ago, applied, cluster, context, helmJob, progress, statefulSet } from '../../builders.ts'
import { condition, ready, running, sync } from './decisions.ts'
import { threeNodes } from './shards.ts'

type Verb = 'upgrade' | 'shards' | 'uninstall'

/** By a user, while it has as many active pods. */
function suspended(verb: Verb, active = 0): Job {
  const job = helmJob({ verb })
  const { spec = { template: { spec: { containers: [] } } } } = job
  return { ...job, spec: { ...spec, suspend: true }, status: { active } }
}

function decide(verb: Verb, job: Job, silentFor = 601) {
  const report = progress({
    ...{ verb, state: 'Started', job: 'job-1', at: ago(silentFor) },
    ...(verb === 'shards' && { applied: applied() }),
  })
  const parts = { jobs: [job], liveJobs: [job], progress: report }
  if (verb === 'uninstall') {
    const deleted = cluster({ deletionTimestamp: ago(700), status: { helmRelease: 'vec-a' } })
    return finalize(ready({ cluster: deleted, ...parts }), context)
  }
  if (verb === 'upgrade') return sync(ready(parts), context)
  return sync(running({ cluster: threeNodes(), statefulSet: statefulSet(3), ...parts }), context)
}

for (const verb of ['upgrade', 'shards', 'uninstall'] as const) {
  const type = verb === 'shards' ? 'ShardsPlaced' : 'Applied'
  t.test(`a suspended Job (${verb}) that is silent is recreated`, async (t) => {
    const job = suspended(verb)
    const desired = decide(verb, job)
    t.strictSame(
      desired.deleteJobs?.map(({ uid }) => uid),
      ['job-1'],
    )
    t.strictSame(condition(desired, type)?.slice(1), [
      'JobNotStarted',
      `Job ${job.metadata.name} is suspended; recreating it`,
    ])
  })

  t.test(`it is not (${verb}) while a pod may still be working`, async (t) => {
    t.equal(decide(verb, suspended(verb, 1)).deleteJobs, undefined, 'its pods are not gone yet')
    t.equal(decide(verb, helmJob({ verb })).deleteJobs, undefined, 'it is silent alone')
    t.equal(decide(verb, suspended(verb), 599).deleteJobs, undefined, 'it may be resumed')
  })
}
