/**
 * Implements the ports of VecRestore with the real clients of jobs/clients. Also finds the work on
 * a cluster that conflicts with a restore: helm Jobs, migrations and writes in progress.
 */
import { Type, type Static } from '@sinclair/typebox'
import { LABELS, releaseName } from '../../crds/contract/names.ts'
import { AnyObject } from '../../crds/kubernetes.ts'
import { VecMigration } from '../../crds/migration.ts'
import { VecRestore } from '../../crds/restore.ts'
import { isBlockingJob, type BlockingRules } from '../../hooks/cross-namespace.ts'
import { isFinished } from '../../hooks/data-job/observe.ts'
import type { RestorePorts } from '../../hooks/restore/observe.ts'
import type { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import {
  inNamespaces,
  jobs,
  migrations,
  restores,
} from '../../jobs/clients/kubernetes/api-resources.ts'
import type { InFlightWrites } from './collection.ts'
import {
  dataJobPorts,
  listActiveJobs,
  listOrEmpty,
  listReadable,
  type DataJobDependencies,
} from './common.ts'

export function restorePorts(
  dependencies: DataJobDependencies & ConflictingWorkDependencies,
): RestorePorts {
  const { kubernetes } = dependencies
  return {
    ...dataJobPorts(dependencies),
    restore: (namespace, name) => kubernetes.get(restores(namespace), name, VecRestore.schema),
    conflictingWork: conflictingWorkPort(dependencies),
  }
}

export interface ConflictingWorkDependencies {
  kubernetes: Kubernetes
  /** Namespaces that the service may read; an empty list means all. */
  namespaces: string[]
  inFlightWrites: InFlightWrites
}

interface NamespacedName {
  namespace: string
  name: string
}

export function conflictingWorkPort(
  dependencies: ConflictingWorkDependencies,
): RestorePorts['conflictingWork'] {
  return async (cluster, rules) => {
    const [helmJobs, runningMigrations] = await Promise.all([
      activeHelmJobs(dependencies, cluster),
      activeMigrations(dependencies, cluster, rules),
    ])
    return [...helmJobs, ...runningMigrations, ...dependencies.inFlightWrites.list(cluster)]
  }
}

/** Unfinished helm Jobs of a cluster. */
export async function activeHelmJobs(
  { kubernetes }: Pick<ConflictingWorkDependencies, 'kubernetes'>,
  { namespace, name }: NamespacedName,
): Promise<string[]> {
  const labels = { [LABELS.component]: 'helm', [LABELS.release]: releaseName(name) }
  const found = await listActiveJobs(kubernetes, [jobs(namespace)], { labels })
  return found.map(({ metadata }) => `helm Job ${metadata.name}`)
}

/**
 * Only the fields that identify the clusters: a migration admitted by an older CRD may be running
 * too.
 */
const { source, targetClusterRef } = VecMigration.schema.properties.spec.properties
const MigrationRefs = Type.Object({
  ...AnyObject.properties,
  status: Type.Optional(Type.Object({ phase: Type.Optional(Type.String()) })),
  spec: Type.Object({ targetClusterRef, source: Type.Pick(source, ['clusterRef']) }),
})
type MigrationRefs = Static<typeof MigrationRefs>

/**
 * VecMigrations from or to the cluster with an active Job that blocks other work. A namespace that
 * cannot be read, and may use the cluster, may have one.
 */
async function activeMigrations(
  { kubernetes, namespaces }: ConflictingWorkDependencies,
  cluster: NamespacedName,
  rules: BlockingRules,
): Promise<string[]> {
  const { found: dataJobs, unreadable } = await listReadable(
    inNamespaces(jobs, namespaces),
    (resource) =>
      listActiveJobs(kubernetes, [resource], {
        labels: { [LABELS.component]: 'transfer' },
        matches: (job) => isBlockingJob(job, rules),
      }),
  )
  const unknown = unreadable
    .filter(rules.isAllowed)
    .map(
      (namespace) =>
        `work of namespace ${namespace}, which cannot be read: run helm upgrade, or remove it from operator.namespaces`,
    )
  const parents = new Set(dataJobs.map(({ metadata }) => parentKey(metadata.namespace, metadata.labels?.[LABELS.parent]))) // prettier-ignore
  if (parents.size === 0) return unknown
  const readable = inNamespaces(migrations, namespaces).filter(
    ({ namespace = '' }) => !unreadable.includes(namespace),
  )
  const active = await listOrEmpty(kubernetes, readable, {
    schema: MigrationRefs,
    pick(migration) {
      const { namespace, name, uid } = migration.metadata
      // Its own Job has ended: a user has created another one with its name and signature.
      if (isFinished(migration) && !rules.isAllowed(namespace ?? '')) return undefined
      const hasJob = parents.has(parentKey(namespace, uid))
      return hasJob && involves(migration, cluster)
        ? `VecMigration ${namespace}/${name}`
        : undefined
    },
  })
  return [...active, ...unknown]
}

/** Includes the namespace, because a Job counts only for a migration in its own namespace. */
function parentKey(namespace = '', uid = ''): string {
  return `${namespace}/${uid}`
}

function involves({ metadata, spec }: MigrationRefs, { namespace, name }: NamespacedName): boolean {
  return [spec.source.clusterRef, spec.targetClusterRef].some(
    (reference) =>
      reference?.name === name && (reference.namespace ?? metadata.namespace) === namespace,
  )
}
