import t from 'tap'
import type { Job } from '../../../crds/kubernetes.ts'
import {
  READINESS_CHECK_SECONDS,
  RETRY_SECONDS,
  REQUEUE_SOON_SECONDS,
} from '../../../crds/contract/limits.ts'
import { cleanUpFinished, needsLiveProgress, watchJob } from '../../../hooks/data-job/job-watch.ts'
import { context, secret } from '../../builders.ts'
import { progressReport, dataJobOf } from './fixtures.ts'

const transfer = { kind: 'backup', uid: 'uid-b', plan: 'wanted' }
const job = dataJobOf(transfer)
const starting = (message: string) => ({ reason: 'JobStarting', message })
const calm = { isReporting: false, writeCopies: [], stuckReason: () => undefined }

t.test('a Job that starts is looked at again soon only where copies were written', async (t) => {
  const message = `Job ${job.metadata.name} is starting`
  t.strictSame(watchJob(job, calm, starting), {
    conditionReason: { reason: 'JobStarting', message },
    resyncAfterSeconds: RETRY_SECONDS,
    sideEffects: {},
  })
  const writeCopies = [secret({ key: 'v' })]
  t.strictSame(watchJob(job, { ...calm, writeCopies }, starting), {
    conditionReason: { reason: 'JobStarting', message },
    resyncAfterSeconds: REQUEUE_SOON_SECONDS,
    sideEffects: { writeCopies },
  })
})

t.test('a Job that told of itself is never stuck', async (t) => {
  const stuck = () => t.fail('not asked') as never
  t.strictSame(watchJob(job, { ...calm, isReporting: true, stuckReason: stuck }, starting), {
    resyncAfterSeconds: READINESS_CHECK_SECONDS,
    sideEffects: {},
  })
})

t.test(
  'a Job that is suspended and silent is replaced: it would hold its Lease for ever',
  async (t) => {
    const silence = { reason: 'JobSilent', message: 'silent' }
    const about = { ...calm, isReporting: true, silence }
    const suspended = { ...job, spec: { ...specOf(job), suspend: true } }
    t.match(watchJob(suspended, about, starting), {
      conditionReason: { reason: 'JobNotStarted', message: /is suspended: it is made again$/ },
      sideEffects: { deleteJobs: [{ namespace: 'ns' }] },
    })
    t.strictSame(watchJob(job, about, starting).sideEffects, {}, 'its pod may still be at work')
    const stopping = { ...suspended, status: { active: 1 } }
    t.strictSame(watchJob(stopping, about, starting).sideEffects, {}, 'its pods are not gone yet')
    t.strictSame(watchJob(suspended, { ...calm, isReporting: true }, starting).sideEffects, {})
  },
)

t.test('a stuck Job is stopped by its uid, with the reason why it is made again', async (t) => {
  const { name, uid } = job.metadata
  t.strictSame(watchJob(job, { ...calm, stuckReason: () => 'runs another image' }, starting), {
    conditionReason: {
      reason: 'JobNotStarted',
      message: `Job ${name} runs another image: it is made again`,
    },
    resyncAfterSeconds: REQUEUE_SOON_SECONDS,
    sideEffects: { deleteJobs: [{ namespace: 'ns', name, uid }] },
  })
})

t.test('a Job that ended without a word of its end has crashed, once that is sure', async (t) => {
  const shown = { jobs: [dataJobOf(transfer, { ended: ['Failed', 60], failed: 7 })] }
  t.ok(needsLiveProgress(shown, context), 'it never told of itself')
  t.ok(
    needsLiveProgress({ ...shown, progress: progressReport(transfer) }, context),
    'it told of its start only',
  )
  const told = { ...shown, progress: progressReport(transfer, { state: 'Failed' }) }
  t.notOk(needsLiveProgress(told, context), 'it told of its end')
  const justEnded = { jobs: [dataJobOf(transfer, { ended: ['Failed', 5], failed: 7 })] }
  t.notOk(needsLiveProgress(justEnded, context), 'its report may still come')
  t.notOk(needsLiveProgress({ jobs: [job] }, context), 'it still runs')
  t.notOk(needsLiveProgress({ jobs: [] }, context), 'there is none')
})

t.test('rights stay as long as any Job has not ended', async (t) => {
  const [running, ended] = [
    dataJobOf(transfer, { run: 2 }),
    dataJobOf(transfer, { ended: ['Failed', 60] }),
  ]
  const account = {
    ...{ apiVersion: 'v1', kind: 'ServiceAccount' },
    metadata: { name: 'backup-1', namespace: 'ns' },
  }
  const kinds = (jobs: (typeof job)[]) =>
    cleanUpFinished({ jobs, children: [account, ...jobs] }, 'it has ended', context)
  t.strictSame(
    kinds([running, ended]).children.map(({ kind }) => kind),
    ['ServiceAccount', 'Job', 'Job'],
  )
  t.strictSame(kinds([ended]).pruned, [
    { kind: 'ServiceAccount', name: 'backup-1', reason: 'it has ended' },
  ])
})

function specOf({ spec }: Job): NonNullable<Job['spec']> {
  if (spec === undefined) throw new Error('a Job without a spec')
  return spec
}
