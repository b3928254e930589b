/** What a migration waits for before its Job can start, and what it will never get. */
import type { CrossNamespace } from '../allow-from.ts'
import { copyLack } from '../copied-resource.ts'
import { endpointLack } from '../endpoint.ts'
import { clusterLack, foremost, type Lack } from '../lack.ts'
import { credentialLack } from './credentials.ts'
import type { Observed } from './observed.ts'
import { sourceClusterOf, targetOf } from './places.ts'

/** The first thing that is missing; undefined when the Job may be made. */
export function lackOf(
  { migration, clusters, secrets, isReady }: Observed,
  settings: CrossNamespace,
): Lack | undefined {
  const reader = { from: migration.metadata.namespace, settings }
  const source = sourceClusterOf(migration)
  const target = targetOf(migration)
  return foremost([
    copyLack(migration),
    endpointLack('spec.source.endpoint.url', migration.spec.source.endpoint?.url),
    ofTarget(clusterLack(target, clusters.target, reader)),
    source && clusterLack(source, clusters.source, reader),
    credentialLack(migration, clusters, secrets),
    // Asked only where nothing else is missing.
    isReady === false
      ? ofTarget({
          reason: 'ClusterNotReady',
          message: `cluster ${target.namespace}/${target.name} does not answer /readyz with 200`,
        })
      : undefined,
  ])
}

function ofTarget(lack: Lack | undefined): Lack | undefined {
  if (lack?.reason !== 'ClusterNotReady') return lack
  return { ...lack, message: `target cluster not ready: ${lack.message}` }
}
