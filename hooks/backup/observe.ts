/** Reads all that a decision about a VecBackup may know: from the request, and through ports the rest. */
import type { VecBackup } from '../../crds/backup.ts'
import { connectionOf } from '../../crds/connection.ts'
import type { Job } from '../../crds/kubernetes.ts'
import { keySecretName, releaseName } from '../../crds/names.ts'
import { readCopies } from '../copies.ts'
import { endingOf, isFinal } from '../ending.ts'
import { seeLease } from '../lease.ts'
import { clustersIn, reportOn, shownJobs } from '../observations.ts'
import type { Context, HookRequest } from '../protocol.ts'
import { hasReported, isCrashed, runningJob } from '../transfer.ts'
import { copied } from './copies.ts'
import type { BackupPorts } from './ports.ts'
import type { Observed } from './observed.ts'

type Shown = Pick<Observed, 'backup' | 'children' | 'jobs' | 'progress' | 'cluster'>

export async function observe(
  request: HookRequest<VecBackup>,
  ports: BackupPorts,
  context: Context,
): Promise<Observed> {
  const shown = fromRequest(request)
  if (isFinal(shown.backup)) return { ...shown, secrets: {} }
  if (isCrashed(shown, context)) await readReport(shown, ports)
  const running = runningJob(shown)
  if (running === undefined && !wantsJob(shown, context)) return { ...shown, secrets: {} }
  // Once it has reported, what changes is not this Job's business.
  if (running !== undefined && hasReported(shown, running)) {
    return { ...shown, ...(await readOriginals(shown, running, ports)) }
  }
  return readAround(shown, running, ports)
}

/** Whether a Job may be due: only then is it worth to read live what stands in its way. Pure. */
export function wantsJob(shown: Shown, context: Context): boolean {
  return (
    !isFinal(shown.backup) &&
    endingOf(shown, context) === undefined &&
    runningJob(shown) === undefined
  )
}

export function fromRequest(request: HookRequest<VecBackup>): Shown {
  const [cluster] = clustersIn(request.related)
  return {
    backup: request.parent,
    ...shownJobs(request),
    ...(cluster !== undefined && { cluster }),
  }
}

/** Name of the cluster that is backed up. */
export function clusterOf({ metadata, spec }: VecBackup): { namespace: string; name: string } {
  return { namespace: metadata.namespace, ...spec.clusterRef }
}

async function readReport(shown: Shown, ports: BackupPorts): Promise<void> {
  const { namespace, name, uid } = shown.backup.metadata
  const live = await ports.backup(namespace, name)
  const progress = live?.metadata.uid === uid ? reportOn(live) : undefined
  if (progress !== undefined) shown.progress = progress
}

async function readAround(
  shown: Shown,
  running: Job | undefined,
  ports: BackupPorts,
): Promise<Observed> {
  const { metadata } = shown.backup
  const { namespace, name } = clusterOf(shown.backup)
  // A cluster of the same name may have been made anew: its Leases must be those of the one that lives.
  const [cluster, statefulSet] = await Promise.all([
    ports.cluster(namespace, name),
    ports.statefulSet(namespace, releaseName(name)),
  ])
  const observed: Observed = {
    ...shown,
    ...(statefulSet !== undefined && { statefulSet }),
    secrets: {},
  }
  if (cluster === undefined) delete observed.cluster
  else observed.cluster = cluster
  if (running !== undefined) Object.assign(observed, await readOriginals(observed, running, ports))
  else observed.secrets = await readSecrets(observed, ports)
  if (cluster === undefined) return observed
  const [write, backup, liveJobs] = await Promise.all([
    seeLease({ namespace, name }, 'write', ports),
    seeLease({ namespace, name }, 'backup', ports),
    ports.jobsOf(metadata.namespace, metadata.uid),
  ])
  return { ...observed, leases: { write, backup }, liveJobs }
}

async function readOriginals(
  shown: Shown,
  job: Job,
  ports: BackupPorts,
): Promise<Pick<Observed, 'secrets' | 'copies'>> {
  const credentials = copied(shown.backup)
  if (credentials.length === 0) return { secrets: {} }
  const copies = await readCopies(credentials, job, ports)
  return { secrets: await readSecrets(shown, ports), copies }
}

async function readSecrets(
  { backup, cluster }: Pick<Observed, 'backup' | 'cluster'>,
  ports: BackupPorts,
): Promise<Observed['secrets']> {
  const { metadata, spec } = backup
  const read = async (namespace: string, name: string | undefined) =>
    name === undefined ? undefined : ports.secret(namespace, name)
  const { namespace = '', name = '' } = cluster?.metadata ?? {}
  const connection = cluster && connectionOf(cluster)
  const [bucket, engine, tls] = await Promise.all([
    read(metadata.namespace, spec.storage.s3.credentialsSecretRef.name),
    read(namespace, connection?.key && keySecretName(name)),
    read(namespace, connection?.caSecret),
  ])
  return {
    ...(bucket !== undefined && { bucket }),
    ...(engine !== undefined && { engine }),
    ...(tls !== undefined && { tls }),
  }
}
