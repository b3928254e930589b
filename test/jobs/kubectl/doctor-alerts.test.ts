/** Each alert of the chart is a finding of `doctor`, or has a reason why it is none. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { serviceMetrics } from '../../../metacontroller/metrics/index.ts'
import { START } from '../job-fixture.ts'
import { BUILD_INFO, COMPLETE, installOperator, type Installation } from './installation.ts'

const ALERTS = join(import.meta.dirname, '../../../chart/files/alerts.yaml')

interface Found {
  /** Parts of the installation that differ. */
  parts?: Installation
  /** Lines of the service's metrics. */
  metrics?: string[]
  /** A condition of the VecCluster. */
  condition?: [type: string, status: string, reason: string]
  finds: RegExp
}

const at = (secondsAgo: number) => START.getTime() / 1000 - secondsAgo
const unready = (kind: string, reason: string, secondsAgo: number) =>
  `vec_operator_resource_unready_timestamp_seconds{kind="${kind}",namespace="ns",name="a",reason="${reason}"} ${at(secondsAgo)}`
const started = (secondsAgo: number) => `process_start_time_seconds ${at(secondsAgo)}`
const calls = (code: number, value = 3) =>
  `vec_operator_hook_requests_total{kind="VecBackup",hook="sync",code="${code}"} ${value}`
const schedule = (what: string, value: number) =>
  `vec_operator_backup_schedule_${what}_seconds{namespace="ns",name="a"} ${value}`
const condition = (type: string, status: string, reason: string): Found => ({
  condition: [type, status, reason],
  finds: new RegExp(`^! +conditions +VecCluster ns/docs: ${type} is ${status}: tested$`, 'm'),
})
const late = (kind: string, reason: string, secondsAgo: number, age: string): Found => ({
  metrics: [unready(kind, reason, secondsAgo)],
  finds: new RegExp(`^! +metrics +${kind} ns/a: ${reason} for ${age}$`, 'm'),
})

/** By alert: how `doctor` finds it, or why it does not. */
const FINDINGS: Record<string, Found | string> = {
  VecOperatorDown: {
    parts: { metacontroller: { version: 'v4.17.2', args: [] }, kinds: COMPLETE.kinds ?? [] },
    finds: /^x +hook service +vec-system\/vec-operator \/healthz answered 503$/m,
  },
  VecOperatorHooksFailing: {
    metrics: [started(7200), calls(200), calls(503)],
    finds: /^! +metrics +sync of VecBackup: 3 answers with 503 since the service started 2h ago$/m,
  },
  VecOperatorHooksRefused: {
    metrics: [started(600), calls(200), calls(401)],
    finds: /^! +metrics +sync of VecBackup: 3 answers with 401 since the service started 10m ago$/m,
  },
  VecOperatorNotCalled: {
    metrics: [started(601)],
    finds: /^! +metrics +no hook was called since the service started 10m ago$/m,
  },
  VecOperatorDefect: {
    metrics: ['vec_operator_invalid_answers_total{route="/vecbackups/sync"} 2'],
    finds: /^! +metrics +\/vecbackups\/sync: 2 invalid answers since the service started/m,
  },
  VecClusterNotReady: late('VecCluster', 'PodsNotReady', 901, '15m'),
  VecClusterConsensusLost: condition('Consensus', 'False', 'SplitBrain'),
  VecClusterNodeLost: condition('ShardsPlaced', 'False', 'LostNode'),
  VecClusterShardsNotPlaced: condition('ShardsPlaced', 'False', 'NoCapacity'),
  VecClusterVolumeFull: condition('Capacity', 'False', 'VolumeFull'),
  VecClusterVolumeLow: condition('Capacity', 'False', 'VolumeLow'),
  VecClusterCertificateNotUsed: condition('CertificateInUse', 'False', 'RestartDisabled'),
  VecCollectionReplicasMissing: condition('Replicated', 'False', 'ReplicasMissing'),
  VecScheduleHistoryLarge: condition('HistoryBounded', 'False', 'HistoryLarge'),
  VecRestoreDrillFailed: condition('RestoreTested', 'False', 'DrillFailed'),
  VecResourceStalled: condition('Stalled', 'True', 'InvalidSpec'),
  VecBackupNotPurged: condition('Purged', 'False', 'PurgeFailed'),
  VecJobSilent: condition('Reconciling', 'True', 'JobSilent'),
  VecCollectionNotReady: late('VecCollection', 'Degraded', 1801, '30m'),
  VecAccessKeyNotRenewed: {
    metrics: [
      `vec_operator_access_key_renewal_timestamp_seconds{namespace="ns",name="a"} ${at(901)}`,
    ],
    finds: /^! +metrics +VecAccessKey ns\/a: the renewal of its token is 15m overdue$/m,
  },
  VecAccessKeyNotReady: late('VecAccessKey', 'ClusterNotFound', 901, '15m'),
  VecBackupTooOld: {
    metrics: [
      schedule('created_timestamp', at(90_000)),
      schedule('last_completed_timestamp', at(7201)),
      schedule('interval', 3600),
    ],
    finds:
      /^! +metrics +VecBackupSchedule ns\/a: no Completed backup for 2h, its interval is 60m$/m,
  },
  VecBackupFailed: late('VecBackup', 'BackupFailed', 60, '60s'),
  VecRestoreFailed: late('VecRestore', 'RestoreFailed', 60, '60s'),
  VecMigrationFailed: late('VecMigration', 'MigrationFailed', 60, '60s'),
  VecWorkNotStarted: late('VecRestore', 'ClusterBusy', 3601, '60m'),
  VecClusterHelmFailing:
    'four failures within an hour cannot be seen in one reading; the cluster of such a run is not Ready, which is found',
  VecJobsCrashing: {
    metrics: [
      started(60),
      'vec_operator_job_runs_total{kind="VecBackup",verb="run",outcome="Crashed"} 1',
    ],
    finds:
      /^! +metrics +1 Jobs of VecBackup \(run\) ended without a report since the service started 60s ago$/m,
  },
}

