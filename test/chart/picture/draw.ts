/** The dashboard as one drawing: its own panels at their own places, with what their queries gave. */
import { STEP_SECONDS, type Series } from './prometheus.ts'

export interface Panel {
  title: string
  type: string
  gridPos: { x: number; y: number; w: number; h: number }
  fieldConfig: { defaults: { unit: string; noValue?: string; thresholds?: { steps: Step[] } } }
  targets: { expr: string; legendFormat: string }[]
}

interface Step {
  color: string
  value: number | null
}

export interface Answered {
  panel: Panel
  series: LabeledSeries[]
}

export interface LabeledSeries extends Series {
  /** As the target of the panel says. */
  legend: string
}

/** Of one unit of Grafana's grid, in pixels. */
const UNIT = { width: 50, height: 34 }
const GAP = 8
const TITLE = 24
const LEGEND_LINE = 15
const LETTER_WIDTH = 6
const NO_DATA = `<text x="8" y="${TITLE + 18}" fill="#6c757d">No data</text>\n`
const COLORS = [
  '#1f60c4',
  '#37872d',
  '#c4162a',
  '#e0b400',
  '#8f3bb8',
  '#fa6400',
  '#0a6c74',
  '#7c2ea3',
]
/** Labels that say where a value was read, and not of what it is. */
const OF_THE_SCRAPE = new Set(['__name__', 'job', 'instance'])
const FONT = 'font-family="ui-sans-serif, Helvetica, Arial, sans-serif"'

