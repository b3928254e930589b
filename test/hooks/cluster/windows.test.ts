/** Maintenance windows: when they are open, and what waits for them. */
import t from 'tap'
import { ANNOTATIONS, LABELS } from '../../../crds/contract/names.ts'
import { ShardsPlan } from '../../../crds/contract/shards-job.ts'
import type { ClusterSpec } from '../../../crds/cluster.ts'
import { desiredRun } from '../../../hooks/cluster/job.ts'
import type { Observed } from '../../../hooks/cluster/ports.ts'
import type { PlanOutcome, ShardsSummary } from '../../../hooks/cluster/shards/summary.ts'
import { awaitedWindow } from '../../../hooks/cluster/windows.ts'
import { resyncAtWindow, windowsError, windowState } from '../../../hooks/maintenance-windows.ts'
import {
  ago,
  applied,
  cluster,
  context,
  helmJob,
  NOW,
  progress,
  settings,
  statefulSet,
  type ClusterOverrides,
} from '../../builders.ts'
import { createdJob, jobPlan } from '../decisions.ts'
import { condition, ready, sync, upgradePlan } from './decisions.ts'
import { heldLeases, observedShards, threeNodes } from './shards.ts'

type Windows = NonNullable<ClusterSpec['maintenanceWindows']>

/** Saturdays from 02:00 to 05:00. */
const SATURDAY: Windows = [{ schedule: '0 2 * * 6', duration: '3h' }]
const DONE: PlanOutcome = { is: 'done' }

function stateAt(time: string, windows: Windows, annotations = {}) {
  const state = windowState(
    cluster({ spec: { maintenanceWindows: windows }, annotations }),
    new Date(time),
  )
  const instant = state.is === 'open' ? state.endsAt : state.opensAt
  return [state.is, instant?.toISOString()]
}

t.test('a window is open from its beginning until its duration has passed', async (t) => {
  t.strictSame(stateAt('2026-02-28T01:59:59Z', SATURDAY), ['closed', '2026-02-28T02:00:00.000Z'])
  t.strictSame(stateAt('2026-02-28T02:00:00Z', SATURDAY), ['open', '2026-02-28T05:00:00.000Z'])
  t.strictSame(stateAt('2026-02-28T04:59:59Z', SATURDAY), ['open', '2026-02-28T05:00:00.000Z'])
  t.strictSame(stateAt('2026-02-28T05:00:00Z', SATURDAY), ['closed', '2026-03-07T02:00:00.000Z'])
})

t.test('of several windows, the next one begins and the last one ends', async (t) => {
  const windows = [...SATURDAY, { schedule: '0 4 * * *', duration: '2h' }]
  t.strictSame(stateAt('2026-02-28T03:00:00Z', windows), ['open', '2026-02-28T05:00:00.000Z'])
  t.strictSame(stateAt('2026-02-28T04:30:00Z', windows), ['open', '2026-02-28T06:00:00.000Z'])
  t.strictSame(stateAt('2026-02-28T12:00:00Z', windows), ['closed', '2026-03-01T04:00:00.000Z'])
})

t.test('a time zone moves the window, also over a change of its clocks', async (t) => {
  const berlin = [{ schedule: '0 2 * * 6', duration: '3h', timeZone: 'Europe/Berlin' }]
  t.strictSame(stateAt('2026-02-28T00:59:59Z', berlin), ['closed', '2026-02-28T01:00:00.000Z'])
  t.strictSame(stateAt('2026-02-28T01:00:00Z', berlin), ['open', '2026-02-28T04:00:00.000Z'])
  t.strictSame(stateAt('2026-03-30T12:00:00Z', berlin), ['closed', '2026-04-04T00:00:00.000Z'])
})

