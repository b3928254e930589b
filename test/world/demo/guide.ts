/** Presents the tour: in a terminal a live table with keys, otherwise one line per change. */
import type { Step } from './step.ts'

export interface Guide {
  /** Before a step; answers when it may begin. */
  announce(step: Step, namespace: string): Promise<void>
  /** After a step: what was found to be so. */
  report(finding: string): Promise<void>
  /** After the last step; answers when the demo may end. */
  end(): Promise<void>
  /** Gives the terminal back. */
  close(): Promise<void>
}

export function commandOf({ types }: Step, namespace: string): string {
  return `kubectl -n ${namespace} ${types}`
}
