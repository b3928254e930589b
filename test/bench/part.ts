/** A part of the bench: what it measures, its yardstick, and how long it measures. */
import type { Schedule } from './pairs.ts'
import type { Figure } from './table.ts'

export interface Plan extends Schedule {
  /** Number of different parents that are synced for the memory figure. */
  parents: number
  /** Writes a CPU profile of the service to dist/bench. */
  profile: boolean
  /** Runs the service in a memory cgroup while it is attacked. */
  cgroup: boolean
}

export interface Need {
  variable: string
  rows: string
}

export interface Part {
  /** The name for `--only`. */
  name: string
  title: string
  /** Column headings: what is measured, and its yardstick. */
  columns: [measured: string, yardstick: string]
  /** Requirements, for --help. */
  usage?: string
  /** Variables of the environment without which some rows are not measured, and which rows those are. */
  needs?: readonly Need[]
  /** The rows that have a target in a whole run: one that is missing, or has none, is counted as not measured. */
  targets: (plan: Plan) => readonly string[]
  measure: (plan: Plan) => Promise<Figure[]>
}
