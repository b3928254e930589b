/** The backup before spec.hibernate stops the pods: what is requested, what is awaited, and what the way out is. */
import t from 'tap'
import type { VecBackup } from '../../../crds/backup.ts'
import type { VecBackupSchedule } from '../../../crds/backup-schedule.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { criticalConditions } from '../../../crds/critical-conditions.ts'
import type { KeyAnswers } from '../../../hooks/cluster/keys/ports.ts'
import { BackgroundTasks } from '../../../hooks/background-task.ts'
import { HelmConcurrency } from '../../../hooks/cluster/helm-slots.ts'
import type { HibernationBackup } from '../../../hooks/cluster/hibernation-backup.ts'
import { findPendingRun } from '../../../hooks/cluster/job.ts'
import { observe, type Dependencies } from '../../../hooks/cluster/observe.ts'
import type { ClusterPorts, Observed, PodConsensus } from '../../../hooks/cluster/ports.ts'
import { nextShardStep } from '../../../hooks/cluster/shards/next-step.ts'
import type { ShardsSummary } from '../../../hooks/cluster/shards/summary.ts'
import { withKstatus } from '../../../hooks/conditions.ts'
import {
  applied,
  context,
  NOW,
  progress,
  statefulSet,
  type ClusterOverrides,
} from '../../builders.ts'
import { backup as backupOf, schedule as scheduleOf } from '../backup-schedule/stage.ts'
import { createdJob } from '../decisions.ts'
import { hookRequest } from '../request.ts'
import { condition, rbac, sync, upgradePlan } from './decisions.ts'
import { fakePorts } from './ports.ts'
import { heldLeases, observedShards, recordedNodes, threeNodes } from './shards.ts'

const HIBERNATION = { backupScheduleRef: { name: 'nightly' } }
const REQUEST: HibernationBackup = {
  scheduleName: 'nightly',
  name: 'nightly-20260301-000000',
  requestTime: '2026-03-01T00:00:00Z',
  afterRun: 1,
}
const HINT = 'accept the risk with the annotation vec-operator.dev/accept-risk: no-backup'

const SCHEDULE = scheduleOf()
const { namespace, name } = { namespace: 'ns', name: 'a' }

function backup(phase: 'InProgress' | 'Completed' | 'Failed', error?: string): VecBackup {
  const made = backupOf(REQUEST.requestTime, { phase })
  const { apiVersion, kind } = SCHEDULE
  const owner = { apiVersion, kind, name: 'nightly', uid: 'uid-nightly', controller: true }
  const metadata = { ...made.metadata, ownerReferences: [owner] }
  return {
    ...made,
    metadata,
    status: { ...made.status, phase, ...(error !== undefined && { error }) },
  }
}

function hibernating({ spec, status, ...rest }: ClusterOverrides = {}) {
  return threeNodes({
    ...rest,
    spec: { hibernate: true, hibernation: HIBERNATION, ...spec },
    status: { phase: 'Running', formedNodes: 3, ...status },
  })
}

const RUN_DUE = { progress: progress({ applied: applied() }), unfinishedHelmJobs: 0 }

/** The run that stops the pods is due. */
function due(
  cluster: ClusterOverrides = {},
  found: Observed['hibernationBackup'] = { schedule: SCHEDULE },
  parts: Partial<Observed> = {},
) {
  return observedShards({
    cluster: hibernating(cluster),
    hibernationBackup: found,
    ...RUN_DUE,
    ...parts,
  })
}

/** As above, after the request. */
function requested(found: VecBackup | undefined, schedule: VecBackupSchedule = SCHEDULE) {
  return due(
    { status: { hibernationBackup: REQUEST } },
    { schedule, ...(found && { backup: found }) },
  )
}

function dependencies(ports: ClusterPorts): Dependencies {
  return {
    ...{ ports, helmConcurrency: new HelmConcurrency() },
    consensus: new BackgroundTasks<PodConsensus[]>(15),
    shards: new BackgroundTasks<ShardsSummary>(60),
    nodeKeys: new BackgroundTasks<KeyAnswers>(60),
  }
}

