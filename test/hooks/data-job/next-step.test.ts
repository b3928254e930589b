/** What a backup, a restore and a migration share while they are unfinished, and after that. */
import t from 'tap'
import type { Job } from '../../../crds/kubernetes.ts'
import {
  FIRST_REPORT_TIMEOUT_SECONDS,
  JOB_CACHE_TIMEOUT_SECONDS,
  READINESS_CHECK_SECONDS,
  REQUEUE_SOON_SECONDS,
  RETRY_SECONDS,
  STALE_REPORT_SECONDS,
} from '../../../crds/contract/limits.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { afterFinished } from '../../../hooks/data-job/decision.ts'
import { creating, nextStep, type JobFacts } from '../../../hooks/data-job/next-step.ts'
import { type ObservedDataJob, needsLiveProgress } from '../../../hooks/data-job/observe.ts'
import { ago, context, NOW, secret, settings } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { progressReport, dataJobOf, leaseOf } from './fixtures.ts'

const identity = { kind: 'backup', name: 'b', uid: 'uid-b', plan: 'current' }
const job = dataJobOf(identity)
const { name, uid } = job.metadata
const facts: JobFacts = {
  blocker: undefined,
  starting: { reason: 'JobStarting' },
  hasStarted: false,
  desiredHash: 'current',
  lostLease: false,
  copiedCredentials: [],
  copySources: [],
  rbac: [],
  leaseReleases: [],
}

function observe(...jobs: Job[]): ObservedDataJob {
  return { jobs, children: jobs }
}

/** The step of a resource with this one Job. */
function stepWith(
  only: Job,
  overrides: Partial<JobFacts> = {},
  more: Partial<ObservedDataJob> = {},
) {
  return nextStep({ ...observe(only), ...more }, { ...facts, ...overrides }, context)
}

t.test('a resource without a Job is ready for one unless something blocks it', async (t) => {
  t.strictSame(nextStep(observe(), facts, context), { is: 'ready' })
  const blocker = { reason: 'ClusterNotFound', message: 'cluster ns/a not found' }
  const lease = leaseOf('backup', 'VecBackup/ns/b/uid-b')
  const leaseReleases = [{ action: 'drop' as const, lease }]
  t.strictSame(nextStep(observe(), { ...facts, blocker }, context), {
    is: 'blocked',
    answer: { conditionReason: blocker, resyncAfterSeconds: RETRY_SECONDS },
  })
  t.strictSame(
    nextStep(observe(), { ...facts, blocker, leaseReleases }, context),
    {
      is: 'blocked',
      answer: {
        conditionReason: blocker,
        resyncAfterSeconds: RETRY_SECONDS,
        leases: leaseReleases,
      },
    },
    'its Leases are released for others',
  )
})

t.test('a terminal blocker is the outcome', async (t) => {
  const blocker = {
    reason: 'BackupNotCompleted',
    message: 'backup is Failed',
    terminal: true as const,
  }
  const failed = { phase: 'Failed', at: NOW.toISOString(), error: 'backup is Failed' }
  t.strictSame(nextStep(observe(), { ...facts, blocker }, context), {
    is: 'finished',
    outcome: failed,
  })
  const withMessage = { ...blocker, showMessage: true as const }
  t.strictSame(nextStep(observe(), { ...facts, blocker: withMessage }, context), {
    is: 'finished',
    outcome: { ...failed, message: 'backup is Failed' },
  })
})

t.test('an outcome is used once it cannot change any more', async (t) => {
  t.strictSame(stepWith(dataJobOf(identity, { ended: ['Failed', 5], failed: 7 })), {
    is: 'running',
    answer: { resyncAfterSeconds: REQUEUE_SOON_SECONDS },
  })
  t.strictSame(stepWith(dataJobOf(identity, { ended: ['Failed', 60], failed: 7 })), {
    is: 'finished',
    outcome: { phase: 'Failed', at: ago(60), error: 'Job crashed 7 times' },
  })
})

t.test('a Job that is not in the cache yet is neither created again nor overtaken', async (t) => {
  const blocker = { reason: 'ClusterNotFound', message: 'not found' }
  const hidden = (createdAgo: number) => {
    const liveJobs = [dataJobOf(identity, { createdAgo })]
    return nextStep({ ...observe(), liveJobs }, { ...facts, blocker }, context)
  }
  t.match(hidden(1), {
    is: 'running',
    answer: {
      conditionReason: { reason: 'JobStarting', message: 'the Job was just created' },
      resyncAfterSeconds: REQUEUE_SOON_SECONDS,
      leases: undefined,
    },
  })
  t.match(hidden(JOB_CACHE_TIMEOUT_SECONDS), {
    is: 'running',
    answer: {
      conditionReason: { message: /lost its label controller-uid/ },
      resyncAfterSeconds: RETRY_SECONDS,
    },
  })
})

