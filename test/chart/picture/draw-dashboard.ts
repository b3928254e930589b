/**
 * `PROMETHEUS=<path> node test/chart/picture/draw-dashboard.ts service|engine` writes docs/pictures/dashboard.svg: the
 * panels of chart/files/dashboard.json over two hours of the embedded world, or docs/pictures/engine-dashboard.svg:
 * those of chart/files/engine-dashboard.json over some minutes of three real engines. No value is made up:
 * Prometheus evaluates each panel's expressions over the metrics of the service or of the engines.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { drawing, legendOf, type Answered, type Panel } from './draw.ts'
import { watchEngines, NAMESPACE } from './engine-story.ts'
import { startPrometheus, type Prometheus } from './prometheus.ts'
import { liveTwoHours } from './story.ts'

const ROOT = join(import.meta.dirname, '../../..')
const PICTURES = {
  service: { file: 'dashboard', watch: liveTwoHours },
  engine: { file: 'engine-dashboard', watch: watchEngines },
}

const program = process.env['PROMETHEUS']
if (program === undefined)
  throw new Error('PROMETHEUS names no prometheus (Debian: in the package of that name)')
const [, , name = 'service'] = process.argv
if (!(name in PICTURES)) throw new Error(`${name} must be service or engine`)
const { file, watch } = PICTURES[name as keyof typeof PICTURES]
const { panels } = JSON.parse(readFileSync(join(ROOT, `chart/files/${file}.json`), 'utf8')) as {
  panels: Panel[]
}
const samples = await watch()
const [from, to] = [samples[0]?.at ?? 0, samples.at(-1)?.at ?? 0]
const prometheus = await startPrometheus(program, samples)
try {
  const answers: Answered[] = []
  for (const panel of panels) answers.push(await answered(panel, prometheus))
  writeFileSync(join(ROOT, `docs/pictures/${file}.svg`), drawing(answers, { from, to }))
  console.log(`${samples.length} samples, Prometheus ${prometheus.version}`)
  for (const { panel, series } of answers) console.log(`${series.length} series: ${panel.title}`)
} finally {
  await prometheus.close()
}

async function answered(panel: Panel, asked: Prometheus): Promise<Answered> {
  const series: Answered['series'] = []
  for (const { expr, legendFormat } of panel.targets) {
    const expression = expr.replaceAll('$namespace', NAMESPACE)
    const found = await (panel.type === 'timeseries'
      ? asked.range(expression, from, to)
      : asked.instant(expression, to))
    series.push(...found.map((one) => ({ ...one, legend: legendOf(legendFormat, one.labels) })))
  }
  return { panel, series }
}