t.test('a window whose hour the clocks skip does not open on that day', async (t) => {
  const berlin = [{ schedule: '30 2 * * *', duration: '3h', timeZone: 'Europe/Berlin' }]
  const next = '2026-03-30T00:30:00.000Z'
  for (const time of ['2026-03-29T01:29:59Z', '2026-03-29T01:30:00Z', '2026-03-29T03:00:00Z']) {
    t.strictSame(stateAt(time, berlin), ['closed', next])
  }
  t.strictSame(stateAt(next, berlin), ['open', '2026-03-30T03:30:00.000Z'])
})

t.test('a window that lasts longer than the time between two of them is always open', async (t) => {
  const hourly = [{ schedule: '0 * * * *', duration: '90m', timeZone: 'Europe/Berlin' }]
  t.strictSame(stateAt('2026-02-28T12:20:00Z', hourly), ['open', '2026-02-28T13:30:00.000Z'])
  const century = [{ schedule: '0 0 29 2 *', duration: '876000h', timeZone: 'Europe/Berlin' }]
  t.strictSame(stateAt('2026-02-28T12:20:00Z', century), ['open', '2124-02-04T23:00:00.000Z'])
})

t.test('windows that open once in years are judged in an instant, open or not', async (t) => {
  const zones = ['Europe/Berlin', 'America/Sao_Paulo', 'Asia/Beirut', 'Antarctica/Troll']
  const rare = (duration: string) =>
    [...zones, ...zones, ...zones, ...zones].map((timeZone, minute) => ({
      ...{ schedule: `${minute} 2 29 2 *`, duration, timeZone },
    }))
  const judged: [string, [string, string]][] = [
    ['3h', ['closed', '2028-02-29T00:02:00.000Z']],
    ['876000h', ['open', '2124-02-05T05:13:00.000Z']],
  ]
  for (const [duration, expected] of judged) {
    const windows = rare(duration)
    stateAt('2026-03-01T12:00:00Z', windows)
    const before = process.cpuUsage()
    t.strictSame(stateAt('2026-03-01T12:00:00Z', windows), expected)
    const { user, system } = process.cpuUsage(before)
    t.ok((user + system) / 1000 < 600, `${(user + system) / 1000} ms of the processor`)
  }
})

t.test('without windows, or with the annotation, nothing waits', async (t) => {
  t.strictSame(windowState(cluster(), NOW), { is: 'open' })
  t.strictSame(stateAt('2026-02-28T12:00:00Z', []), ['open', undefined])
  const now = { [ANNOTATIONS.maintenance]: 'now' }
  t.strictSame(stateAt('2026-02-28T12:00:00Z', SATURDAY, now), ['open', undefined])
  const other = { [ANNOTATIONS.maintenance]: 'later' }
  t.equal(stateAt('2026-02-28T12:00:00Z', SATURDAY, other)[0], 'closed')
})

t.test('a window that cannot be used is named with its field, and never opens', async (t) => {
  const errorOf = (...maintenanceWindows: Windows) =>
    windowsError(cluster({ spec: { maintenanceWindows } }).spec)
  const february = { schedule: '0 0 30 2 *', duration: '1h' }
  t.match(errorOf(...SATURDAY, february), /^spec\.maintenanceWindows\[1\]\.schedule: /)
  t.match(errorOf({ schedule: 'weekly', duration: '1h' }), /\[0\]\.schedule: not a cron expression/)
  t.equal(
    errorOf({ schedule: '0 2 * * 6', duration: '1h', timeZone: 'Mars/North' }),
    'spec.maintenanceWindows[0].timeZone: Mars/North is not a time zone of the IANA database',
  )
  t.equal(errorOf(...SATURDAY), undefined)
  t.equal(windowsError(cluster().spec), undefined)
  t.strictSame(stateAt('2026-02-28T12:00:00Z', [february]), ['closed', undefined])
  const never = cluster({ spec: { maintenanceWindows: [february] } })
  t.strictSame(awaitedWindow(never, NOW), {
    reason: 'MaintenanceWindow',
    message: 'waits for a valid maintenance window',
  })
  t.equal(resyncAtWindow(never, NOW, 30), 30)
  t.strictSame(stateAt('2026-02-28T03:00:00Z', [february, ...SATURDAY]), [
    ...['open', '2026-02-28T05:00:00.000Z'],
  ])
})

