/** A part of the bench: what it measures, beside what, and how much time it may take. */
import type { Turns } from './pairs.ts'
import type { Figure } from './table.ts'

export interface Plan extends Turns {
  /** Different parents synced in turn for the memory. */
  parents: number
  /** Writes a CPU profile of the service to dist/bench. */
  profile: boolean
}

export interface Part {
  /** As `--only` names it. */
  name: string
  title: string
  /** What is measured, and what the same is measured of beside it: heads of the columns. */
  columns: [measured: string, yardstick: string]
  /** What it needs, for --help. */
  usage?: string
  measure: (plan: Plan) => Promise<Figure[]>
}
