import t from 'tap'
import { pino } from 'pino'
import { VecCluster } from '../../../crds/cluster.ts'
import type { AnyObject } from '../../../crds/kubernetes.ts'
import { MAX_REQUEST_BYTES } from '../../../crds/contract/limits.ts'
import { ANNOTATIONS, LABELS } from '../../../crds/contract/names.ts'
import { type HookRequest, kindHooks, type AnyParent } from '../../../hooks/protocol.ts'
import { buildServer } from '../../../hooks/server.ts'
import { serviceMetrics, type ServiceMetrics } from '../../../metacontroller/metrics/index.ts'
import { cluster, NOW, settings } from '../../builders.ts'

const MINUTE = 60_000
const ago = (ms: number) => new Date(NOW.getTime() - ms).toISOString()
const seconds = (ms: number) => (NOW.getTime() - ms) / 1000

function metrics(now: () => Date = () => NOW) {
  return serviceMetrics('0.1.0', now)
}

/** Lines of the samples of one metric that are not zero. */
async function samples(service: ServiceMetrics, name: string): Promise<string[]> {
  const lines = (await service.text()).split('\n')
  return lines.filter((line) => line.startsWith(`${name}{`) && !line.endsWith(' 0')).sort()
}

interface ObjectParts {
  kind: string
  name?: string
  annotations?: Record<string, string>
  spec?: object
  children?: Record<string, object>
}

function requestOf({ kind, name = 'a', annotations = {}, spec = {}, children = {} }: ObjectParts) {
  const metadata = {
    name,
    namespace: 'ns',
    uid: `${kind}-${name}`,
    creationTimestamp: ago(60 * MINUTE),
  }
  const parent = { kind, metadata: { ...metadata, annotations }, spec }
  return { parent, children, related: {}, finalizing: false } as unknown as HookRequest<AnyParent>
}

const ready = (status: 'True' | 'False', reason: string) => ({
  ...{ type: 'Ready', status, reason, message: '' },
  lastTransitionTime: ago(20 * MINUTE),
})

t.test('an answer that validation rejects is counted by its route', async (t) => {
  const service = metrics()
  const server = buildServer({
    hooks: [
      kindHooks({
        resource: VecCluster,
        childKinds: [],
        finalizeReads: [],
        customize: () => [],
        sync: async () => ({ status: { phase: 'Nonsense' }, children: [] }),
        finalize: async () => ({ status: {}, children: [] }),
      }),
    ],
    tokens: () => [],
    log: pino({ level: 'silent' }),
    now: () => NOW,
    settings,
    metrics: service,
  })
  const payload = { parent: cluster(), children: {}, related: {}, finalizing: false }
  const answer = await server.inject({ method: 'POST', url: '/vecclusters/sync', payload })
  t.equal(answer.statusCode, 500)
  const text = await service.text()
  t.match(text, 'vec_operator_invalid_answers_total{route="/vecclusters/sync"} 1')
  t.match(text, 'vec_operator_hook_requests_total{kind="VecCluster",hook="sync",code="500"} 1')
  t.match(text, 'vec_operator_build_info{version="0.1.0"} 1')
})

