/** The dashboard of the engine, with what real engines measure. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { realMetrics, recordedMetrics } from './engine-metrics.ts'
import { CHART } from './helm.ts'

const dashboard = JSON.parse(readFileSync(join(CHART, 'files/engine-dashboard.json'), 'utf8')) as {
  panels: { title: string; targets: { expr: string }[] }[]
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
    const { version, names } = await realMetrics(engineBin)
    const recorded = recordedMetrics()[version]
    t.ok(recorded, `engine ${version} was recorded: node test/chart/engine-metrics.ts`)
    t.strictSame(names, recorded)
  })
}
