import t from 'tap'
import type { Job } from '../../crds/kubernetes.ts'
import { READINESS_CHECK_SECONDS, RETRY_SECONDS, SOON_SECONDS } from '../../crds/limits.ts'
import { afterEnd, isCrashed, watch } from '../../hooks/transfer.ts'
import { context, secret } from '../builders.ts'
import { reportOf, transferJobOf } from './transfer.ts'

const transfer = { kind: 'backup', uid: 'uid-b', plan: 'wanted' }
const job = transferJobOf(transfer)
const starting = (message: string) => ({ reason: 'JobStarting', message })
const calm = { reported: false, writeCopies: [], stuck: () => undefined }

t.test('a Job that starts is looked at again soon only where copies were written', async (t) => {
  const message = `Job ${job.metadata.name} is starting`
  t.strictSame(watch(job, calm, starting), {
    remark: { reason: 'JobStarting', message },
    again: RETRY_SECONDS,
    writes: {},
  })
  const writeCopies = [secret({ key: 'v' })]
  t.strictSame(watch(job, { ...calm, writeCopies }, starting), {
    remark: { reason: 'JobStarting', message },
    again: SOON_SECONDS,
    writes: { writeCopies },
  })
})

t.test('a Job that told of itself is never stuck', async (t) => {
  const stuck = () => t.fail('not asked') as never
  t.strictSame(watch(job, { ...calm, reported: true, stuck }, starting), {
    again: READINESS_CHECK_SECONDS,
    writes: {},
  })
})

t.test(
  'a Job that is suspended and silent is replaced: it would hold its Lease for ever',
  async (t) => {
    const silent = { reason: 'JobSilent', message: 'silent' }
    const about = { ...calm, reported: true, silent }
    const suspended = { ...job, spec: { ...specOf(job), suspend: true } }
    t.match(watch(suspended, about, starting), {
      remark: { reason: 'JobNotStarted', message: /is suspended: it is made again$/ },
      writes: { stop: [{ namespace: 'ns' }] },
    })
    t.strictSame(watch(job, about, starting).writes, {}, 'its pod may still be at work')
    const stopping = { ...suspended, status: { active: 1 } }
    t.strictSame(watch(stopping, about, starting).writes, {}, 'its pods are not gone yet')
    t.strictSame(watch(suspended, { ...calm, reported: true }, starting).writes, {})
  },
)

t.test('a stuck Job is stopped by its uid, with the reason why it is made again', async (t) => {
  const { name, uid } = job.metadata
  t.strictSame(watch(job, { ...calm, stuck: () => 'runs another image' }, starting), {
    remark: {
      reason: 'JobNotStarted',
      message: `Job ${name} runs another image: it is made again`,
    },
    again: SOON_SECONDS,
    writes: { stop: [{ namespace: 'ns', name, uid }] },
  })
})

t.test('a Job that ended without a word of its end has crashed, once that is sure', async (t) => {
  const shown = { jobs: [transferJobOf(transfer, { ended: ['Failed', 60], failed: 7 })] }
  t.ok(isCrashed(shown, context), 'it never told of itself')
  t.ok(isCrashed({ ...shown, progress: reportOf(transfer) }, context), 'it told of its start only')
  const told = { ...shown, progress: reportOf(transfer, { state: 'Failed' }) }
  t.notOk(isCrashed(told, context), 'it told of its end')
  const justEnded = { jobs: [transferJobOf(transfer, { ended: ['Failed', 5], failed: 7 })] }
  t.notOk(isCrashed(justEnded, context), 'its report may still come')
  t.notOk(isCrashed({ jobs: [job] }, context), 'it still runs')
  t.notOk(isCrashed({ jobs: [] }, context), 'there is none')
})

t.test('rights stay as long as any Job has not ended', async (t) => {
  const [running, ended] = [
    transferJobOf(transfer, { run: 2 }),
    transferJobOf(transfer, { ended: ['Failed', 60] }),
  ]
  const account = {
    ...{ apiVersion: 'v1', kind: 'ServiceAccount' },
    metadata: { name: 'backup-1', namespace: 'ns' },
  }
  const kinds = (jobs: (typeof job)[]) =>
    afterEnd({ jobs, children: [account, ...jobs] }, 'it has ended', context)
  t.strictSame(
    kinds([running, ended]).children.map(({ kind }) => kind),
    ['ServiceAccount', 'Job', 'Job'],
  )
  t.strictSame(kinds([ended]).dropped, [
    { kind: 'ServiceAccount', name: 'backup-1', reason: 'it has ended' },
  ])
})

function specOf({ spec }: Job): NonNullable<Job['spec']> {
  if (spec === undefined) throw new Error('a Job without a spec')
  return spec
}
