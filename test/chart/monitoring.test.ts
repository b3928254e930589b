import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { parse } from 'yaml'
import { RESOURCES } from '../../crds/crd.ts'
import { DANGERS } from '../../crds/critical-conditions.ts'
import { REASONS } from '../../crds/reasons/index.ts'
import { serviceMetrics } from '../../metacontroller/metrics/index.ts'
import { NOW } from '../builders.ts'
import { builtTool } from '../cluster/tools.ts'
import { CHART, program } from './helm.ts'

const ALERTS = join(CHART, 'files/alerts.yaml')
const NO_PROMTOOL =
  'no promtool: PROMTOOL names none, and `node test/cluster/tools.ts` has built none here'
/** Suffixes of the time series of a histogram. */
const PARTS = /_(bucket|count|sum)$/

interface Alert {
  alert: string
  expr: string
  labels: { severity: string }
  annotations: { summary: string; description: string; runbook_url: string }
}
interface Dashboard {
  panels: { id: number; title: string; targets: { expr: string }[] }[]
}

const alerts = (
  parse(readFileSync(ALERTS, 'utf8')) as { groups: { rules: Alert[] }[] }
).groups.flatMap(({ rules }) => rules)
const { panels } = JSON.parse(
  readFileSync(join(CHART, 'files/dashboard.json'), 'utf8'),
) as Dashboard

