/**
 * Two runs of the bench beside each other. What a machine does besides moves every figure, but hardly
 * the ratio to a yardstick measured in turns with it: where there is one, that is compared; elsewhere
 * the figure itself.
 */
import type { Figure } from './table.ts'

export interface Kept extends Omit<Figure, 'what'> {
  /** Name of the yardstick in the oldest lines of the history. */
  echo?: number
}

/** One line of the history. */
export interface Run {
  at: string
  node: string
  cpu?: string
  figures: Record<string, Kept>
}

export interface Worse {
  what: string
  before: number
  now: number
  /** By how much, as a share: 0.1 is a tenth. */
  by: number
}

/** A change that makes a ratio worse by more says so. */
const TOLERATED = 0.1

/** What is worse than it was, the worst first. */
export function worseThan(before: Run, now: Run): Worse[] {
  return Object.entries(now.figures)
    .flatMap(([what, figure]) => {
      const old = before.figures[what]
      const by = old === undefined ? undefined : worsening(old, figure)
      if (old === undefined || by === undefined || by <= TOLERATED) return []
      return [{ what, before: comparable(old), now: comparable(figure), by }]
    })
    .toSorted((one, other) => other.by - one.by)
}

function worsening(before: Kept, now: Kept): number | undefined {
  const [was, is] = [comparable(before), comparable(now)]
  // Of what was nothing, anything is infinitely more.
  if (was === 0) return is === 0 ? 0 : Infinity
  if (yardstickOf(before) === undefined && yardstickOf(now) !== undefined) return undefined
  return isBetterWhenMore(now) ? (was - is) / was : (is - was) / was
}

function comparable(figure: Kept): number {
  const yardstick = yardstickOf(figure)
  return yardstick === undefined || yardstick === 0 ? figure.value : figure.value / yardstick
}

function yardstickOf({ yardstick, echo }: Kept): number | undefined {
  return yardstick ?? echo
}

function isBetterWhenMore({ unit }: Kept): boolean {
  return unit.endsWith('/s') || unit === 'x'
}

export function told(worse: Worse[], since: Run): string {
  const head = `compared with ${since.at}`
  if (worse.length === 0) return `${head}: nothing is worse by more than a tenth\n`
  const lines = worse.map(
    ({ what, before, now, by }) =>
      `  ${what}: ${short(before)} -> ${short(now)}, worse by ${Math.round(100 * by)} %\n`,
  )
  return `${head}: ${worse.length} worse by more than a tenth\n${lines.join('')}`
}

function short(value: number): string {
  return value >= 100 ? String(Math.round(value)) : value.toFixed(2)
}
