/** A picture of a round: how many shards had how many Active replicas, and the number of nodes, over time. */
import type { Sample } from './watch.ts'

const [WIDTH, HEIGHT, MARGIN] = [960, 320, 48]
/** Shards with no, one, two, and more Active replicas, from the bottom up. */
const LEVELS = [
  { name: 'none', color: '#c62828' },
  { name: 'one', color: '#f9a825' },
  { name: 'two', color: '#2e7d32' },
  { name: 'three or more', color: '#81c784' },
] as const

/** SVG. */
export function picture(samples: readonly Sample[], title: string): string {
  const end = samples.at(-1)?.at ?? 1
  const counts = samples.map(({ active }) => levelsOf(active))
  const most = Math.max(1, ...counts.map((levels) => levels.reduce((sum, count) => sum + count, 0)))
  const pods = Math.max(1, ...samples.map((sample) => sample.pods))
  const x = (at: number) => round(MARGIN + (at / end) * (WIDTH - 2 * MARGIN))
  const y = (part: number) => round(HEIGHT - MARGIN - part * (HEIGHT - 2 * MARGIN))
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
    `<text x="${MARGIN}" y="20">${title}: Active replicas per shard (up to ${most} shards), and pods (line, up to ${pods})</text>`,
    ...areas,
    `<polyline fill="none" stroke="black" stroke-width="1.5" points="${line}"/>`,
    `<text x="${WIDTH - MARGIN}" y="${HEIGHT - MARGIN + 16}" text-anchor="end">${Math.round(end / 1000)} s</text>`,
    ...legend,
    '</svg>\n',
  ].join('\n')
}

function levelsOf(active: Record<string, number>): number[] {
  const levels = LEVELS.map(() => 0)
  for (const count of Object.values(active)) {
    const level = Math.min(count, LEVELS.length - 1)
    levels[level] = (levels[level] ?? 0) + 1
  }
  return levels
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}