t.test('a call that waits too long for memory is counted and logged once', async (t) => {
  const service = metrics()
  const waiting = Promise.withResolvers<undefined>()
  const arrived = Promise.withResolvers<undefined>()
  const lines: string[] = []
  const log = pino({}, { write: (line: string) => void lines.push(line) })
  const server = buildServer({
    hooks: [
      kindHooks({
        resource: VecCluster,
        childKinds: [],
        finalizeReads: [],
        customize: () => [],
        sync: async () => {
          arrived.resolve(undefined)
          await waiting.promise
          return { status: {}, children: [] }
        },
        finalize: async () => ({ status: {}, children: [] }),
      }),
    ],
    ...{ tokens: () => [], log, now: () => NOW, settings, metrics: service, maxBodyWaitMs: 10 },
  })
  const noise = 'x'.repeat(MAX_REQUEST_BYTES * 0.6)
  const payload = { parent: cluster(), children: {}, related: {}, finalizing: false, noise }
  const sync = () => server.inject({ method: 'POST', url: '/vecclusters/sync', payload })
  const first = sync()
  await arrived.promise
  const reason = 'the memory for large requests is in use: too many of them at once'
  for (let at = 0; at < 2; at += 1) {
    const answer = await sync()
    t.strictSame([answer.statusCode, answer.json()], [503, { error: reason }])
  }
  waiting.resolve(undefined)
  t.equal((await first).statusCode, 200)
  const text = await service.text()
  t.match(text, 'vec_operator_hook_wait_timeouts_total{kind="VecCluster",hook="sync"} 2\n')
  t.match(text, 'vec_operator_hook_wait_timeouts_total{kind="VecBackup",hook="finalize"} 0\n')
  t.match(text, 'vec_operator_hook_requests_total{kind="VecCluster",hook="sync",code="503"} 2\n')
  const logged = lines.filter((line) => line.includes(reason))
  t.equal(logged.length, 1)
  t.match(JSON.parse(logged[0] ?? ''), { kind: 'VecCluster', hook: 'sync', msg: 'retrying' })
})

t.test('resources are counted by kind and phase, until they are gone', async (t) => {
  const service = metrics()
  const decide = (name: string, phase: string, finalized = false) =>
    service.recordDecision?.(requestOf({ kind: 'VecCluster', name }), {
      status: { phase },
      children: [],
      finalized,
    })
  decide('a', 'Running')
  decide('b', 'Pending')
  decide('b', 'Running')
  decide('c', 'Upgrading')
  t.strictSame(await samples(service, 'vec_operator_resources'), [
    'vec_operator_resources{kind="VecCluster",phase="Running"} 2',
    'vec_operator_resources{kind="VecCluster",phase="Upgrading"} 1',
  ])
  decide('a', 'Running', true)
  t.strictSame(await samples(service, 'vec_operator_resources'), [
    'vec_operator_resources{kind="VecCluster",phase="Running"} 1',
    'vec_operator_resources{kind="VecCluster",phase="Upgrading"} 1',
  ])
})

t.test('a resource that is no longer observed is removed when others are observed', async (t) => {
  let now = NOW
  const service = metrics(() => now)
  const decide = (name: string) =>
    service.recordDecision?.(requestOf({ kind: 'VecAccessKey', name }), {
      status: { phase: 'Ready' },
      children: [],
    })
  decide('gone')
  now = new Date(NOW.getTime() + 16 * MINUTE)
  t.equal(
    (await samples(service, 'vec_operator_resources')).length,
    1,
    'without a call the sample stays',
  )
  decide('there')
  t.strictSame(await samples(service, 'vec_operator_resources'), [
    'vec_operator_resources{kind="VecAccessKey",phase="Ready"} 1',
  ])
})

t.test('a resource that is not Ready, waits or has Failed is named, with the reason', async (t) => {
  const service = metrics()
  const unready = 'vec_operator_resource_unready_timestamp_seconds'
  const cluster = requestOf({ kind: 'VecCluster' })
  const conditions = [ready('False', 'ReplicasNotReady')]
  service.recordDecision?.(cluster, { status: { phase: 'Running', conditions }, children: [] })
  const restore = requestOf({ kind: 'VecRestore' })
  const complete = { ...ready('False', 'RestoreFailed'), type: 'Complete' }
  service.recordDecision?.(restore, {
    status: { phase: 'Failed', completionTime: ago(5 * MINUTE), conditions: [complete] },
    children: [],
  })
  service.recordDecision?.(requestOf({ kind: 'VecBackup', name: 'waits' }), {
    status: { phase: 'Pending', conditions: [{ ...complete, reason: 'ClusterMissing' }] },
    children: [],
  })
  service.recordDecision?.(requestOf({ kind: 'VecBackup', name: 'runs' }), {
    status: { phase: 'InProgress', conditions: [{ ...complete, reason: 'BackupRunning' }] },
    children: [],
  })
  t.strictSame(await samples(service, unready), [
    `${unready}{kind="VecBackup",namespace="ns",name="waits",reason="ClusterMissing"} ${seconds(60 * MINUTE)}`,
    `${unready}{kind="VecCluster",namespace="ns",name="a",reason="ReplicasNotReady"} ${seconds(20 * MINUTE)}`,
    `${unready}{kind="VecRestore",namespace="ns",name="a",reason="RestoreFailed"} ${seconds(5 * MINUTE)}`,
  ])
  service.recordDecision?.(cluster, {
    status: { phase: 'Running', conditions: [ready('True', 'AllReplicasReady')] },
    children: [],
  })
  t.equal((await samples(service, unready)).length, 2)
})