t.test('the next check is not later than the window', async (t) => {
  const secondsAt = (time: string) =>
    resyncAtWindow(cluster({ spec: { maintenanceWindows: SATURDAY } }), new Date(time), 30)
  t.equal(secondsAt('2026-02-28T01:59:50Z'), 10)
  t.equal(secondsAt('2026-02-28T01:59:59.500Z'), 1)
  t.equal(secondsAt('2026-02-28T01:00:00Z'), 30)
  t.equal(secondsAt('2026-02-28T03:00:00Z'), 30)
  t.equal(resyncAtWindow(cluster(), NOW, 30), 30)
})

/** Next window in an hour, and one that is open. */
const LATER: Windows = [{ schedule: minuteOf(3600), duration: '1h' }]
const OPEN: Windows = [{ schedule: minuteOf(-600), duration: '1h' }]
const OPENS = new Date(Math.floor((NOW.getTime() + 3_600_000) / 60_000) * 60_000)
const WAITS = `waits for the maintenance window that begins at ${OPENS.toISOString().slice(0, 19)}Z`

function minuteOf(seconds: number): string {
  const at = new Date(NOW.getTime() + seconds * 1000)
  return `${at.getUTCMinutes()} ${at.getUTCHours()} * * *`
}

function windowed(maintenanceWindows: Windows, { spec, ...rest }: ClusterOverrides = {}) {
  return threeNodes({ ...rest, spec: { maintenanceWindows, ...spec } })
}

/** A helm run of another generation is due; `isSame`: its pods stay as they are. */
function runDue(
  observed: Observed['cluster'],
  { isSame = false, ...parts }: Partial<Observed> & { isSame?: boolean } = {},
) {
  const known = observedShards({ cluster: observed, unfinishedHelmJobs: 0, ...parts })
  const { podsHash } = desiredRun(known, settings)
  const release = applied({ ...(podsHash !== undefined && { podsHash: isSame ? podsHash : 'x' }) })
  return { ...known, progress: progress({ applied: release }) }
}

t.test('a helm run that may restart pods waits for the window, without the Leases', async (t) => {
  const decision = sync(runDue(windowed(LATER)), context)
  t.equal(createdJob(decision), undefined)
  t.strictSame(condition(decision, 'Applied'), ['False', 'MaintenanceWindow', WAITS])
  t.strictSame(
    decision.leases?.map(({ action }) => action),
    ['drop', 'drop'],
  )
  t.equal(decision.resyncAfterSeconds, 30)
  t.equal(decision.status.phase, 'Running')
  t.strictSame(
    decision.events?.filter(({ reason }) => reason === 'MaintenanceWindow'),
    [],
  )
  t.type(createdJob(sync(runDue(windowed(OPEN)), context)), 'object')
  const annotations = { [ANNOTATIONS.maintenance]: 'now' }
  t.type(createdJob(sync(runDue(windowed(LATER, { annotations })), context)), 'object')
})

t.test('a run without a recorded hash of its pods waits too', async (t) => {
  const known = runDue(windowed(LATER))
  const decision = sync({ ...known, progress: progress({ applied: applied() }) }, context)
  t.equal(condition(decision, 'Applied')?.[1], 'MaintenanceWindow')
})

