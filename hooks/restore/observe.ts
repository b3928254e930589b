/** Reads all that a decision about a VecRestore may know: from the request, and through ports the rest. */
import { connectionOf } from '../../crds/connection.ts'
import type { Job } from '../../crds/kubernetes.ts'
import { keySecretName, releaseName } from '../../crds/names.ts'
import type { VecRestore } from '../../crds/restore.ts'
import { readCopies } from '../copies.ts'
import { endingOf, isFinal } from '../ending.ts'
import { seeLease } from '../lease.ts'
import { backupsIn, clustersIn, reportOn, shownJobs } from '../observations.ts'
import type { Context, HookRequest } from '../protocol.ts'
import { hasReported, isCrashed, runningJob } from '../transfer.ts'
import { copied } from './copies.ts'
import { backupOf, bucketNamespaceOf, sourceOf, targetOf } from '../../crds/rules/restore-places.ts'
import type { RestorePorts } from './ports.ts'
import type { Observed } from './observed.ts'

type Shown = Pick<
  Observed,
  'restore' | 'children' | 'jobs' | 'progress' | 'cluster' | 'statefulSet' | 'backup'
>

export async function observe(
  request: HookRequest<VecRestore>,
  ports: RestorePorts,
  context: Context,
): Promise<Observed> {
  const shown = fromRequest(request)
  if (isFinal(shown.restore)) return { ...shown, secrets: {} }
  if (isCrashed(shown, context)) await readReport(shown, ports)
  if (endingOf(shown, context) !== undefined) return { ...shown, secrets: {} }
  const running = runningJob(shown)
  // Once it has reported, what changes is not this Job's business.
  if (running !== undefined && hasReported(shown, running)) {
    return { ...shown, ...(await readOriginals(shown, running, ports)) }
  }
  return readAround(shown, running, ports)
}

export function fromRequest(request: HookRequest<VecRestore>): Shown {
  const [cluster] = clustersIn(request.related)
  const [backup] = backupsIn(request.related)
  return {
    restore: request.parent,
    ...shownJobs(request),
    ...(cluster !== undefined && { cluster }),
    ...(backup !== undefined && { backup }),
  }
}

async function readReport(shown: Shown, ports: RestorePorts): Promise<void> {
  const { namespace, name, uid } = shown.restore.metadata
  const live = await ports.restore(namespace, name)
  const progress = live?.metadata.uid === uid ? reportOn(live) : undefined
  if (progress !== undefined) shown.progress = progress
}

/** Live: a namesake may have been made, and its Leases must be those of the cluster that lives. */
async function readAround(
  { restore, children, jobs, progress }: Shown,
  running: Job | undefined,
  ports: RestorePorts,
): Promise<Observed> {
  const { namespace, uid } = restore.metadata
  const target = targetOf(restore)
  const named = backupOf(restore)
  const [cluster, statefulSet, backup] = await Promise.all([
    ports.cluster(target.namespace, target.name),
    ports.statefulSet(target.namespace, releaseName(target.name)),
    named && ports.backup(named.namespace, named.name),
  ])
  const known: Shown = {
    restore,
    children,
    jobs,
    ...(progress !== undefined && { progress }),
    ...(cluster !== undefined && { cluster }),
    ...(statefulSet !== undefined && { statefulSet }),
    ...(backup !== undefined && { backup }),
  }
  const read =
    running === undefined
      ? { secrets: await readSecrets(known, ports) }
      : await readOriginals(known, running, ports)
  if (cluster === undefined) return { ...known, ...read }
  const [write, backupLease, others, liveJobs] = await Promise.all([
    seeLease(target, 'write', ports),
    seeLease(target, 'backup', ports),
    ports.othersAt(target),
    ports.jobsOf(namespace, uid),
  ])
  return { ...known, ...read, leases: { write, backup: backupLease }, others, liveJobs }
}

async function readOriginals(
  shown: Shown,
  job: Job,
  ports: RestorePorts,
): Promise<Pick<Observed, 'secrets' | 'copies'>> {
  const credentials = copied(shown)
  if (credentials.length === 0) return { secrets: {} }
  const copies = await readCopies(credentials, job, ports)
  return { secrets: await readSecrets(shown, ports), copies }
}

async function readSecrets(
  { restore, cluster, backup }: Shown,
  ports: RestorePorts,
): Promise<Observed['secrets']> {
  const read = async (namespace: string, name: string | undefined) =>
    name === undefined ? undefined : ports.secret(namespace, name)
  const { namespace = '', name = '' } = cluster?.metadata ?? {}
  const connection = cluster && connectionOf(cluster)
  const source = sourceOf(restore, backup)
  const [bucket, engine, tls] = await Promise.all([
    read(bucketNamespaceOf(restore), source?.credentialsSecretRef.name),
    read(namespace, connection?.key && keySecretName(name)),
    read(namespace, connection?.caSecret),
  ])
  return {
    ...(bucket !== undefined && { bucket }),
    ...(engine !== undefined && { engine }),
    ...(tls !== undefined && { tls }),
  }
}
