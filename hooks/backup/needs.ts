/** What a backup waits for before its Job can start, and what it will never get. */
import type { CrossNamespace } from '../allow-from.ts'
import { endpointLack } from '../endpoint.ts'
import { bucketLack, clusterLack, foremost, keyLack, type Lack } from '../lack.ts'
import type { Observed } from './observed.ts'

/** The first thing that is missing; undefined when the Job may be made. */
export function lackOf(
  { backup, cluster, secrets }: Observed,
  settings: CrossNamespace,
): Lack | undefined {
  const { namespace: from } = backup.metadata
  const { name, namespace = from } = backup.spec.clusterRef
  return foremost([
    clusterLack({ namespace, name }, cluster, { from, settings }),
    endpointLack('spec.storage.s3.endpoint', backup.spec.storage.s3.endpoint),
    bucketLack(backup.spec.storage.s3, from, secrets.bucket),
    cluster && keyLack(cluster, secrets.engine),
  ])
}