export function drawing(answers: Answered[], { from, to }: { from: number; to: number }): string {
  const width = 24 * UNIT.width
  const height =
    Math.max(...answers.map(({ panel: { gridPos } }) => gridPos.y + gridPos.h)) * UNIT.height
  const panels = answers.map((answer) => panelOf(answer, from, to)).join('\n')
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" ${FONT} font-size="12">
<rect width="100%" height="100%" fill="#f4f5f5"/>
${panels}
</svg>
`
}

interface Box {
  width: number
  height: number
}

function panelOf({ panel, series }: Answered, from: number, to: number): string {
  const { x, y, w, h } = panel.gridPos
  const box = { width: w * UNIT.width - GAP, height: h * UNIT.height - GAP }
  const inside =
    panel.type === 'stat'
      ? stat(panel, series, box)
      : panel.type === 'table'
        ? table(panel, series)
        : lines(panel, series, box, { from, to })
  return `<g transform="translate(${x * UNIT.width + GAP / 2} ${y * UNIT.height + GAP / 2})">
<rect width="${box.width}" height="${box.height}" rx="3" fill="#fff" stroke="#d8d9da"/>
<text x="8" y="17" font-weight="600">${escaped(panel.title)}</text>
${inside}</g>`
}

/** Of one number; a legend alone is the text, as for the release. */
function stat({ fieldConfig }: Panel, series: LabeledSeries[], { width, height }: Box): string {
  const { unit, noValue = 'no value', thresholds } = fieldConfig.defaults
  const [found] = series
  const value = found?.values.at(-1)?.[1]
  const named = found?.legend ?? ''
  const text = value === undefined ? noValue : named === '' ? valueOf(value, unit) : named
  const steps = thresholds?.steps ?? []
  const step = steps.findLast((one) => one.value === null || (value ?? 0) >= one.value)
  const fill =
    { green: '#37872d', red: '#c4162a', orange: '#fa6400', yellow: '#e0b400' }[step?.color ?? ''] ??
    '#37872d'
  return `<rect y="${TITLE}" width="${width}" height="${height - TITLE}" fill="${fill}"/>
<text x="${width / 2}" y="${TITLE + (height - TITLE) / 2 + 10}" font-size="28" fill="#fff" text-anchor="middle">${escaped(text)}</text>
`
}

/** A row for each series: its labels, and the value. */
function table({ fieldConfig }: Panel, series: Series[]): string {
  const rows = series.map(({ labels, values }, row) => {
    const ownLabels = Object.entries(labels).filter(([key]) => !OF_THE_SCRAPE.has(key))
    const words = ownLabels.map(([key, value]) => `${key}=${value}`)
    const value = valueOf(values.at(-1)?.[1] ?? NaN, fieldConfig.defaults.unit)
    return `<text x="8" y="${TITLE + 18 + row * 18}">${escaped(words.join('  '))}  <tspan font-weight="600">${escaped(value)}</tspan></text>`
  })
  return rows.length === 0 ? NO_DATA : `${rows.join('\n')}\n`
}

function lines(
  { fieldConfig }: Panel,
  series: LabeledSeries[],
  { width, height }: Box,
  { from, to }: { from: number; to: number },
): string {
  const { unit } = fieldConfig.defaults
  const drawn = series.filter(({ values }) => values.some(([, value]) => Number.isFinite(value)))
  if (drawn.length === 0) return NO_DATA
  const longest = Math.max(...drawn.map(({ legend }) => legend.length))
  const columnWidth = Math.max(180, longest * LETTER_WIDTH + 24)
  const columns = Math.max(1, Math.floor((width - 16) / columnWidth))
  const legend = Math.ceil(drawn.length / columns) * LEGEND_LINE
  const plot = { left: 64, top: TITLE + 8, right: width - 10, bottom: height - legend - 24 }
  const most =
    Math.max(
      ...drawn.flatMap(({ values }) => values.map(([, value]) => value)).filter(Number.isFinite),
      0,
    ) || 1
  const x = (at: number) => plot.left + ((at - from) / (to - from)) * (plot.right - plot.left)
  const y = (value: number) => plot.bottom - (value / most) * (plot.bottom - plot.top)
  const scale = [0, 0.5, 1].map((part) => {
    const height = y(most * part).toFixed(1)
    return `<line x1="${plot.left}" x2="${plot.right}" y1="${height}" y2="${height}" stroke="#e9ecef"/><text x="${plot.left - 6}" y="${Number(height) + 4}" text-anchor="end" font-size="10" fill="#6c757d">${escaped(valueOf(most * part, unit))}</text>`
  })
  const hours = [0, 0.25, 0.5, 0.75, 1].map((part) => {
    const at = from + (to - from) * part
    const time = new Date(at * 1000).toISOString().slice(11, 16)
    return `<text x="${x(at).toFixed(1)}" y="${plot.bottom + 14}" text-anchor="${part === 1 ? 'end' : 'middle'}" font-size="10" fill="#6c757d">${time}</text>`
  })
  const curves = drawn.map(({ legend: name, values }, index) => {
    const color = COLORS[index % COLORS.length] ?? ''
    const column = index % columns
    const row = Math.floor(index / columns)
    const [left, top] = [8 + column * columnWidth, height - legend + row * LEGEND_LINE + 4]
    return `<path d="${pathOf(values, x, y)}" fill="none" stroke="${color}" stroke-width="1.5"/><rect x="${left}" y="${top - 4}" width="10" height="3" fill="${color}"/><text x="${left + 14}" y="${top}" font-size="10">${escaped(name)}</text>`
  })
  return `${[...scale, ...hours, ...curves].join('\n')}\n`
}

/** A gap stays a gap. */
function pathOf(
  values: Series['values'],
  x: (at: number) => number,
  y: (value: number) => number,
): string {
  let pen = 'M'
  let before = values[0]?.[0] ?? 0
  const steps: string[] = []
  for (const [at, value] of values) {
    if (at - before > STEP_SECONDS) pen = 'M'
    before = at
    if (!Number.isFinite(value)) pen = 'M'
    else {
      steps.push(`${pen}${x(at).toFixed(1)} ${y(value).toFixed(1)}`)
      pen = 'L'
    }
  }
  return steps.join('')
}

/** The legend of one series. */
export function legendOf(format: string, labels: Record<string, string>): string {
  return format.replaceAll(/\{\{\s*(\w+)\s*\}\}/g, (_, label: string) => labels[label] ?? '')
}

function valueOf(value: number, unit: string): string {
  if (unit === 's') return duration(value)
  if (unit === 'bytes') return `${(value / 2 ** 20).toFixed(0)} MiB`
  if (unit === 'Bps') return `${(value / 1000).toFixed(1)} kB/s`
  return Number.isInteger(value) ? String(value) : value.toPrecision(2)
}

function duration(seconds: number): string {
  if (seconds < 0.01) return `${(seconds * 1000).toFixed(1)} ms`
  if (seconds < 1) return `${(seconds * 1000).toFixed(0)} ms`
  if (seconds < 120) return `${seconds.toFixed(0)} s`
  return seconds < 7200 ? `${(seconds / 60).toFixed(0)} min` : `${(seconds / 3600).toFixed(1)} h`
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