t.test('of each kind a hundred resources are named at most', async (t) => {
  const service = metrics()
  for (let number = 0; number < 150; number += 1) {
    const status = {
      phase: 'Failed',
      renewAt: ago(0),
      conditions: [ready('False', 'ApiKeyMissing')],
    }
    service.recordDecision?.(requestOf({ kind: 'VecAccessKey', name: `k${number}` }), {
      status,
      children: [],
    })
  }
  const unready = 'vec_operator_resource_unready_timestamp_seconds'
  t.equal((await samples(service, unready)).length, 100)
  t.equal((await samples(service, 'vec_operator_access_key_renewal_timestamp_seconds')).length, 100)
})

t.test(
  'replicas of a cluster and the work on its shards are metrics, as its status has them',
  async (t) => {
    const service = metrics()
    const all = async () => {
      const names = ['replicas_desired', 'replicas_active', 'shard_steps_left', 'shard_bytes_left']
      const lines = [...names, 'resharding'].map((name) =>
        samples(service, `vec_operator_cluster_${name}`),
      )
      return (await Promise.all(lines)).flat()
    }
    const decide = (shards: object, name = 'a') =>
      service.recordDecision?.(requestOf({ kind: 'VecCluster', name }), {
        status: { phase: 'Running', shards },
        children: [],
      })
    const counts = { replicas: 12, activeReplicas: 10 }
    const resharding = { collection: 'docs', direction: 'up', shard: 3, stage: 'migrate' }
    decide({ ...counts, stepsLeft: 4, bytesLeft: 2048, resharding })
    t.strictSame(await all(), [
      'vec_operator_cluster_replicas_desired{namespace="ns",name="a"} 12',
      'vec_operator_cluster_replicas_active{namespace="ns",name="a"} 10',
      'vec_operator_cluster_shard_steps_left{namespace="ns",name="a"} 4',
      'vec_operator_cluster_shard_bytes_left{namespace="ns",name="a"} 2048',
      'vec_operator_cluster_resharding{namespace="ns",name="a",direction="up",stage="migrate"} 1',
    ])
    decide(counts)
    t.strictSame(
      await all(),
      [
        'vec_operator_cluster_replicas_desired{namespace="ns",name="a"} 12',
        'vec_operator_cluster_replicas_active{namespace="ns",name="a"} 10',
      ],
      'without work only the replicas are left',
    )
    for (let number = 0; number < 150; number += 1) {
      decide({ replicas: 12, activeReplicas: 12 }, `c${number}`)
    }
    const named = await samples(service, 'vec_operator_cluster_replicas_active')
    t.equal(named.length, 100)
    t.ok(
      named.includes('vec_operator_cluster_replicas_active{namespace="ns",name="a"} 10'),
      'the cluster that misses replicas is among them',
    )
  },
)

