/** Reads all that a decision about a VecMigration may know: from the request, and through ports the rest. */
import type { VecCluster } from '../../crds/cluster.ts'
import { connectionOf } from '../../crds/connection.ts'
import type { Job } from '../../crds/kubernetes.ts'
import type { VecMigration } from '../../crds/migration.ts'
import { workAt } from '../allow-from.ts'
import { endingOf, isFinal } from '../ending.ts'
import { seeLease } from '../lease.ts'
import { clustersIn, readReport, shownJobs } from '../observations.ts'
import type { Context, HookRequest } from '../protocol.ts'
import { hasReported, isCrashed, runningJob } from '../transfer.ts'
import { readEnd, readOriginals } from '../transfer-observe.ts'
import { copied, wantedCredentials, type Clusters, type Secrets } from './credentials.ts'
import { lackOf } from './needs.ts'
import { sourceClusterOf, targetOf, type ClusterName } from './places.ts'
import type { MigrationPorts } from './ports.ts'
import type { Observed } from './observed.ts'

export async function observe(
  request: HookRequest<VecMigration>,
  ports: MigrationPorts,
  context: Context,
): Promise<Observed> {
  const shown = fromRequest(request)
  if (isFinal(shown.migration)) return shown
  if (isCrashed(shown, context)) {
    await readReport(shown, shown.migration, (...of) => ports.migration(...of))
  }
  if (endingOf(shown, context) !== undefined) return shown
  const running = runningJob(shown)
  if (running === undefined) {
    const migration = await readEnd(shown.migration, (...of) => ports.migration(...of))
    if (migration !== undefined) return { ...shown, migration }
  } else if (hasReported(shown, running)) {
    // Once it has reported, what changes is not this Job's business.
    return { ...shown, ...(await originalsFor(shown, running, ports)) }
  }
  const clusters = await readClusters(shown.migration, ports)
  const known = { ...shown, clusters }
  if (running !== undefined) return { ...known, ...(await originalsFor(known, running, ports)) }
  return readAround(known, ports, context)
}

export function fromRequest(request: HookRequest<VecMigration>): Observed {
  const migration = request.parent
  const shown = clustersIn(request.related)
  const named = (place: ClusterName | undefined) =>
    shown.find(
      ({ metadata }) => metadata.namespace === place?.namespace && metadata.name === place.name,
    )
  return {
    migration,
    ...shownJobs(request),
    clusters: clustersOf(named(sourceClusterOf(migration)), named(targetOf(migration))),
    secrets: {},
  }
}

/** Live: a namesake may have been made, and its Lease must be that of the cluster that lives. */
async function readClusters(migration: VecMigration, ports: MigrationPorts): Promise<Clusters> {
  const read = async (place: ClusterName | undefined) =>
    place && ports.cluster(place.namespace, place.name)
  const [source, target] = await Promise.all([
    read(sourceClusterOf(migration)),
    read(targetOf(migration)),
  ])
  return clustersOf(source, target)
}

async function readAround(
  shown: Observed,
  ports: MigrationPorts,
  context: Context,
): Promise<Observed> {
  const { migration, clusters } = shown
  const { namespace, uid } = migration.metadata
  const [secrets, liveJobs, writers] = await Promise.all([
    readSecrets(migration, clusters, ports),
    ports.jobsOf(namespace, uid),
    Promise.all(
      leased(migration, clusters).map(({ place, cluster }) =>
        seeLease(place, 'write', ports, workAt(cluster, context)),
      ),
    ),
  ])
  const observed = { ...shown, secrets, liveJobs, writers }
  // An engine is asked only when its answer could start a Job.
  if (liveJobs.length > 0 || clusters.target === undefined) return observed
  if (lackOf(observed, context.settings) !== undefined) return observed
  return { ...observed, isReady: await ports.isReady(connectionOf(clusters.target)) }
}

/** The managed clusters points are read from or written to. */
function leased(migration: VecMigration, { source, target }: Clusters) {
  const from = sourceClusterOf(migration)
  return [
    { place: targetOf(migration), cluster: target },
    ...(from === undefined ? [] : [{ place: from, cluster: source }]),
  ]
}

async function originalsFor(observed: Observed, job: Job, ports: MigrationPorts) {
  const { migration, clusters } = observed
  const secrets = () => readSecrets(migration, clusters, ports)
  return readOriginals(job, { copied: copied(migration), secrets }, ports)
}

async function readSecrets(
  migration: VecMigration,
  clusters: Clusters,
  ports: MigrationPorts,
): Promise<Secrets> {
  const read = wantedCredentials(migration, clusters).map(
    async ({ credential, namespace, name }) =>
      [credential, await ports.secret(namespace, name)] as const,
  )
  const found = await Promise.all(read)
  return Object.fromEntries(found.flatMap(([name, secret]) => (secret ? [[name, secret]] : [])))
}

function clustersOf(source: VecCluster | undefined, target: VecCluster | undefined): Clusters {
  return { ...(source !== undefined && { source }), ...(target !== undefined && { target }) }
}
