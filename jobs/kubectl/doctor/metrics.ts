/**
 * Checks the metrics of the hook service, read once: what its alerts are for and no condition of a resource says. Rates
 * of an alert become totals since the service started.
 */
import { formatSeconds } from '../output.ts'
import { unreadable, type CheckContext, type CheckResult } from './check.ts'
import { callService } from './installation.ts'

const ABOUT = 'metrics'
const DAY_SECONDS = 86_400
/** As long as in the alert. */
const NOT_CALLED_SECONDS = 600

interface Sample {
  name: string
  labels: Readonly<Record<string, string>>
  value: number
}

export async function checkMetrics(context: CheckContext): Promise<CheckResult[]> {
  try {
    const answer = await callService(context, '/metrics')
    // The check of the service has reported it.
    if (answer?.status !== 200) return [{ about: ABOUT, level: 'fine', says: 'not checked' }]
    const samples = parseMetrics(answer.text)
    if (!samples.some(({ name }) => name === 'vec_operator_build_info'))
      return [{ about: ABOUT, level: 'warning', says: 'not checked: it has none of vec-operator' }]
    const found = metricFindings(samples, context.time.now(), context.namespace)
    if (found.length === 0) return [{ about: ABOUT, level: 'fine', says: 'none means danger' }]
    return found.map((says) => ({ about: ABOUT, level: 'warning', says }))
  } catch (error) {
    return unreadable(ABOUT, error)
  }
}

function metricFindings(samples: Sample[], now: Date, namespace: string | undefined): string[] {
  const seconds = now.getTime() / 1000
  const own = samples.filter(
    ({ labels }) => namespace === undefined || [namespace, undefined].includes(labels['namespace']),
  )
  return [
    ...callFindings(own, seconds),
    ...unreadyFindings(own, seconds),
    ...scheduleFindings(own, seconds),
    ...named(own, 'vec_operator_access_key_renewal_timestamp_seconds')
      .filter(({ value }) => seconds - value > 900)
      .map(
        ({ labels, value }) =>
          `VecAccessKey ${format(labels)}: the renewal of its token is ${formatSeconds(seconds - value)} overdue`,
      ),
  ]
}

/** Calls of hooks and runs of Jobs. */
function callFindings(samples: Sample[], now: number): string[] {
  const [start] = named(samples, 'process_start_time_seconds')
  const age = now - (start?.value ?? now)
  const since = `since the service started ${formatSeconds(age)} ago`
  const calls = named(samples, 'vec_operator_hook_requests_total')
  const isSilent = age > NOT_CALLED_SECONDS && calls.every(({ value }) => value === 0)
  const above0 = (name: string) => named(samples, name).filter(({ value }) => value > 0)
  return [
    ...(isSilent ? [`no hook was called ${since}`] : []),
    ...above0('vec_operator_hook_requests_total')
      .filter(({ labels: { code = '' } }) => /^[45]/.test(code) && code !== '429')
      .map(
        ({ labels: { kind = '', hook = '', code = '' }, value }) =>
          `${hook} of ${kind}: ${value} answers with ${code} ${since}`,
      ),
    ...above0('vec_operator_invalid_answers_total').map(
      ({ labels: { route = '' }, value }) => `${route}: ${value} invalid answers ${since}`,
    ),
    ...above0('vec_operator_job_runs_total')
      .filter(({ labels }) => labels['outcome'] === 'Crashed')
      .map(
        ({ labels: { kind = '', verb = '' }, value }) =>
          `${value} Jobs of ${kind} (${verb}) ended without a report ${since}`,
      ),
  ]
}

const FAILED = ['BackupFailed', 'RestoreFailed', 'MigrationFailed']
/** How long a resource of a kind may be unready, in seconds, and the reason for which it may be longer. */
const UNREADY: Readonly<Record<string, { limit: number; except?: string }>> = {
  VecCluster: { limit: 900, except: 'Hibernated' },
  VecCollection: { limit: 1800, except: 'ClusterHibernated' },
  VecAccessKey: { limit: 900 },
  VecBackup: { limit: 3600 },
  VecRestore: { limit: 3600 },
  VecMigration: { limit: 3600 },
}

function unreadyFindings(samples: Sample[], now: number): string[] {
  return named(samples, 'vec_operator_resource_unready_timestamp_seconds').flatMap(
    ({ labels, value }) => {
      const { kind = '', reason = '' } = labels
      const { limit = Infinity, except } = UNREADY[kind] ?? {}
      const age = now - value
      const isDangerous = FAILED.includes(reason)
        ? age < DAY_SECONDS
        : age > limit && reason !== except
      return isDangerous ? [`${kind} ${format(labels)}: ${reason} for ${formatSeconds(age)}`] : []
    },
  )
}

/** Late: no Completed backup for twice the time between two slots. */
function scheduleFindings(samples: Sample[], now: number): string[] {
  const metric = (what: string) =>
    new Map(
      named(samples, `vec_operator_backup_schedule_${what}_seconds`).map(({ labels, value }) => [
        format(labels),
        value,
      ]),
    )
  const completed = metric('last_completed_timestamp')
  const created = metric('created_timestamp')
  return [...metric('interval')].flatMap(([name, interval]) => {
    const age = now - (completed.get(name) ?? created.get(name) ?? now)
    if (age <= 2 * interval) return []
    return [
      `VecBackupSchedule ${name}: no Completed backup for ${formatSeconds(age)}, its interval is ${formatSeconds(interval)}`,
    ]
  })
}

function named(samples: Sample[], metric: string): Sample[] {
  return samples.filter(({ name }) => name === metric)
}

function format({ namespace = '', name = '' }: Sample['labels']): string {
  return `${namespace}/${name}`
}

/** The text format of Prometheus, without timestamps. */
function parseMetrics(text: string): Sample[] {
  return text.split('\n').flatMap((line) => {
    const [, name = '', labels = '', value = ''] = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? []
    if (name === '') return []
    // Without the last quote: `a="1",b="2`.
    const pairs = labels.slice(0, -1).split('",')
    const entries = pairs.map((pair) => pair.split('="') as [string, string])
    return [{ name, labels: Object.fromEntries(entries), value: Number(value) }]
  })
}
