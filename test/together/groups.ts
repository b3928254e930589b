/**
 * Which test files run in one process in `npm test`: for most of them loading takes longer than testing, and what is
 * loaded and compiled once serves all that follow. A file that is named on the command line runs on its own.
 */
import { globSync } from 'node:fs'

/** Patterns of test files by the name of the file here that runs them. `.taprc` excludes the same patterns. */
export const GROUPS: Record<string, readonly string[]> = {
  backup: ['test/jobs/backup/**/*.test.ts'],
  chart: ['test/chart/**/*.test.ts'],
  clients: ['test/jobs/clients/**/*.test.ts'],
  cluster: ['test/jobs/cluster/*.test.ts'],
  hooks: ['test/{crds,hooks}/**/*.test.ts'],
  jobs: ['test/jobs/*.test.ts', 'test/jobs/kubectl/**/*.test.ts'],
  metacontroller: ['test/metacontroller/**/*.test.ts'],
  migration: ['test/jobs/migration/**/*.test.ts'],
  others: ['test/{audit,bench,docs,mutation,proof,quick,release,updates}/**/*.test.ts'],
  restore: ['test/jobs/restore/**/*.test.ts'],
  shards: ['test/jobs/cluster/shards/**/*.test.ts'],
}

/** Paths from the root. */
export function filesOf(group: string, root: string): string[] {
  return globSync([...(GROUPS[group] ?? [])], { cwd: root }).toSorted()
}
