/** Which Jobs this operator created: the signature cannot be copied to another Job. */
import t from 'tap'
import type { Job } from '../../crds/kubernetes.ts'
import { ANNOTATIONS, LABELS } from '../../crds/contract/names.ts'
import { isSigned } from '../../hooks/request.ts'
import { backupJob, desiredPlan } from '../../hooks/backup/job.ts'
import { settings } from '../builders.ts'
import { backup, ready, runningCluster } from './backup/objects.ts'

function created(keys: readonly string[] = settings.jobKeys): Job {
  const plan = { ...desiredPlan(backup(), runningCluster(), undefined), run: 1 }
  return backupJob(ready(), runningCluster(), plan, { ...settings, jobKeys: keys }) as Job
}

t.test('a new Job carries a signature that the key that made it verifies', async (t) => {
  t.ok(isSigned(created(), settings.jobKeys))
  t.ok(isSigned(created(['old']), ['new', 'old']), 'tokens rotate')
  t.notOk(isSigned(created(['old']), ['new']))
  t.ok(isSigned(created([]), []), 'where hooks need no token')
  t.notOk(isSigned(created([]), ['new']))
})

t.test('the signature is of this very Job', async (t) => {
  const job = created()
  const altered = (metadata: Partial<Job['metadata']>): Job => ({
    ...job,
    metadata: { ...job.metadata, ...metadata },
  })
  t.ok(isSigned(altered({}), settings.jobKeys))
  t.notOk(isSigned(altered({ name: 'another' }), settings.jobKeys))
  t.notOk(isSigned(altered({ namespace: 'another' }), settings.jobKeys))
  t.notOk(isSigned(altered({ labels: { [LABELS.parent]: 'another' } }), settings.jobKeys))
  t.notOk(isSigned(altered({ annotations: {} }), settings.jobKeys))
  t.notOk(isSigned(altered({ annotations: { [ANNOTATIONS.signature]: 'zz' } }), settings.jobKeys))
})

t.test('changes of the pods by admission do not change the signature', async (t) => {
  const job = created()
  const container = { image: 'mirror.example/vec-operator@sha256:0' }
  const rewritten = { ...job, spec: { template: { spec: { containers: [container] } } } }
  t.ok(isSigned(rewritten, settings.jobKeys))
})