t.test('only conditions that mean danger are a metric', async (t) => {
  const service = metrics()
  const condition = (type: string, status: string, reason: string) => ({
    ...{ type, status, reason, message: '', lastTransitionTime: ago(0) },
  })
  const conditions = [
    condition('Consensus', 'False', 'SplitBrain'),
    condition('Stalled', 'True', 'SplitBrain'),
    condition('HistoryBounded', 'False', 'HistoryLarge'),
    condition('Reconciling', 'True', 'JobSilent'),
    condition('Purged', 'False', 'PurgeFailed'),
    condition('Purged', 'False', 'Purging'),
    condition('Reconciling', 'True', 'HelmRunning'),
    condition('Replicated', 'True', 'AllReplicasActive'),
    condition('Ready', 'False', 'ReplicasNotReady'),
  ]
  service.recordDecision?.(requestOf({ kind: 'VecCluster' }), {
    status: { phase: 'Running', conditions },
    children: [],
  })
  const danger = (type: string, reason: string) =>
    `vec_operator_resource_danger{kind="VecCluster",namespace="ns",name="a",type="${type}",reason="${reason}"} 1`
  t.strictSame(await samples(service, 'vec_operator_resource_danger'), [
    danger('Consensus', 'SplitBrain'),
    danger('HistoryBounded', 'HistoryLarge'),
    danger('Purged', 'PurgeFailed'),
    danger('Reconciling', 'JobSilent'),
    danger('Stalled', 'SplitBrain'),
  ])
})

t.test('a backup of a clock that was years ahead does not count as the newest one', async (t) => {
  const service = metrics()
  const completedOf = async (...minutes: number[]) => {
    const backups = minutes.map((age) => [
      `ns/${age}`,
      { status: { phase: 'Completed', completionTime: ago(age * MINUTE) } },
    ])
    const children = {
      'VecBackup.vec-operator.dev/v1alpha1': Object.fromEntries(backups) as object,
    }
    const spec = { schedule: '0 * * * *', suspend: false }
    const request = requestOf({ kind: 'VecBackupSchedule', spec, children })
    service.recordDecision?.(request, { status: {}, children: [] })
    const name = 'vec_operator_backup_schedule_last_completed_timestamp_seconds'
    return (await samples(service, name)).map((line) => Number(line.split(' ').at(-1)))
  }
  const years = -5_000_000
  t.strictSame(await completedOf(50, years), [seconds(50 * MINUTE)])
  t.strictSame(await completedOf(years), [])
  t.strictSame(await completedOf(50, -30), [seconds(-30 * MINUTE)], 'clocks differ by minutes')
})

t.test('a schedule shows its newest Completed backup and the time between its slots', async (t) => {
  const service = metrics()
  const prefix = 'vec_operator_backup_schedule'
  const backup = (phase: string, minutes: number) => ({
    status: { phase, completionTime: ago(minutes * MINUTE) },
  })
  const backups = {
    'ns/1': backup('Completed', 50),
    'ns/2': backup('Completed', 40),
    'ns/3': backup('Failed', 10),
  }
  const children = { 'VecBackup.vec-operator.dev/v1alpha1': backups }
  const decide = (spec: object, status = {}) =>
    service.recordDecision?.(requestOf({ kind: 'VecBackupSchedule', spec, children }), {
      status,
      children: [],
    })
  decide({ schedule: '0 * * * *', suspend: false })
  t.strictSame(await samples(service, `${prefix}_last_completed_timestamp_seconds`), [
    `${prefix}_last_completed_timestamp_seconds{namespace="ns",name="a"} ${seconds(40 * MINUTE)}`,
  ])
  t.strictSame(await samples(service, `${prefix}_created_timestamp_seconds`), [
    `${prefix}_created_timestamp_seconds{namespace="ns",name="a"} ${seconds(60 * MINUTE)}`,
  ])
  const interval = [`${prefix}_interval_seconds{namespace="ns",name="a"} 3600`]
  t.strictSame(await samples(service, `${prefix}_interval_seconds`), interval)
  for (const spec of [
    { schedule: '0 * * * *', suspend: true },
    { schedule: 'every day', suspend: false },
  ]) {
    decide(spec)
    t.strictSame(await samples(service, `${prefix}_interval_seconds`), [])
  }
  const hourly = { schedule: '0 * * * *', suspend: false }
  const hibernated = { type: 'Ready', status: 'True', reason: 'ClusterHibernated' }
  decide(hourly, { conditions: [{ ...hibernated, message: '', lastTransitionTime: ago(0) }] })
  t.strictSame(await samples(service, `${prefix}_interval_seconds`), [])
  decide(hourly)
  t.strictSame(await samples(service, `${prefix}_interval_seconds`), interval)
})