t.test('the backup is requested in the status, and no helm run starts', async (t) => {
  const decision = sync(due(), context)
  t.equal(createdJob(decision), undefined)
  const { hibernationBackup } = decision.status
  t.strictSame(hibernationBackup, {
    scheduleName: 'nightly',
    name: `nightly-${NOW.toISOString().slice(0, 19).replaceAll(/[-:]/g, '').replace('T', '-')}`,
    requestTime: `${NOW.toISOString().slice(0, 19)}Z`,
    afterRun: 1,
  })
  t.strictSame(condition(decision, 'Applied'), [
    ...['False', 'AwaitingBackup'],
    `waiting for VecBackupSchedule nightly to create VecBackup ${hibernationBackup?.name} before the pods are stopped`,
  ])
  t.equal(decision.status.phase, 'Running')
  t.equal(decision.resyncAfterSeconds, 2)
})

t.test('the same backup stays requested, and its state is awaited', async (t) => {
  const message = 'waiting for VecBackup nightly-20260301-000000 before the pods are stopped'
  const waiting = backup('InProgress')
  const pending = {
    ...waiting,
    status: {
      phase: 'Pending' as const,
      conditions: [
        {
          ...{ type: 'Complete', status: 'False' as const, reason: 'ClusterNotReady' },
          ...{ message: 'cluster ns/a is Upgrading, not Running', observedGeneration: 1 },
          lastTransitionTime: REQUEST.requestTime,
        },
      ],
    },
  }
  for (const [found, expected] of [
    [waiting, message],
    [pending, `${message}: cluster ns/a is Upgrading, not Running`],
  ] as const) {
    const decision = sync(requested(found), context)
    t.equal(createdJob(decision), undefined)
    t.strictSame(condition(decision, 'Applied'), ['False', 'AwaitingBackup', expected])
    t.strictSame(decision.status.hibernationBackup, REQUEST)
    t.equal(decision.resyncAfterSeconds, 10)
    t.strictSame(
      decision.events?.map(({ reason }) => reason),
      ['RolloutComplete'],
    )
    const { conditions = [] } = withKstatus(hibernating(), decision.status, context.now)
    t.strictSame(criticalConditions(conditions), [])
    t.match(conditions.at(-1), { type: 'Reconciling', reason: 'AwaitingBackup' })
  }
})

t.test('the Lease is released to the backup', async (t) => {
  const leases = heldLeases(2)
  const observed = { ...requested(backup('InProgress')), leases }
  t.equal(
    sync(observed, context).leases?.some(({ lease }) => lease === leases.backup.lease),
    true,
  )
})

t.test('a Completed backup is recorded, and helm stops the pods', async (t) => {
  const decision = sync(requested(backup('Completed')), context)
  t.match(upgradePlan(decision).values, { replicaCount: 0 })
  const { completionTime } = backup('Completed').status ?? {}
  t.type(completionTime, 'string')
  const recorded = { ...REQUEST, completionTime }
  t.strictSame(decision.status.hibernationBackup, recorded)
  // Deleted since: the record is enough.
  const later = due({ status: { hibernationBackup: { ...REQUEST, completionTime: 'then' } } }, {})
  t.match(upgradePlan(sync(later, context)).values, { replicaCount: 0 })
})

t.test('a backup counts for an hour: pods that are stopped later need another one', async (t) => {
  const completedBefore = (seconds: number) => {
    const completionTime = new Date(NOW.getTime() - seconds * 1000).toISOString()
    const hibernationBackup = { ...REQUEST, completionTime: `${completionTime.slice(0, 19)}Z` }
    return due({ status: { hibernationBackup } })
  }
  t.match(upgradePlan(sync(completedBefore(3600), context)).values, { replicaCount: 0 })
  const decision = sync(completedBefore(3601), context)
  t.equal(createdJob(decision), undefined)
  t.equal(condition(decision, 'Applied')?.[1], 'AwaitingBackup')
  const { hibernationBackup } = decision.status
  t.equal(hibernationBackup?.requestTime, `${NOW.toISOString().slice(0, 19)}Z`)
  t.equal(hibernationBackup?.completionTime, undefined)
})

