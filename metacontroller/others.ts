/** Who works on a cluster without a Lease of it: a restore does not start beside them. */
import { Type, type Static } from '@sinclair/typebox'
import { AnyObject } from '../crds/kubernetes.ts'
import { VecMigration } from '../crds/migration.ts'
import { LABELS, releaseName } from '../crds/names.ts'
import { isAtWork, type WorkRules } from '../hooks/at-work.ts'
import type { RestorePorts } from '../hooks/restore/ports.ts'
import type { Kubernetes } from '../jobs/clients/kubernetes.ts'
import { jobs, migrations, served } from './places.ts'
import { listed } from './common-ports.ts'
import { unfinishedJobs } from './unfinished.ts'
import type { WritesUnderWay } from './writes-under-way.ts'

export interface OthersTools {
  kubernetes: Kubernetes
  /** Those the service may read; empty means all. */
  namespaces: string[]
  writes: WritesUnderWay
}

interface Cluster {
  namespace: string
  name: string
}

export function othersAt(tools: OthersTools): RestorePorts['othersAt'] {
  return async (cluster, rules) => {
    const [helm, copying] = await Promise.all([
      helmJobsAt(tools, cluster),
      migrationsAt(tools, cluster, rules),
    ])
    return [...helm, ...copying, ...tools.writes.at(cluster)]
  }
}

/** helm Jobs of a cluster that have not ended. */
export async function helmJobsAt(
  { kubernetes }: Pick<OthersTools, 'kubernetes'>,
  { namespace, name }: Cluster,
): Promise<string[]> {
  const labels = { [LABELS.component]: 'helm', [LABELS.release]: releaseName(name) }
  const found = await unfinishedJobs(kubernetes, [jobs(namespace)], labels)
  return found.map(({ metadata }) => `helm Job ${metadata.name}`)
}

/** No more than tells what it touches: one that an older CRD let in may be at work too. */
const { source, targetClusterRef } = VecMigration.schema.properties.spec.properties
const Migration = Type.Object({
  ...AnyObject.properties,
  spec: Type.Object({ targetClusterRef, source: Type.Pick(source, ['clusterRef']) }),
})
type Migration = Static<typeof Migration>

/** From it or to it, with a Job that others wait for. */
async function migrationsAt(
  { kubernetes, namespaces }: OthersTools,
  cluster: Cluster,
  rules: WorkRules,
): Promise<string[]> {
  const unfinished = await unfinishedJobs(kubernetes, served(jobs, namespaces), {
    [LABELS.component]: 'transfer',
  })
  const atWork = unfinished.filter((job) => isAtWork(job, rules))
  const parents = new Set(atWork.map(({ metadata }) => parentOf(metadata.namespace, metadata.labels?.[LABELS.parent]))) // prettier-ignore
  if (parents.size === 0) return []
  const all = await listed(kubernetes, served(migrations, namespaces), Migration)
  return all
    .filter(({ metadata }) => parents.has(parentOf(metadata.namespace, metadata.uid)))
    .filter((migration) => touches(migration, cluster))
    .map(({ metadata }) => `VecMigration ${metadata.namespace}/${metadata.name}`)
}

/** A Job counts for a migration of its own namespace only. */
function parentOf(namespace = '', uid = ''): string {
  return `${namespace}/${uid}`
}

function touches({ metadata, spec }: Migration, { namespace, name }: Cluster): boolean {
  return [spec.source.clusterRef, spec.targetClusterRef].some(
    (one) => one?.name === name && (one.namespace ?? metadata.namespace) === namespace,
  )
}