/** A report of a Job in the form of the annotation. */
function report(state: string, startedAt: number, more: object = {}) {
  const uid = 'VecBackup-a'
  const ids = { uid, verb: 'run', run: 1, job: 'j1', runner: 'p', plan: 'h' }
  const times = { at: ago(startedAt - MINUTE), startedAt: ago(startedAt) }
  return { [ANNOTATIONS.progress]: JSON.stringify({ ...ids, state, ...times, ...more }) }
}

const moved = (bytes: number) => ({
  backup: {
    ...{ startedAt: ago(0), total: 1, completed: 0, failed: 0, bytes, collections: [] },
    unlisted: { completed: 0, failed: 0, pending: 0 },
  },
})

t.test('reports of Jobs are counted once: bytes moved, and how a run ended', async (t) => {
  const service = metrics()
  const see = (annotations: Record<string, string>) =>
    service.recordDecision?.(requestOf({ kind: 'VecBackup', annotations }), {
      status: {},
      children: [],
    })
  see(report('Started', -MINUTE, moved(100)))
  see(report('Started', -MINUTE, moved(250)))
  see(report('Done', -MINUTE, moved(300)))
  see(report('Done', -MINUTE, moved(300)))
  t.strictSame(await samples(service, 'vec_operator_transferred_bytes_total'), [
    'vec_operator_transferred_bytes_total{kind="VecBackup"} 300',
  ])
  t.strictSame(await samples(service, 'vec_operator_job_runs_total'), [
    'vec_operator_job_runs_total{kind="VecBackup",verb="run",outcome="Done"} 1',
  ])
})

t.test('a replica counts what Jobs report since it answers hooks', async (t) => {
  let now = ago(0)
  const service = serviceMetrics('0.1.0', () => new Date(now))
  const leader = async () => /^vec_operator_leader (.*)$/m.exec(await service.text())?.[1]
  t.equal(await leader(), '0')
  now = ago(-5 * MINUTE)
  service.lead()
  t.equal(await leader(), '1')
  const see = (annotations: Record<string, string>) =>
    service.recordDecision?.(requestOf({ kind: 'VecBackup', annotations }), {
      status: {},
      children: [],
    })
  see(report('Done', -MINUTE, moved(300)))
  t.strictSame(await samples(service, 'vec_operator_job_runs_total'), [], 'by another replica')
  see(report('Done', -6 * MINUTE, { ...moved(200), job: 'j2' }))
  t.strictSame(await samples(service, 'vec_operator_job_runs_total'), [
    'vec_operator_job_runs_total{kind="VecBackup",verb="run",outcome="Done"} 1',
  ])
})

t.test(
  'each Job on shards counts its bytes from 0, also if its first reports were missed',
  async (t) => {
    const service = metrics()
    const see = (job: string, startedAt: number, bytesMoved: number) => {
      const shards = {
        ...{ startedAt: ago(startedAt), stepsDone: 0, stepsLeft: 0, bytesLeft: 0, moves: [] },
        bytesMoved,
      }
      const more = { uid: 'VecCluster-a', verb: 'shards', job, shards }
      const annotations = report('Started', -MINUTE, more)
      service.recordDecision?.(requestOf({ kind: 'VecCluster', annotations }), {
        status: {},
        children: [],
      })
    }
    see('j1', -MINUTE, 100)
    // The first report of a Job repeats the result of the one before it.
    see('j2', -MINUTE, 100)
    see('j2', -2 * MINUTE, 150)
    see('j3', -3 * MINUTE, 30)
    t.strictSame(await samples(service, 'vec_operator_transferred_bytes_total'), [
      'vec_operator_transferred_bytes_total{kind="VecCluster"} 280',
    ])
  },
)