t.test('a helm run that leaves the pods as they are does not wait', async (t) => {
  for (const spec of [
    {},
    { replicas: 5 },
    { podDisruptionBudget: { enabled: true, maxUnavailable: 2 } },
  ]) {
    const before = observedShards({ cluster: windowed(LATER) })
    const { podsHash } = desiredRun(before, settings)
    const release = applied(podsHash === undefined ? {} : { podsHash })
    const decision = sync(
      {
        ...observedShards({ cluster: windowed(LATER, { spec }), unfinishedHelmJobs: 0 }),
        progress: progress({ applied: release }),
      },
      context,
    )
    t.equal(upgradePlan(decision).podsHash, podsHash, 'it is recorded')
  }
})

for (const [what, spec] of [
  ['resources', { resources: { requests: { cpu: '2' } } }],
  ['version', { version: '1.17.0' }],
  ['config', { config: { log_level: 'DEBUG' } }],
] as const) {
  t.test(`a change of spec.${what} may restart pods`, async (t) => {
    const hashOf = (overrides: ClusterOverrides) =>
      desiredRun(observedShards({ cluster: windowed(LATER, overrides) }), settings).podsHash
    t.not(hashOf({ spec }), hashOf({}))
    t.equal(hashOf({ generation: 7 }), hashOf({}))
    const started = { [ANNOTATIONS.restartedAt]: 'now' }
    t.equal(hashOf({ annotations: started }), hashOf({}), 'a start of the operator is no change')
    const persistence = { ...threeNodes().spec.persistence, size: '20Gi' }
    t.equal(hashOf({ spec: { persistence } }), hashOf({}), 'volumes grow while their pods run')
  })
}

t.test('the first install, hibernation and its end do not wait', async (t) => {
  const spec = { maintenanceWindows: LATER }
  t.type(createdJob(sync(ready({ cluster: cluster({ spec }) }), context)), 'object')
  t.type(
    createdJob(sync(runDue(windowed(LATER, { spec: { hibernate: true } })), context)),
    'object',
  )
  const woken = windowed(LATER, { status: { phase: 'Hibernated' } })
  const { shards: _, ...asleep } = runDue(woken, { statefulSet: statefulSet(0) })
  t.type(createdJob(sync(asleep, context)), 'object')
  const { statefulSet: _set, ...withoutPods } = runDue(windowed(LATER))
  t.type(createdJob(sync(withoutPods, context)), 'object', 'a StatefulSet that was deleted')
})

t.test('nodes that are removed without a drain wait, whatever their pods are', async (t) => {
  const annotations = { [ANNOTATIONS.acceptRisk]: 'shard-loss' }
  const smaller = windowed(LATER, { annotations, spec: { replicas: 2 } })
  const decision = sync(runDue(smaller, { isSame: true }), context)
  t.equal(condition(decision, 'Applied')?.[1], 'MaintenanceWindow')
})

t.test('a run that failed says so while it waits for the next window', async (t) => {
  const known = runDue(windowed(LATER))
  const { hash: plan } = desiredRun(known, settings)
  const failed = progress({
    ...{ state: 'Failed', plan, at: ago(60), reason: 'HelmFailed', message: 'timed out' },
    applied: applied({ podsHash: 'x' }),
  })
  const decision = sync({ ...known, progress: failed }, context)
  t.strictSame(condition(decision, 'Applied'), [
    ...['False', 'HelmFailed', `timed out; the next attempt ${WAITS}`],
  ])
  t.strictSame(decision.status.failedRun, { reason: 'HelmFailed', message: 'timed out' })
  const open = { ...runDue(windowed(OPEN)), progress: failed }
  t.notOk('failedRun' in sync(open, context).status)
})

/** A helm run failed, and the last report is that of a later Job on the shards: only the status has the failure. */
function afterRepair(status: ClusterOverrides['status']) {
  const result = { startedAt: ago(50), stepsDone: 1, stepsLeft: 0, bytesMoved: 0, bytesLeft: 0 }
  const repaired = progress({
    ...{ verb: 'shards', run: 3, at: ago(40), shards: { ...result, moves: [] } },
    applied: applied({ podsHash: 'x' }),
  })
  const jobs = [helmJob({ run: 2, ended: ['Failed', 3600], plan: 'other' })]
  const known = runDue(windowed(LATER, { status }), { jobs })
  return sync({ ...known, progress: repaired }, context)
}