t.test('no other backup is requested while the spec cannot be applied', async (t) => {
  const completionTime = '2000-01-01T00:00:00Z'
  const status = { hibernationBackup: { ...REQUEST, completionTime } }
  const spec = { maintenanceWindows: [{ schedule: 'x', duration: '1h' }] }
  const decision = sync(due({ spec, status }), context)
  t.equal(condition(decision, 'Applied')?.[1], 'InvalidSpec')
  t.strictSame(decision.status.hibernationBackup, status.hibernationBackup)
})

t.test('a failed backup blocks the hibernation, and the message says what to do', async (t) => {
  const decision = sync(requested(backup('Failed', 'docs: disk full')), context)
  t.equal(createdJob(decision), undefined)
  t.strictSame(condition(decision, 'Applied'), [
    ...['False', 'HibernationBackupFailed'],
    `VecBackup nightly-20260301-000000 failed: docs: disk full; no pod was stopped. Delete it, and another one is created; or set spec.hibernate to false, or ${HINT}`,
  ])
  t.match(decision.events?.at(-1), { type: 'Warning', reason: 'HibernationBackupFailed' })
  const { conditions = [] } = withKstatus(hibernating(), decision.status, context.now)
  t.match(conditions.at(-1), { type: 'Stalled', reason: 'HibernationBackupFailed' })
})

t.test('after the failed backup was deleted another one is requested', async (t) => {
  const before = scheduleOf({ status: { lastScheduleTime: '2026-02-28T23:00:00Z' } })
  t.strictSame(sync(requested(undefined, before), context).status.hibernationBackup, REQUEST)
  const after = scheduleOf({ status: { lastScheduleTime: REQUEST.requestTime } })
  const { hibernationBackup } = sync(requested(undefined, after), context).status
  t.equal(hibernationBackup?.requestTime, `${NOW.toISOString().slice(0, 19)}Z`)
})

t.test('a slot that is ahead of the clock does not cause one request after another', async (t) => {
  const tomorrow = new Date(NOW.getTime() + 86_400_000).toISOString().slice(0, 19)
  const ahead = scheduleOf({ status: { lastScheduleTime: `${tomorrow}Z` } })
  const { hibernationBackup } = sync(due({}, { schedule: ahead }), context).status
  t.ok(
    (hibernationBackup?.requestTime ?? '') > `${tomorrow}Z`,
    'the schedule creates no earlier one',
  )
  const status = { ...(hibernationBackup && { hibernationBackup }) }
  const next = sync(due({ status }, { schedule: ahead }), context)
  t.strictSame(next.status.hibernationBackup, hibernationBackup)
  t.equal(next.resyncAfterSeconds, 10)
})

t.test('a schedule that creates no backup says why', async (t) => {
  const ready = {
    ...{ type: 'Ready', status: 'False' as const, reason: 'HistoryTooLarge' },
    ...{ message: 'no backup is created: too many', observedGeneration: 1 },
    lastTransitionTime: REQUEST.requestTime,
  }
  const full = scheduleOf({ status: { conditions: [ready] } })
  t.match(
    condition(sync(requested(undefined, full), context), 'Applied')?.[2],
    /before the pods are stopped: no backup is created: too many$/,
  )
})

t.test('a schedule that cannot create the backup is named', async (t) => {
  const label = 'VecBackupSchedule nightly of spec.hibernation'
  const rest = `; correct it, set spec.hibernate to false, or ${HINT}`
  const appliedWith = (found: Observed['hibernationBackup']) =>
    condition(sync(due({}, found), context), 'Applied')
  t.strictSame(appliedWith({}), [
    ...['False', 'BackupScheduleInvalid'],
    `${label} does not exist${rest}`,
  ])
  const gone = sync(due({ status: { hibernationBackup: REQUEST } }, {}), context)
  t.equal(gone.resyncAfterSeconds, 10, 'also after the request')
  t.equal(
    appliedWith({ schedule: scheduleOf({ deletionTimestamp: REQUEST.requestTime }) })?.[2],
    `${label} is being deleted${rest}`,
  )
  for (const clusterRef of [{ name: 'b' }, { name, namespace: 'other' }]) {
    const target = `${clusterRef.namespace ?? namespace}/${clusterRef.name}`
    t.equal(
      appliedWith({ schedule: scheduleOf({ spec: { clusterRef } }) })?.[2],
      `${label} is for cluster ${target}${rest}`,
    )
  }
})