t.test('each finished step on shards is counted once, by its kind', async (t) => {
  const service = metrics()
  const see = (verb: string, startedAt: number, counts: Record<string, number>) => {
    const finished = Object.entries(counts).map(([step, count]) => ({ step, count }))
    const result = { stepsDone: 0, stepsLeft: 0, bytesMoved: 0, bytesLeft: 0, moves: [] }
    const shards = { ...result, startedAt: ago(startedAt), finished }
    const more = { uid: 'VecCluster-a', verb, job: `${verb}-${startedAt}`, shards }
    const annotations = report('Done', -MINUTE, more)
    service.recordDecision?.(requestOf({ kind: 'VecCluster', annotations }), {
      status: {},
      children: [],
    })
  }
  const counted = async () =>
    (await samples(service, 'vec_operator_shard_steps_total')).map((line) =>
      line.replace(/^.*step=/, ''),
    )
  // From before the start of the service; a helm run after it repeats the report.
  see('upgrade', MINUTE, { drop: 5 })
  t.strictSame(await counted(), [])
  see('shards', -MINUTE, { replicate: 2, drop: 1 })
  see('shards', -MINUTE, { replicate: 2, drop: 1 })
  see('shards', -MINUTE, { replicate: 2, drop: 3, removePeer: 1 })
  see('upgrade', -MINUTE, { replicate: 2, drop: 3, removePeer: 1 })
  see('shards', -2 * MINUTE, { drop: 1 })
  t.strictSame(await counted(), ['"drop"} 4', '"removePeer"} 1', '"replicate"} 2'])
})

t.test(
  'an unknown verb in a report is counted as other, and a long one is not counted',
  async (t) => {
    const service = metrics()
    const see = (more: object) =>
      service.recordDecision?.(
        requestOf({ kind: 'VecBackup', annotations: report('Done', -MINUTE, more) }),
        {
          status: {},
          children: [],
        },
      )
    for (let at = 0; at < 50; at += 1) see({ verb: `made-up-${at}`, job: `j${at}` })
    see({ verb: 'x'.repeat(200_000), job: 'long' })
    see({ verb: 'run', job: 'j'.repeat(200_000) })
    t.strictSame(await samples(service, 'vec_operator_job_runs_total'), [
      'vec_operator_job_runs_total{kind="VecBackup",verb="other",outcome="Done"} 50',
    ])
  },
)

t.test('statuses without a meaning are counted by their first digit', async (t) => {
  const service = metrics()
  for (let status = 200; status < 300; status += 1) {
    service.recordCall('engine', { method: 'GET', status, seconds: 1 })
  }
  const codes = (await samples(service, 'vec_operator_client_requests_total')).map((line) => {
    return /code="(\w+)"/.exec(line)?.[1]
  })
  const known = ['200', '201', '202', '203', '204', '205', '206', '207', '208', '226', '2xx']
  t.strictSame(codes.toSorted(), known)
})

t.test('reports from before the start of the service are not counted again', async (t) => {
  const service = metrics()
  const see = (annotations: Record<string, string>) =>
    service.recordDecision?.(requestOf({ kind: 'VecBackup', annotations }), {
      status: {},
      children: [],
    })
  see(report('Started', 10 * MINUTE, moved(1000)))
  see(report('Started', 10 * MINUTE, moved(1200)))
  see(report('Done', 10 * MINUTE, moved(1200)))
  t.strictSame(await samples(service, 'vec_operator_transferred_bytes_total'), [
    'vec_operator_transferred_bytes_total{kind="VecBackup"} 200',
  ])
  t.strictSame(await samples(service, 'vec_operator_job_runs_total'), [])
})