t.test('each alert is a finding of doctor or has a reason', async (t) => {
  const { groups } = parse(readFileSync(ALERTS, 'utf8')) as {
    groups: { rules: { alert: string }[] }[]
  }
  const alerts = groups.flatMap(({ rules }) => rules.map(({ alert }) => alert))
  t.strictSame(Object.keys(FINDINGS).toSorted(), alerts.toSorted())
})

for (const [alert, found] of Object.entries(FINDINGS)) {
  if (typeof found === 'string') continue
  t.test(`doctor finds what ${alert} is for`, async (t) => {
    const metrics = [BUILD_INFO, ...(found.metrics ?? [])].join('\n')
    const parts = { ...(found.parts ?? COMPLETE), metrics }
    const { type, api, cluster } = await installOperator(t, parts)
    if (found.condition !== undefined) {
      const [name, status, reason] = found.condition
      const conditions = [
        { type: name, status, reason, message: 'tested', lastTransitionTime: START.toISOString() },
      ]
      await api.patch(cluster, { status: { conditions } }, { subresource: 'status' })
    }
    t.match((await type('doctor')).out, found.finds)
  })
}

/** Just below each limit, and what is no danger. */
const HEALTHY = [
  started(600),
  calls(200),
  calls(429),
  calls(503, 0),
  'vec_operator_invalid_answers_total{route="/vecbackups/sync"} 0',
  'vec_operator_job_runs_total{kind="VecBackup",verb="run",outcome="Done"} 1',
  'vec_operator_job_runs_total{kind="VecBackup",verb="run",outcome="Crashed"} 0',
  unready('VecCluster', 'PodsNotReady', 900),
  unready('VecCluster', 'Hibernated', 9000),
  unready('VecCollection', 'ClusterHibernated', 9000),
  unready('VecRestore', 'ClusterBusy', 3600),
  unready('VecBackup', 'BackupFailed', 86_400),
  `vec_operator_access_key_renewal_timestamp_seconds{namespace="ns",name="a"} ${at(900)}`,
  schedule('created_timestamp', at(90_000)),
  schedule('last_completed_timestamp', at(7200)),
  schedule('interval', 3600),
]

t.test('doctor finds nothing in metrics below the limits, nor in those of no danger', async (t) => {
  const metrics = [BUILD_INFO, ...HEALTHY].join('\n')
  const { type } = await installOperator(t, { ...COMPLETE, metrics })
  t.match((await type('doctor')).out, /^ok +metrics +none means danger$/m)
})

t.test('doctor reads the metrics of a real service, which was not called yet', async (t) => {
  const text = await serviceMetrics('0.1.0', () => START).text()
  // The time of the operating system is not that of this test.
  const metrics = text.replace(/^process_start_time_seconds \S+$/m, started(60))
  const { type } = await installOperator(t, { ...COMPLETE, metrics })
  t.match((await type('doctor')).out, /^ok +metrics +none means danger$/m)
})

t.test('doctor -n reports the resources of that namespace, and all hooks', async (t) => {
  const other = unready('VecCluster', 'PodsNotReady', 901).replace('"ns"', '"other"')
  const metrics = [BUILD_INFO, other, calls(401)].join('\n')
  const { type } = await installOperator(t, { ...COMPLETE, metrics })
  const { out } = await type('doctor', '-n', 'ns')
  t.equal(out.match(/^. +metrics +/gm)?.length, 1)
  t.match(out, /sync of VecBackup: 3 answers with 401/)
  t.match((await type('doctor')).out, /VecCluster other\/a: PodsNotReady for 15m/)
})

t.test(
  'doctor says that metrics are not checked when they are not those of the service',
  async (t) => {
    const { type } = await installOperator(t, { ...COMPLETE, metrics: 'another page' })
    t.match((await type('doctor')).out, /^! +metrics +not checked: it has none of vec-operator$/m)
  },
)