t.test('a Job that loses its permission is stopped and loses its credentials', async (t) => {
  const blocker = { reason: 'RefNotPermitted', message: 'not allowed' }
  const copiedCredentials = ['engine']
  const step = stepWith(job, { blocker, copiedCredentials })
  matchWhole(t, step, {
    is: 'running',
    answer: {
      conditionReason: blocker,
      resyncAfterSeconds: REQUEUE_SOON_SECONDS,
      deleteJobs: [{ namespace: 'ns', name, uid }],
      deleteCopies: [{ namespace: 'ns', ownerUid: uid }],
    },
  })
  const other = { reason: 'ClusterNotFound', message: 'not found' }
  t.match(stepWith(job, { blocker: other }), { answer: { deleteJobs: undefined } })
})

t.test('a Job that lost its label loses its credentials with its permission too', async (t) => {
  const blocker = { reason: 'RefNotPermitted', message: 'not allowed' }
  const step = (hidden: Job) =>
    nextStep(
      { ...observe(), liveJobs: [hidden] },
      { ...facts, blocker, copiedCredentials: ['engine'] },
      context,
    )
  const hidden = dataJobOf(identity, { createdAgo: JOB_CACHE_TIMEOUT_SECONDS })
  matchWhole(t, step(hidden), {
    is: 'running',
    answer: {
      conditionReason: blocker,
      resyncAfterSeconds: REQUEUE_SOON_SECONDS,
      deleteJobs: [{ namespace: 'ns', name, uid }],
      deleteCopies: [{ namespace: 'ns', ownerUid: uid }],
    },
  })
  const ended = step(dataJobOf(identity, { ended: ['Complete', 5] }))
  t.match(ended, { is: 'running', answer: { deleteJobs: undefined, deleteCopies: undefined } })
})

t.test('a starting Job is checked again soon only if copies were written', async (t) => {
  const message = `Job ${name} is starting`
  t.match(stepWith(job), {
    is: 'running',
    answer: {
      conditionReason: { reason: 'JobStarting', message },
      resyncAfterSeconds: RETRY_SECONDS,
      writeCopies: undefined,
      deleteJobs: undefined,
    },
  })
  const copySources = [{ credential: 'engine', keys: ['key'], secret: secret({ key: 'v' }) }]
  matchWhole(t, stepWith(job, { copySources }), {
    is: 'running',
    answer: {
      conditionReason: { reason: 'JobStarting', message },
      resyncAfterSeconds: REQUEUE_SOON_SECONDS,
      writeCopies: [{ data: { key: 'dg==' } }],
      deleteJobs: undefined,
    },
  })
})

t.test('a Job that the API server refuses is reported, and requested again', async (t) => {
  const owner = (message?: string) => ({
    kind: 'VecBackup',
    metadata: { name: 'b', namespace: 'ns', generation: 1 },
    ...(message !== undefined && { status: { conditions: [completeWith(message)] } }),
  })
  const child = { apiVersion: 'batch/v1', kind: 'Job', metadata: { name } }
  const reasonAfter = (message?: string) => {
    const { conditionReason, created, resyncAfterSeconds } = creating(facts, owner(message), child)
    t.strictSame([created, resyncAfterSeconds], [[child], REQUEUE_SOON_SECONDS])
    return conditionReason
  }
  const first = { reason: 'JobStarting', message: `creating Job ${name}` }
  t.strictSame(reasonAfter(), first)
  t.strictSame(reasonAfter('creating Job b-backup-other-1'), first, 'another one')
  t.strictSame(reasonAfter(`Job ${name} lost its Lease; recreating it`), first)
  const refused = {
    reason: 'JobNotStarted',
    message: `Job ${name} could not be created: kubectl describe vecbackup b -n ns shows the cause in an Event, such as a quota or an admission webhook`,
  }
  t.strictSame(reasonAfter(first.message), refused)
  t.strictSame(reasonAfter(refused.message), refused)
})