t.test('counters of Jobs exist before their first increment', async (t) => {
  const text = await metrics().text()
  for (const series of [
    'transferred_bytes_total{kind="VecBackup"}',
    'transferred_bytes_total{kind="VecRestore"}',
    'copied_points_total{kind="VecMigration"}',
  ]) {
    t.match(text, `vec_operator_${series} 0\n`)
  }
})

t.test('points that a migration copies are counted', async (t) => {
  const service = metrics()
  const migration = { startedAt: ago(0), total: 1, completed: 0, failed: 0, pointsTotal: 9 }
  const lists = { collections: [], unlisted: { completed: 0, failed: 0, pending: 0 } }
  const uid = 'VecMigration-a'
  const ids = { uid, verb: 'run', run: 1, job: 'j1', runner: 'p', plan: 'h', state: 'Started' }
  const times = { at: ago(-MINUTE), startedAt: ago(-MINUTE) }
  const text = { ...ids, ...times, migration: { ...migration, ...lists, pointsCopied: 7 } }
  const annotations = { [ANNOTATIONS.progress]: JSON.stringify(text) }
  service.recordDecision?.(requestOf({ kind: 'VecMigration', annotations }), {
    status: {},
    children: [],
  })
  t.strictSame(await samples(service, 'vec_operator_copied_points_total'), [
    'vec_operator_copied_points_total{kind="VecMigration"} 7',
  ])
})

t.test(
  'a Job that failed without a report has crashed, once its report had time to come',
  async (t) => {
    let now = new Date(NOW.getTime() + MINUTE)
    const service = serviceMetrics('0.1.0', () => now)
    const failed = { type: 'Failed', status: 'True', lastTransitionTime: now.toISOString() }
    const job = {
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: { name: 'j-1', uid: 'j1', labels: { [LABELS.verb]: 'upgrade' } },
      status: { conditions: [failed] },
    } as AnyObject
    const children = { 'Job.batch/v1': { 'ns/j-1': job } }
    const see = () =>
      service.recordDecision?.(requestOf({ kind: 'VecCluster', children }), {
        status: {},
        children: [],
      })
    see()
    t.strictSame(await samples(service, 'vec_operator_job_runs_total'), [])
    now = new Date(now.getTime() + MINUTE)
    see()
    see()
    t.strictSame(await samples(service, 'vec_operator_job_runs_total'), [
      'vec_operator_job_runs_total{kind="VecCluster",verb="upgrade",outcome="Crashed"} 1',
    ])
  },
)

const DURATION = 'vec_operator_client_request_duration_seconds'

t.test('client requests are counted and timed by target, method and status', async (t) => {
  const service = metrics()
  service.recordCall('engine', { method: 'GET', status: 200, seconds: 0.01 })
  service.recordCall('engine', { method: 'GET', status: undefined, seconds: 30 })
  service.recordCall('bucket', { method: 'DELETE', status: 503, seconds: 0.2 })
  t.strictSame(await samples(service, 'vec_operator_client_requests_total'), [
    'vec_operator_client_requests_total{target="bucket",method="DELETE",code="503"} 1',
    'vec_operator_client_requests_total{target="engine",method="GET",code="200"} 1',
    'vec_operator_client_requests_total{target="engine",method="GET",code="none"} 1',
  ])
  t.strictSame(await samples(service, `${DURATION}_count`), [
    `${DURATION}_count{target="bucket",method="DELETE"} 1`,
    `${DURATION}_count{target="engine",method="GET"} 2`,
  ])
  const buckets = await samples(service, `${DURATION}_bucket`)
  const labels = buckets.map((line) => line.slice(0, line.indexOf('}')).replace(/le="[^"]+"/, ''))
  t.strictSame([...new Set(labels)].toSorted(), [
    `${DURATION}_bucket{,target="bucket",method="DELETE"`,
    `${DURATION}_bucket{,target="engine",method="GET"`,
  ])
})
