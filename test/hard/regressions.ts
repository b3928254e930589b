/** Plans that once found a defect: they run first. */
import type { Plan } from './plan.ts'

export interface Regression {
  /** What went wrong. */
  title: string
  plan: Plan
}

export const REGRESSIONS: readonly Regression[] = []
