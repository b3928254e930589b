/** Which Jobs hold up others: those of a namespace that is not allowed only while they are provably ours. */
import t from 'tap'
import type { Job } from '../../crds/kubernetes.ts'
import { ANNOTATIONS, LABELS } from '../../crds/contract/names.ts'
import { isBlockingJob, type BlockingRules } from '../../hooks/cross-namespace.ts'
import { signJob } from '../../hooks/request.ts'
import { ago, allAllowed, settings } from '../builders.ts'

const closed: BlockingRules = { ...allAllowed, isAllowed: (namespace) => namespace === 'own' }

function job(namespace: string, parts: Partial<Job['metadata']> = {}): Job {
  const metadata = { name: 'restore-run-x-1', namespace, labels: { [LABELS.parent]: 'uid-r' } }
  return { apiVersion: 'batch/v1', kind: 'Job', metadata: { ...metadata, ...parts } }
}

function ours(parts: Partial<Job['metadata']> = {}): Job {
  const identity = { namespace: 'far', name: 'restore-run-x-1', parentUid: 'uid-r' }
  const signature = signJob(identity, settings.jobKeys)
  return job('far', { annotations: { [ANNOTATIONS.signature]: signature }, ...parts })
}

t.test('in a namespace that is allowed a Job counts until it has ended', async (t) => {
  t.ok(isBlockingJob(job('own'), closed))
  t.ok(isBlockingJob(job('own', { deletionTimestamp: ago(9_000) }), closed))
  const conditions = [{ type: 'Failed', status: 'True' }]
  t.notOk(isBlockingJob({ ...job('own'), status: { conditions } }, closed))
})

t.test('in another one only a Job that this operator created counts', async (t) => {
  t.notOk(isBlockingJob(job('far'), closed))
  t.notOk(isBlockingJob(job('far', { annotations: { [ANNOTATIONS.signature]: '00' } }), closed))
  t.ok(isBlockingJob(ours(), closed))
  t.notOk(isBlockingJob(ours({ name: 'restore-run-x-2' }), closed), 'the signature of another Job')
})

t.test('in another one a deleted Job counts until its pods must have stopped', async (t) => {
  t.ok(isBlockingJob(ours({ deletionTimestamp: ago(119) }), closed))
  t.notOk(isBlockingJob(ours({ deletionTimestamp: ago(120) }), closed))
})