t.test('a Job without a running pod is reported after a minute', async (t) => {
  const reasonOf = (
    status: NonNullable<Job['status']>,
    createdAgo = 61,
    spec: Partial<Job['spec']> = {},
  ) => {
    const young = dataJobOf(identity, { createdAgo })
    const step = stepWith({ ...young, status, spec: { ...specOf(young), ...spec } })
    return step.is === 'running' ? step.answer.conditionReason : undefined
  }
  const starting = { reason: 'JobStarting', message: `Job ${name} is starting` }
  const notStarted = (message: string) => ({ reason: 'JobNotStarted', message })
  t.strictSame(reasonOf({}, 60), starting)
  t.strictSame(
    reasonOf({}),
    notStarted(
      `Job ${name} has no pod: kubectl describe job ${name} -n ns shows the cause in an Event, such as a quota or an admission webhook`,
    ),
  )
  const ofPods = `kubectl describe pods -l job-name=${name} -n ns shows the cause`
  t.strictSame(
    reasonOf({ active: 1, ready: 0 }),
    notStarted(`the pod of Job ${name} does not run: ${ofPods}`),
  )
  t.strictSame(reasonOf({ active: 1 }), starting, 'no count of pods that run')
  t.strictSame(reasonOf({ active: 1, ready: 1 }), starting, 'it is about to report')
  const failed = notStarted(
    `the pods of Job ${name} have failed before their first report: ${ofPods}`,
  )
  t.strictSame(reasonOf({ failed: 2 }), failed)
  t.strictSame(reasonOf({ failed: 2, active: 1, ready: 0 }), failed)
  t.strictSame(
    reasonOf({}, 61, { suspend: true }),
    notStarted(`Job ${name} is suspended: it gets a pod once its spec.suspend is false`),
  )
  const stopping = dataJobOf(identity, { createdAgo: 700, deletionTimestamp: ago(1) })
  t.match(stepWith(stopping), {
    answer: {
      conditionReason: { reason: 'JobStarting', message: `waiting for Job ${name} to stop` },
    },
  })
})

t.test('RBAC objects that were deleted while the Job runs are created again', async (t) => {
  const object = (kind: string) => ({
    ...{ apiVersion: 'v1', kind },
    metadata: { name: 'backup-1', namespace: 'ns' },
  })
  const [account, role] = [object('ServiceAccount'), object('Role')]
  const createdFor = (only: Job, more: Partial<ObservedDataJob>, rbac = [account, role]) => {
    const step = stepWith(only, { rbac }, more)
    return step.is === 'running' ? (step.answer.created ?? []) : step
  }
  const reported = { progress: progressReport(identity) }
  t.strictSame(createdFor(job, { ...reported, children: [role, job] }), [account])
  t.strictSame(createdFor(job, { children: [role, job] }), [account], 'it has not reported')
  t.strictSame(createdFor(job, { ...reported, children: [account, role, job] }), [])
  const silent = { progress: progressReport(identity, { at: ago(STALE_REPORT_SECONDS) }) }
  t.strictSame(createdFor(job, silent), [account, role])
  t.strictSame(createdFor(job, silent, []), [], 'they are unknown')
})

t.test('a Job that has reported is never stuck', async (t) => {
  const image = dataJobOf(identity, { image: 'another' })
  const reported = { progress: progressReport(identity) }
  const calm = { is: 'running', answer: { resyncAfterSeconds: READINESS_CHECK_SECONDS } }
  t.strictSame(stepWith(image, {}, reported), calm)
  const ready = { ...image, status: { ...image.status, ready: 1 } }
  const removed = { hasStarted: true }
  t.strictSame(stepWith(ready, removed), calm, 'a user removed its report')
  for (const [only, facts] of [
    [image, removed],
    [ready, { ...removed, lostLease: true }],
  ] as const) {
    const again = { answer: { deleteJobs: [{ name }] } }
    matchWhole(t, stepWith(only, facts), again, 'removed, and no pod can write another one')
  }
  matchWhole(t, stepWith(image), { answer: { deleteJobs: [{ name }] } }, 'it has not reported')
})

t.test(
  'a suspended Job that is silent is recreated: it would hold its Lease forever',
  async (t) => {
    const silent = { progress: progressReport(identity, { at: ago(STALE_REPORT_SECONDS) }) }
    const suspended = { ...job, spec: { ...specOf(job), suspend: true } }
    matchWhole(t, stepWith(suspended, {}, silent), {
      answer: {
        conditionReason: { reason: 'JobNotStarted', message: /is suspended; recreating it$/ },
        deleteJobs: [{ namespace: 'ns' }],
      },
    })
    const unchanged = {
      answer: { conditionReason: { reason: 'JobSilent' }, deleteJobs: undefined },
    }
    t.match(stepWith(job, {}, silent), unchanged, 'its pod may still be working')
    const stopping = { ...suspended, status: { active: 1 } }
    t.match(stepWith(stopping, {}, silent), unchanged, 'its pods are not gone yet')
    const reported = { progress: progressReport(identity) }
    t.match(stepWith(suspended, {}, reported), {
      answer: { conditionReason: undefined, deleteJobs: undefined },
    })
  },
)