t.test(
  'a backup of the requested name that the schedule does not own is not awaited',
  async (t) => {
    const { metadata, ...rest } = backup('Completed')
    const { ownerReferences: _, ...unowned } = metadata
    const decision = sync(requested({ ...rest, metadata: unowned }), context)
    t.equal(createdJob(decision), undefined)
    t.strictSame(condition(decision, 'Applied'), [
      ...['False', 'BackupScheduleInvalid'],
      `VecBackup nightly-20260301-000000 does not belong to VecBackupSchedule nightly: set spec.hibernate to false and to true again, or ${HINT}`,
    ])
    t.strictSame(decision.status.hibernationBackup, REQUEST)
  },
)

t.test('the pods are stopped without a backup', async (t) => {
  const stopped = (observed: Observed) => upgradePlan(sync(observed, context)).values
  const none = { replicaCount: 0 }
  const annotations = { [ANNOTATIONS.acceptRisk]: 'no-backup' }
  const accepted = due({ annotations, status: { hibernationBackup: REQUEST } }, {})
  t.match(stopped(accepted), none, 'the annotation accepts it')
  t.strictSame(upgradePlan(sync(accepted, context)).acceptedRisks, [], 'helm checks no such risk')
  t.match(stopped(due({ spec: { hibernation: {} } }, {})), none, 'no schedule is named')
  t.match(stopped(due({}, {}, { statefulSet: statefulSet(0) })), none, 'no pod runs')
})

t.test('spec.hibernate false ends the wait and the request', async (t) => {
  const back = due({ spec: { hibernate: false }, status: { hibernationBackup: REQUEST } }, {})
  const decision = sync(back, context)
  t.match(upgradePlan(decision).values, { replicaCount: 3 })
  t.equal(decision.status.hibernationBackup, undefined)
})

t.test('another schedule needs another request', async (t) => {
  const other = { backupScheduleRef: { name: 'weekly' } }
  const weekly = scheduleOf()
  const schedule = { ...weekly, metadata: { ...weekly.metadata, name: 'weekly' } }
  const status = { hibernationBackup: { ...REQUEST, completionTime: 'then' } }
  const { hibernationBackup } = sync(
    due({ spec: { hibernation: other }, status }, { schedule }),
    context,
  ).status
  t.match(hibernationBackup, { scheduleName: 'weekly', name: /^weekly-/ })
  t.equal(hibernationBackup?.completionTime, undefined)
})

t.test('pods that were started again since the backup need another one', async (t) => {
  const status = { hibernationBackup: { ...REQUEST, afterRun: 0, completionTime: 'then' } }
  const decision = sync(due({ status }), context)
  t.equal(createdJob(decision), undefined)
  t.equal(decision.status.hibernationBackup?.afterRun, 1)
  t.equal(decision.status.hibernationBackup?.completionTime, undefined)
})

t.test('the backup stays in the status while the cluster is hibernated', async (t) => {
  const hibernationBackup = { ...REQUEST, completionTime: 'then' }
  const asleep = observedShards({
    cluster: hibernating({ status: { phase: 'Hibernated', hibernationBackup } }),
    statefulSet: statefulSet(0),
    progress: progress({ applied: applied({ run: 2 }) }),
  })
  const { shards: _, ...observed } = asleep
  t.strictSame(sync(observed, context).status.hibernationBackup, hibernationBackup)
})

