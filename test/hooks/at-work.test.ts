/** Which Jobs hold up others: those of a namespace that is not allowed only while they are provably ours. */
import t from 'tap'
import type { Job } from '../../crds/kubernetes.ts'
import { ANNOTATIONS, LABELS } from '../../crds/names.ts'
import { isAtWork, type WorkRules } from '../../hooks/at-work.ts'
import { signatureOf } from '../../hooks/signature.ts'
import { ago, allAllowed, settings } from '../builders.ts'

const closed: WorkRules = { ...allAllowed, isAllowed: (namespace) => namespace === 'own' }

function job(namespace: string, parts: Partial<Job['metadata']> = {}): Job {
  const metadata = { name: 'restore-run-x-1', namespace, labels: { [LABELS.parent]: 'uid-r' } }
  return { apiVersion: 'batch/v1', kind: 'Job', metadata: { ...metadata, ...parts } }
}

function ours(parts: Partial<Job['metadata']> = {}): Job {
  const identity = { namespace: 'far', name: 'restore-run-x-1', parentUid: 'uid-r' }
  const signature = signatureOf(identity, settings.jobKeys)
  return job('far', { annotations: { [ANNOTATIONS.signature]: signature }, ...parts })
}

t.test('in a namespace that is allowed a Job counts until it has ended', async (t) => {
  t.ok(isAtWork(job('own'), closed))
  t.ok(isAtWork(job('own', { deletionTimestamp: ago(9_000) }), closed))
  const conditions = [{ type: 'Failed', status: 'True' }]
  t.notOk(isAtWork({ ...job('own'), status: { conditions } }, closed))
})

t.test('in another one only a Job that this operator created counts', async (t) => {
  t.notOk(isAtWork(job('far'), closed))
  t.notOk(isAtWork(job('far', { annotations: { [ANNOTATIONS.signature]: '00' } }), closed))
  t.ok(isAtWork(ours(), closed))
  t.notOk(isAtWork(ours({ name: 'restore-run-x-2' }), closed), 'the signature of another Job')
})

t.test('and while it is deleted, only until its pods must have stopped', async (t) => {
  t.ok(isAtWork(ours({ deletionTimestamp: ago(119) }), closed))
  t.notOk(isAtWork(ours({ deletionTimestamp: ago(120) }), closed))
})
