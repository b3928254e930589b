/**
 * The guard of node 0 (hooks/cluster/job.ts) on this machine: the script that the operator puts
 * into the pod, with the addresses of the engines here in place of the names of the pods.
 */
import type { VecCluster } from '../../crds/cluster.ts'
import { FORMATION_NODES_KEY, releaseName } from '../../crds/contract/names.ts'
import { withBootstrapGuard } from '../../hooks/cluster/bootstrap-guard.ts'

export interface GuardOptions {
  cluster: VecCluster
  /** Folder of the record that the cluster was formed. */
  formation: string
  /** Addresses at which the nodes know each other, without the last number, and that of node 0. */
  prefix: string
  first: number
  /** Command line of the engine. */
  engine: readonly string[]
}

export const RECORD = FORMATION_NODES_KEY

/** Command line of a container of node 0. Throws if the script no longer has what is replaced here. */
export function guarded(options: GuardOptions): [string, ...string[]] {
  const { cluster, formation, prefix, first, engine } = options
  const release = releaseName(cluster.metadata.name)
  const [script = ''] = withBootstrapGuard({}, cluster)['args'] as string[]
  const replacements: [string, string][] = [
    ['/qdrant/formation', formation],
    [`host=${release}-$i.${release}-headless`, `host=${prefix}.$((${first} + i))`],
    [`${release}-[1-9][0-9]*[.]`, `${prefix.replaceAll('.', '[.]')}[.](${others(first)}):`],
    ['exec ./config/initialize.sh', `exec ${engine.map(quoted).join(' ')}`],
  ]
  const local = replacements.reduce((text, [from, to]) => {
    if (!text.includes(from)) throw new Error(`the guard of node 0 has no ${from}`)
    return text.replaceAll(from, to)
  }, script)
  return ['bash', '-c', `HOSTNAME=${release}-0\n${local}`]
}

/** With addresses of their own. */
export const MOST_NODES = 20

function others(first: number): string {
  return Array.from({ length: MOST_NODES }, (_, index) => String(first + 1 + index)).join('|')
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