t.test('replicas are repaired and nodes updated before the backup, not after it', async (t) => {
  const completed = { hibernationBackup: { ...REQUEST, completionTime: 'then' } }
  const repair = { repair: { is: 'step', purpose: 'repair' } } as const
  const update = { repair: { is: 'done' }, update: { is: 'step', purpose: 'update' } } as const
  const set = statefulSet(3)
  const outdated = {
    ...set,
    spec: { ...set.spec, updateStrategy: { rollingUpdate: { partition: 3 } } },
    status: { ...set.status, currentRevision: 'r1', updateRevision: 'r2' },
  }
  const nodes = recordedNodes(3).map(({ ordinal }) => ({ ordinal, revision: 'r1' }))
  const stepWith = (
    status: NonNullable<ClusterOverrides['status']>,
    plans: NonNullable<Parameters<typeof observedShards>[1]>['plans'],
  ) => {
    const parts = { cluster: hibernating({ status }), statefulSet: outdated, ...RUN_DUE }
    const pendingRun = findPendingRun(observedShards(parts), context.settings)
    const observed = observedShards(parts, { nodes, ...(plans && { plans }) })
    const step = nextShardStep({ ...observed, ...(pendingRun && { pendingRun }) }, context)
    return step.is === 'due' ? step.work.goal : step.is
  }
  t.equal(stepWith({}, repair), 'repair')
  t.equal(stepWith({}, update), 'update')
  t.equal(stepWith(completed, repair), 'none')
  t.equal(stepWith(completed, update), 'none')
})

t.test('a repair that has ended early continues before the backup', async (t) => {
  const shards = {
    ...{ startedAt: REQUEST.requestTime, stepsDone: 3, stepsLeft: 2, bytesMoved: 0, bytesLeft: 0 },
    ...{ moves: [], isYielded: true },
  }
  const yielded = { progress: progress({ verb: 'shards', applied: applied(), shards }) }
  const observed = due({}, undefined, yielded)
  const pendingRun = findPendingRun(observed, context.settings)
  const plans = { repair: { is: 'step', purpose: 'repair' } } as const
  const summary = { ...observed.shards, plans } as ShardsSummary
  const step = nextShardStep(
    { ...observed, shards: summary, ...(pendingRun && { pendingRun }) },
    context,
  )
  t.equal(step.is === 'due' && step.work.goal, 'repair')
})

t.test(
  'pods that run again need a backup, although the cache shows none of them yet',
  async (t) => {
    const hibernationBackup = { ...REQUEST, afterRun: 0, completionTime: 'then' }
    const annotations = {
      [ANNOTATIONS.progress]: JSON.stringify(progress({ applied: applied() })),
    }
    const decisionWith = async (live: number) => {
      const { ports } = fakePorts({
        schedule: async () => SCHEDULE,
        statefulSet: async () => statefulSet(live),
      })
      const cluster = hibernating({ annotations, status: { hibernationBackup } })
      const observed = await observe(
        hookRequest(cluster, rbac, [statefulSet(0)]),
        dependencies(ports),
        context,
      )
      return sync({ ...observed, leases: heldLeases(2) }, context)
    }
    const again = await decisionWith(3)
    t.equal(createdJob(again), undefined)
    t.equal(condition(again, 'Applied')?.[1], 'AwaitingBackup')
    t.equal(again.status.hibernationBackup?.afterRun, 1)
    const asleep = await decisionWith(0)
    t.match(upgradePlan(asleep).values, { replicaCount: 0 }, 'no pod runs')
  },
)

t.test('schedule and backup are read only while the backup is awaited', async (t) => {
  const read: string[] = []
  const { ports } = fakePorts({
    async schedule(of, which) {
      read.push(`${of}/${which}`)
      return SCHEDULE
    },
    async backup(of, which) {
      read.push(`${of}/${which}`)
      return backup('InProgress')
    },
  })
  const annotations = {
    [ANNOTATIONS.progress]: JSON.stringify(progress({ applied: applied() })),
  }
  const look = (overrides: ClusterOverrides, replicas = 3) =>
    observe(
      hookRequest(hibernating({ annotations, ...overrides }), [], [statefulSet(replicas)]),
      dependencies(ports),
      context,
    )
  await look({})
  t.strictSame(read.splice(0), ['ns/nightly'], 'nothing is requested yet')
  const { hibernationBackup } = await look({ status: { hibernationBackup: REQUEST } })
  t.strictSame(read.splice(0), ['ns/nightly', `ns/${REQUEST.name}`])
  t.strictSame(hibernationBackup, { schedule: SCHEDULE, backup: backup('InProgress') })
  await look({ spec: { hibernate: false } })
  await look({}, 0)
  await look({ status: { hibernationBackup: { ...REQUEST, completionTime: 'then' } } })
  t.strictSame(read, [])
})
