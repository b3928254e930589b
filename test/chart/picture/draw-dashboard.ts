/**
 * `PROMETHEUS=<path> node test/chart/picture/draw-dashboard.ts` writes docs/pictures/dashboard.svg: the
 * panels of chart/files/dashboard.json over two hours of the embedded world. No value is made up:
 * Prometheus evaluates each panel's expression over the metrics of the service.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { drawing, type Answered, type Panel } from './draw.ts'
import { startPrometheus, type Prometheus } from './prometheus.ts'
import { liveTwoHours } from './story.ts'

const ROOT = join(import.meta.dirname, '../../..')
const { panels } = JSON.parse(readFileSync(join(ROOT, 'chart/files/dashboard.json'), 'utf8')) as {
  panels: Panel[]
}

const program = process.env['PROMETHEUS']
if (program === undefined)
  throw new Error('PROMETHEUS names no prometheus (Debian: in the package of that name)')
const samples = await liveTwoHours()
const [from, to] = [samples[0]?.at ?? 0, samples.at(-1)?.at ?? 0]
const prometheus = await startPrometheus(program, samples)
try {
  const answers: Answered[] = []
  for (const panel of panels) answers.push(await answered(panel, prometheus))
  writeFileSync(join(ROOT, 'docs/pictures/dashboard.svg'), drawing(answers, { from, to }))
  console.log(`${samples.length} samples, Prometheus ${prometheus.version}`)
  for (const { panel, series } of answers) console.log(`${series.length} series: ${panel.title}`)
} finally {
  await prometheus.close()
}

async function answered(panel: Panel, asked: Prometheus): Promise<Answered> {
  const expression = panel.targets[0]?.expr ?? ''
  const series = await (panel.type === 'timeseries'
    ? asked.range(expression, from, to)
    : asked.instant(expression, to))
  return { panel, series }
}