/** Name and type of every metric of the service. */
async function exported(): Promise<Map<string, string>> {
  const text = await serviceMetrics('0.1.0', () => NOW).text()
  const types = text.matchAll(/^# TYPE (\S+) (\S+)$/gm)
  return new Map([...types].map(([, name = '', type = '']) => [name, type]))
}

function metricsIn(expression: string): string[] {
  return expression.match(/\b(vec_operator|process|nodejs)_[a-z_]+/g) ?? []
}

t.test('every metric that an alert or a panel names is one that the service exports', async (t) => {
  const known = await exported()
  const expressions = [
    ...alerts.map(({ expr }) => expr),
    ...panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
  ]
  t.ok(expressions.length > 20)
  for (const expression of expressions) {
    const names = metricsIn(expression)
    t.ok(names.length > 0, expression)
    for (const name of names) {
      t.ok(known.has(name) || known.get(name.replace(PARTS, '')) === 'histogram', name)
    }
  }
})

t.test(
  'metric names follow Prometheus: counters end with _total, units are base units',
  async (t) => {
    const own = [...(await exported())].filter(([name]) => name.startsWith('vec_operator_'))
    t.ok(own.length > 10)
    for (const [name, type] of own) {
      t.equal(name.endsWith('_total'), type === 'counter', name)
      t.notMatch(name, /_(ms|milliseconds|minutes|hours|kb|mb)(_|$)/)
      if (type === 'histogram') t.match(name, /_seconds$/)
    }
  },
)

t.test('every alert says what is wrong and what to check, and has a unique name', async (t) => {
  const names = alerts.map(({ alert }) => alert)
  t.equal(new Set(names).size, names.length)
  for (const { alert, annotations } of alerts) {
    t.ok(annotations.summary.length > 10 && annotations.description.length > 10, alert)
  }
})

t.test('every alert links to a paragraph of docs/monitoring.md that is there', async (t) => {
  const page = readFileSync(join(CHART, '../docs/monitoring.md'), 'utf8')
  const paragraphs = [...page.matchAll(/^### (\w+)\n\n(.+)/gm)].map(([, name = '']) => name)
  t.strictSame(paragraphs.toSorted(), alerts.map(({ alert }) => alert).toSorted())
  for (const { alert, annotations } of alerts) {
    t.ok(annotations.runbook_url.endsWith(`/docs/monitoring.md#${alert.toLowerCase()}`), alert)
  }
})

t.test(
  'every condition that means danger has an alert, and its type and reason exist',
  async (t) => {
    const dangerous = alerts.map(({ expr }) => expr).filter((expr) => expr.includes('_danger{'))
    const known = Object.values(REASONS).flat()
    for (const { type, status, reason } of DANGERS) {
      const label = reason === undefined ? `type="${type}"` : `reason="${reason}"`
      t.ok(
        dangerous.some((expr) => expr.includes(label)),
        label,
      )
      const documented = known.filter(({ condition }) => condition?.type === type)
      // kstatus conditions have the reason of the condition that they summarize.
      const isSummary = type === 'Stalled' || type === 'Reconciling'
      t.ok(isSummary || documented.some(({ condition }) => condition?.status === status), type)
      if (reason !== undefined)
        t.ok(
          known.some((one) => one.reason === reason),
          reason,
        )
    }
    const types = DANGERS.map(({ type }) => `type="${type}"`)
    for (const expr of dangerous) {
      t.ok(
        [...types, 'reason="JobSilent"'].some((label) => expr.includes(label)),
        expr,
      )
    }
  },
)

t.test('an alert or a panel that names a kind names one of the seven', async (t) => {
  const kinds: string[] = RESOURCES.map(({ kind }) => kind)
  const texts = [...alerts.map(({ expr }) => expr), JSON.stringify(panels)].join('\n')
  const named = [...texts.matchAll(/\bVec[A-Z][A-Za-z]+/g)].map(([kind]) => kind)
  t.ok(named.length > 5)
  for (const kind of named) t.ok(kinds.includes(kind), kind)
})

t.test(
  'docs/monitoring.md has every metric with its labels, and every alert, and no other',
  async (t) => {
    const page = readFileSync(join(CHART, '../docs/monitoring.md'), 'utf8')
    const rows = [...page.matchAll(/^\| `(\w+)` +\| ([\w, ]+?) +\|/gm)]
    const annotations = rows.map(([, name = '', second = '']) => `${name}: ${second}`)
    const text = await serviceMetrics('0.1.0', () => NOW).text()
    const metrics = [...text.matchAll(/^# HELP (vec_operator_\w+) /gm)].map(([, name = '']) => name)
    t.strictSame(
      annotations.map((row) => row.split(':')[0]).sort(),
      [...metrics, ...alerts.map(({ alert }) => alert)].sort(),
    )
    for (const { alert, labels } of alerts)
      t.ok(annotations.includes(`${alert}: ${labels.severity}`), alert)
  },
)

const promtool = program('PROMTOOL', 'promtool') ?? builtTool('promtool') ?? ''
const skip = promtool === '' && NO_PROMTOOL

t.test('alerts fire in the cases of alerts.yaml, and not before', { skip }, async (t) => {
  const run = promisify(execFile)
  await t.resolves(run(promtool, ['check', 'rules', ALERTS]))
  await t.resolves(run(promtool, ['test', 'rules', join(import.meta.dirname, 'alerts.yaml')]))
})

t.test('alerts.yaml has a case in which each alert fires', async (t) => {
  const { tests } = parse(readFileSync(join(import.meta.dirname, 'alerts.yaml'), 'utf8')) as {
    tests: { alert_rule_test: { alertname: string; exp_alerts?: unknown[] }[] }[]
  }
  const firing = tests
    .flatMap(({ alert_rule_test: cases }) => cases)
    .filter(({ exp_alerts: expected = [] }) => expected.length > 0)
  const names = new Set(firing.map(({ alertname }) => alertname))
  t.strictSame(
    alerts.map(({ alert }) => alert).filter((alert) => !names.has(alert)),
    [],
  )
})

t.test('promtool accepts the metrics', { skip }, async (t) => {
  const linesAbout = async (metrics: string) => {
    const check = execFile(promtool, ['check', 'metrics'])
    check.stdin?.end(metrics)
    let said = ''
    check.stderr?.on('data', (chunk: string) => (said += chunk))
    await new Promise((resolve) => check.once('close', resolve))
    return said.split('\n').filter((line) => line.startsWith('vec_operator'))
  }
  const metrics = await serviceMetrics('0.1.0', () => NOW).text()
  t.strictSame(await linesAbout(metrics), [])
  const counter = '# TYPE vec_operator_wrong counter\nvec_operator_wrong 1\n'
  t.ok((await linesAbout(metrics + counter)).length > 0, 'of one that has no _total and no help')
})