t.test('a stuck Job is deleted by its uid, with the reason why it is recreated', async (t) => {
  const stuck = (only: Job, reason: string, overrides: Partial<JobFacts> = {}) =>
    t.strictSame(stepWith(only, overrides), {
      is: 'running',
      answer: {
        conditionReason: {
          reason: 'JobNotStarted',
          message: `Job ${name} ${reason}; recreating it`,
        },
        resyncAfterSeconds: REQUEUE_SOON_SECONDS,
        deleteJobs: [{ namespace: 'ns', name, uid }],
      },
    })
  stuck(dataJobOf(identity, { image: 'another' }), 'has an outdated image')
  stuck(job, 'lost its Lease', { lostLease: true })
  stuck(job, 'has an outdated plan', { desiredHash: 'newer' })
  const old = dataJobOf(identity, { createdAgo: FIRST_REPORT_TIMEOUT_SECONDS })
  stuck(old, `has not reported for ${FIRST_REPORT_TIMEOUT_SECONDS} s`)
})

t.test(
  'a Job whose image admission has rewritten is not recreated, but one of an old image is',
  (t) => {
    const createdWith = (image: string, podImage: string) => {
      const created = dataJobOf(identity, { image: podImage })
      const { annotations } = created.metadata
      created.metadata.annotations = { ...annotations, [ANNOTATIONS.image]: image }
      return created
    }
    const rewritten = createdWith(settings.image, 'mirror/vec-operator@sha256:0a')
    t.strictSame(stepWith(rewritten), stepWith(job))
    matchWhole(t, stepWith(createdWith('old', settings.image)), {
      answer: {
        conditionReason: { message: `Job ${name} has an outdated image; recreating it` },
        deleteJobs: [{ namespace: 'ns', name, uid }],
      },
    })
    t.end()
  },
)

t.test('a Job that ended without a final report has crashed, once that is sure', async (t) => {
  const crashed = { jobs: [dataJobOf(identity, { ended: ['Failed', 60], failed: 7 })] }
  t.ok(needsLiveProgress(crashed, context), 'it never reported')
  t.ok(
    needsLiveProgress({ ...crashed, progress: progressReport(identity) }, context),
    'it reported only its start',
  )
  const reported = { ...crashed, progress: progressReport(identity, { state: 'Failed' }) }
  t.notOk(needsLiveProgress(reported, context), 'it reported its outcome')
  const justEnded = { jobs: [dataJobOf(identity, { ended: ['Failed', 5], failed: 7 })] }
  t.notOk(needsLiveProgress(justEnded, context), 'its report may still arrive')
  t.notOk(needsLiveProgress({ jobs: [job] }, context), 'it is running')
  t.notOk(needsLiveProgress({ jobs: [] }, context), 'there is none')
})

t.test('RBAC objects stay until every Job has finished', async (t) => {
  const [running, ended] = [
    dataJobOf(identity, { run: 2 }),
    dataJobOf(identity, { ended: ['Failed', 60] }),
  ]
  const account = {
    ...{ apiVersion: 'v1', kind: 'ServiceAccount' },
    metadata: { name: 'backup-1', namespace: 'ns' },
  }
  const retained = (jobs: (typeof job)[]) =>
    afterFinished({ jobs, children: [account, ...jobs] }, 'it has ended', context)
  t.strictSame(
    retained([running, ended]).children.map(({ kind }) => kind),
    ['ServiceAccount', 'Job', 'Job'],
  )
  t.strictSame(retained([ended]).pruned, [
    { kind: 'ServiceAccount', name: 'backup-1', reason: 'it has ended' },
  ])
})

function specOf({ spec }: Job): NonNullable<Job['spec']> {
  if (spec === undefined) throw new Error('a Job without a spec')
  return spec
}

function completeWith(message: string) {
  const fields = { type: 'Complete', status: 'False', reason: 'JobStarting' } as const
  return { ...fields, message, lastTransitionTime: ago(60), observedGeneration: 1 }
}
