/** Where and on what a proof was run. */
import { execFileSync, spawnSync } from 'node:child_process'
import { availableParallelism, cpus, totalmem } from 'node:os'

const GIB = 1024 ** 3

/** One sentence. */
export function machine(root: string): string {
  const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], {
    cwd: root,
    encoding: 'utf8',
  })
  // Results of sources that no commit has are marked as such; this page itself may differ.
  const local = execFileSync('git', ['status', '--porcelain', '--', '.', ':!docs/proof.md'], {
    cwd: root,
    encoding: 'utf8',
  })
  const changes = local === '' ? '' : ' with local changes'
  const model = cpus()[0]?.model ?? 'unknown processor'
  const memory = Math.round(totalmem() / GIB)
  const day = new Date().toISOString().slice(0, 10)
  return `${day}, commit ${commit.trim()}${changes}, ${availableParallelism()} cores of ${model}, ${memory} GiB, Node ${process.version}`
}

/** Whether one of these paths has changed since the commit; unknown if it is not in this history. */
export function changesSince(
  root: string,
  commit: string,
  paths: readonly string[],
): 'none' | 'some' | 'unknown' {
  const git = (...args: string[]) =>
    spawnSync('git', args, { cwd: root, stdio: 'ignore' }).status === 0
  if (!git('merge-base', '--is-ancestor', commit, 'HEAD')) return 'unknown'
  return git('diff', '--quiet', commit, '--', ...paths) ? 'none' : 'some'
}
