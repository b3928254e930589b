/** The dashboard of the engine, with what real engines measure. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { realMetrics, recordedLabels, recordedMetrics } from './engine-metrics.ts'
import { CHART } from './helm.ts'

const dashboard = JSON.parse(readFileSync(join(CHART, 'files/engine-dashboard.json'), 'utf8')) as {
  panels: { title: string; targets: { expr: string; legendFormat?: string }[] }[]
}

function metricsIn(expression: string): string[] {
  const words =
    expression.replaceAll(/\{[^}]*\}|\[[^\]]*\]|by \([^)]*\)/g, ' ').match(/[a-z]\w+/g) ?? []
  return words.filter((word) => word.includes('_') && word !== 'histogram_quantile')
}

t.test('every metric in a panel is one of each recorded engine, or of the kubelet', async (t) => {
  const recorded = Object.entries(recordedMetrics())
  t.ok(recorded.length >= 2)
  for (const { title, targets } of dashboard.panels) {
    for (const { expr } of targets) {
      const names = metricsIn(expr)
      t.ok(names.length > 0, `${title}: ${expr}`)
      for (const name of names.filter((name) => !name.startsWith('kubelet_volume_stats_'))) {
        for (const [version, known] of recorded) t.ok(known.includes(name), `${name} in ${version}`)
      }
    }
  }
})

/** Labels that a scrape by Kubernetes adds to every series. */
const OF_THE_SCRAPE = ['namespace', 'pod', 'persistentvolumeclaim']

t.test('every label that a panel groups by or shows is one of its metrics', async (t) => {
  const recorded = Object.entries(recordedLabels())
  t.not(recorded.length, 0)
  for (const { title, targets } of dashboard.panels) {
    for (const { expr, legendFormat = '' } of targets) {
      const grouped = [...expr.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list = '']) => {
        return list.split(',').map((label) => label.trim())
      })
      const inLegend = [...legendFormat.matchAll(/\{\{\s*(\w+)\s*\}\}/g)].map(
        ([, label = '']) => label,
      )
      for (const label of new Set([...grouped, ...inLegend])) {
        if (OF_THE_SCRAPE.includes(label)) continue
        for (const name of metricsIn(expr)) {
          for (const [version, known] of recorded)
            t.ok(known[name]?.includes(label), `${title}: ${label} of ${name} in ${version}`)
        }
      }
    }
  }
})

t.test('a name that no engine has is noticed', async (t) => {
  const known = Object.values(recordedMetrics()).flat()
  const [name = ''] = metricsIn('max by (id) (collection_made_up{namespace="$namespace"})')
  t.equal(name, 'collection_made_up')
  t.notOk(known.includes(name))
})

const { ENGINE_BIN: engineBin } = process.env
if (engineBin === undefined) {
  t.pass('ENGINE_BIN names no engine: what it measures is as recorded', { skip: true })
} else {
  t.test('the real engine measures what was recorded of its version', async (t) => {
    const { version, labels } = await realMetrics(engineBin)
    const recorded = recordedMetrics()[version]
    t.ok(recorded, `engine ${version} was recorded: node test/chart/engine-metrics.ts`)
    t.strictSame(Object.keys(labels), recorded)
    const known = recordedLabels()[version]
    if (known !== undefined) t.strictSame(labels, known)
  })
}
