/** Changes that no test need notice, and why: they do not change what anybody can see. */

export interface Explained {
  file: string
  /** Stryker's name of the kind of change. */
  mutator: string
  why: string
}

export const EXPLAINED: Explained[] = []
