/**
 * The operator's chart of an earlier commit, for the upgrade scenario: the newest one that differs
 * from the chart in this work tree.
 */
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'

import { NotSupported } from '../world/world.ts'
import { run, succeeds } from './process.ts'

export interface PreviousChart {
  readonly commit: string
  readonly folder: string
}

/** So far back is looked for a chart that differs; a change and its revert may follow each other. */
const COMMITS = 20

/** Writes it below a directory; throws if the history is not available. */
export async function previousChart(repository: string, directory: string): Promise<PreviousChart> {
  const git = (...args: string[]) => run('git', ['-C', repository, ...args])
  if (!(await succeeds(git('rev-parse', 'HEAD')))) {
    throw new NotSupported('there is no history here, so no earlier chart: this is no clone')
  }
  const commits = (await git('log', '--format=%H', `-${COMMITS}`, '--', 'chart')).trim().split('\n')
  for (const commit of commits) {
    // The installed chart is that of the work tree, committed or not.
    if (await succeeds(git('diff', '--quiet', commit, '--', 'chart'))) continue
    return { commit, folder: await exported(git, commit, directory) }
  }
  throw new NotSupported('no earlier chart is in this clone: git fetch --unshallow brings it')
}

async function exported(
  git: (...args: string[]) => Promise<string>,
  commit: string,
  directory: string,
): Promise<string> {
  rmSync(directory, { recursive: true, force: true })
  mkdirSync(directory, { recursive: true })
  const archive = join(directory, 'chart.tar')
  await git('archive', '--output', archive, commit, 'chart')
  await run('tar', ['-xf', archive, '-C', directory])
  return join(directory, 'chart')
}