t.test('a failure is repeated as helm reported it, whatever its message contains', async (t) => {
  const failure = { reason: 'HelmFailed', message: 'hook: no; the next attempt is yours' }
  const conditions = [
    {
      ...{ type: 'Applied', status: 'False' as const, reason: 'HelmFailed' },
      message: `${failure.message}; the next attempt waits for the maintenance window of yesterday`,
      ...{ observedGeneration: 1, lastTransitionTime: ago(60) },
    },
  ]
  const decision = afterRepair({ conditions, failedRun: failure })
  t.strictSame(condition(decision, 'Applied'), [
    ...['False', 'HelmFailed', `${failure.message}; the next attempt ${WAITS}`],
  ])
  t.strictSame(decision.status.failedRun, failure)
})

t.test(
  'a failure that only the status still has is repeated as it is while the window is awaited',
  async (t) => {
    const message = `timed out; the next attempt ${WAITS}`
    const conditions = [
      {
        ...{ type: 'Applied', status: 'False' as const, reason: 'HelmFailed', message },
        ...{ observedGeneration: 1, lastTransitionTime: ago(60) },
      },
    ]
    const decision = afterRepair({ conditions })
    t.strictSame(condition(decision, 'Applied'), ['False', 'HelmFailed', message])
  },
)

t.test('a run that has begun is not taken for one that waits', async (t) => {
  const liveJobs = [helmJob({ run: 2 })]
  const decision = sync({ ...runDue(windowed(LATER)), liveJobs }, context)
  t.strictSame(condition(decision, 'Applied')?.slice(1), [
    ...['HelmRunning', 'helm run 2 is in progress'],
  ])
  t.equal(decision.leases, undefined)
})

t.test('a window that is not valid is reported before it is awaited', async (t) => {
  const invalid = windowed([{ schedule: '0 0 30 2 *', duration: '1h' }])
  const decision = sync(runDue(invalid), context)
  t.equal(condition(decision, 'Applied')?.[1], 'InvalidSpec')
  t.match(condition(decision, 'Applied')?.[2], /^spec\.maintenanceWindows\[0\]\.schedule: /)
})

const REPAIR: Partial<ShardsSummary> = { plans: { repair: { is: 'step', purpose: 'repair' } } }

t.test('repairs do not wait, and end with no window', async (t) => {
  const decision = sync(observedShards({ cluster: windowed(LATER) }, REPAIR), context)
  t.equal(jobPlan(decision, ShardsPlan).endsAt, undefined)
  const within = sync(observedShards({ cluster: windowed(OPEN) }, REPAIR), context)
  t.equal(jobPlan(within, ShardsPlan).endsAt, undefined)
})

t.test('repairs go before a helm run that waits for its window', async (t) => {
  const repaired = (windows: Windows, parts: Partial<Observed> = {}, shards = {}) => {
    const due = runDue(windowed(windows), parts)
    const { progress: report, shards: summary } = due
    return sync(
      {
        ...due,
        ...(summary && { shards: { ...summary, ...REPAIR } }),
        progress: { ...report, ...shards },
      },
      context,
    )
  }
  const verbOf = (decision: ReturnType<typeof sync>) =>
    createdJob(decision)?.metadata.labels?.[LABELS.verb]
  const lost = { statefulSet: statefulSet(3, { readyReplicas: 2 }) }
  t.equal(verbOf(repaired(LATER, lost)), 'shards', 'a node is lost')
  t.equal(verbOf(repaired(OPEN, lost)), 'upgrade', 'the run may bring it back')
  const result = { startedAt: ago(700), stepsDone: 3, stepsLeft: 2, bytesMoved: 0, bytesLeft: 0 }
  const yielded = { verb: 'shards', shards: { ...result, moves: [], isYielded: true } }
  t.equal(verbOf(repaired(LATER, {}, yielded)), 'shards', 'the last Job has ended early')
  t.equal(verbOf(repaired(OPEN, {}, yielded)), 'upgrade', 'which it did for this run')
  const conflictingWork = ['VecMigration ns/m']
  t.equal(condition(repaired(LATER, { conflictingWork }), 'Applied')?.[1], 'MaintenanceWindow')
})

