/**
 * A picture of a round: how many shards had how many Active replicas, the number of pods, and what was done to the
 * cluster, over time.
 */
import type { Mark, Sample } from './watch.ts'

const [WIDTH, HEIGHT, MARGIN, TOP] = [960, 400, 48, 112]
const BOTTOM = HEIGHT - MARGIN
/** Rotated texts that are nearer to each other would overlap. */
const TEXT_GAP = 11
/** Shards with no, one, two, and more Active replicas, from the bottom up; above them those without an Active replica yet. */
const LEVELS = [
  { name: 'none', color: '#c62828' },
  { name: 'one', color: '#f9a825' },
  { name: 'two', color: '#2e7d32' },
  { name: 'three or more', color: '#81c784' },
  { name: 'being created', color: '#bdbdbd' },
] as const
const CREATED = LEVELS.length - 1

export interface Recorded {
  samples: readonly Sample[]
  marks: readonly Mark[]
}

/** SVG. */
export function picture({ samples, marks }: Recorded, title: string): string {
  const end = samples.at(-1)?.at ?? 1
  const counts = samples.map(levelsOf)
  const most = Math.max(1, ...counts.map((levels) => levels.reduce((sum, count) => sum + count, 0)))
  const pods = Math.max(1, ...samples.map((sample) => sample.pods))
  const x = (at: number) => round(MARGIN + (at / end) * (WIDTH - 2 * MARGIN))
  const y = (part: number) => round(BOTTOM - part * (BOTTOM - TOP))
  const areas = LEVELS.map(({ color }, level) => {
    const below = (index: number, upTo: number) =>
      (counts[index] ?? []).slice(0, upTo).reduce((sum, count) => sum + count, 0) / most
    const top = samples.map(({ at }, index) => `${x(at)},${y(below(index, level + 1))}`)
    const bottom = samples.map(({ at }, index) => `${x(at)},${y(below(index, level))}`).reverse()
    return `<polygon fill="${color}" points="${[...top, ...bottom].join(' ')}"/>`
  })
  const line = samples.map(({ at, pods: count }) => `${x(at)},${y(count / pods)}`).join(' ')
  const legend = LEVELS.map(({ name, color }, index) => {
    const left = MARGIN + index * 140
    return `<rect x="${left}" y="${HEIGHT - 20}" width="10" height="10" fill="${color}"/><text x="${left + 16}" y="${HEIGHT - 11}">${name}</text>`
  })
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12">`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="white"/>`,
    `<text x="${MARGIN}" y="18">${title}: shards by Active replicas (up to ${most} shards); line: pods (up to ${pods})</text>`,
    ...areas,
    `<polyline fill="none" stroke="black" stroke-width="1.5" points="${line}"/>`,
    ...marksOf(marks, x),
    `<text x="${MARGIN}" y="${BOTTOM + 16}">0</text>`,
    `<text x="${WIDTH - MARGIN}" y="${BOTTOM + 16}" text-anchor="end">${Math.round(end / 1000)} s</text>`,
    ...legend,
    '</svg>\n',
  ].join('\n')
}

/** Dashed lines with rotated texts. */
function marksOf(marks: readonly Mark[], x: (at: number) => number): string[] {
  let textLeft = -Infinity
  return marks.map(({ at, what }) => {
    const lineLeft = x(at)
    textLeft = round(Math.max(lineLeft + 4, textLeft + TEXT_GAP))
    const top = TOP - 6
    return (
      `<line x1="${lineLeft}" x2="${lineLeft}" y1="${TOP - 4}" y2="${BOTTOM}" stroke="black" stroke-width="0.6" stroke-dasharray="3 3"/>` +
      `<text x="${textLeft}" y="${top}" font-size="10" transform="rotate(-90 ${textLeft} ${top})">${what}</text>`
    )
  })
}

function levelsOf({ active, created }: Sample): number[] {
  const levels = LEVELS.map(() => 0)
  const add = (level: number, count: number) => (levels[level] = (levels[level] ?? 0) + count)
  for (const count of Object.values(active)) add(Math.min(count, CREATED - 1), 1)
  add(0, -created)
  add(CREATED, created)
  return levels
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}