t.test('nodes are removed in a window, and the Job knows its end', async (t) => {
  const scaledIn = (windows: Windows) =>
    sync(
      observedShards({
        ...{ cluster: windowed(windows, { spec: { replicas: 2 } }), unfinishedHelmJobs: 0 },
        progress: progress({ applied: applied() }),
      }),
      context,
    )
  const waiting = scaledIn(LATER)
  t.equal(createdJob(waiting), undefined)
  t.strictSame(condition(waiting, 'Applied'), [
    ...['False', 'MaintenanceWindow', `spec.replicas: 3 -> 2 ${WAITS}`],
  ])
  const within = jobPlan(scaledIn(OPEN), ShardsPlan)
  const { endsAt = '', hash } = within
  t.equal(new Date(endsAt).getTime() % 60_000, 0)
  t.ok(new Date(endsAt).getTime() > NOW.getTime())
  t.equal(hash, jobPlan(scaledIn([]), ShardsPlan).hash, 'the end is no part of the goal')
})

t.test('an update that a helm run has begun is completed after its window', async (t) => {
  const plans = { repair: DONE, update: { is: 'step', purpose: 'update' } } as const
  const set = statefulSet(3)
  const outdated = {
    ...set,
    spec: { ...set.spec, updateStrategy: { rollingUpdate: { partition: 3 } } },
    status: { ...set.status, currentRevision: 'r1', updateRevision: 'r2' },
  }
  const nodes = [0, 1, 2].map((ordinal) => ({ ordinal, revision: 'r1' }))
  for (const windows of [OPEN, LATER]) {
    const known = { cluster: windowed(windows), statefulSet: outdated }
    const plan = jobPlan(sync(observedShards(known, { plans, nodes }), context), ShardsPlan)
    t.type(plan.update, 'object')
    t.equal(plan.endsAt, undefined, 'another Job would follow at once')
  }
})

t.test('balance and resharding wait, and the condition says so', async (t) => {
  const plans = { repair: DONE, balance: { is: 'step', purpose: 'balance' } } as const
  const status = { balancedNodes: 2 }
  const balanced = (windows: Windows, known: Partial<ShardsSummary> = { plans }) =>
    sync(observedShards({ cluster: windowed(windows, { status }) }, known), context)
  const waiting = balanced(LATER)
  t.equal(createdJob(waiting), undefined)
  t.strictSame(condition(waiting, 'ShardsPlaced'), [
    ...['True', 'Placed', `12 of 12 replicas are Active; balance ${WAITS}`],
  ])
  t.type(jobPlan(balanced(OPEN), ShardsPlan).endsAt, 'string')
  const reshard = { is: 'step', purpose: 'resharding' } as const
  t.equal(
    condition(balanced(LATER, { plans: { ...plans, reshard } }), 'ShardsPlaced')?.[2],
    `12 of 12 replicas are Active; resharding ${WAITS}`,
  )
  const nothing = balanced(LATER, { plans: { repair: DONE } })
  t.equal(condition(nothing, 'ShardsPlaced')?.[2], '12 of 12 replicas are Active')
})

t.test('the plans of clusters without windows are those of the previous release', async (t) => {
  const { hash } = desiredRun(observedShards({ leases: heldLeases(2) }), settings)
  const windows = desiredRun(observedShards({ cluster: windowed(LATER) }), settings)
  t.equal(windows.hash, hash, 'windows are no part of what helm applies')
})
