/** Reads all that a decision about a VecBackup may know: from the request, and through ports the rest. */
import type { VecBackup } from '../../crds/backup.ts'
import type { Job } from '../../crds/kubernetes.ts'
import { releaseName } from '../../crds/names.ts'
import { workAt } from '../allow-from.ts'
import { secondsSince } from '../conditions.ts'
import { endingOf, isFinal } from '../ending.ts'
import { seeLease } from '../lease.ts'
import { clustersIn, readReport, shownJobs } from '../observations.ts'
import type { Context, HookRequest } from '../protocol.ts'
import { hasReported, isCrashed, runningJob } from '../transfer.ts'
import { readEnd, readOriginals, readSecrets, type BucketSecrets } from '../transfer-observe.ts'
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
  if (isFinal(shown.backup)) return readExpiry(shown, ports, context)
  if (isCrashed(shown, context)) {
    await readReport(shown, shown.backup, (...of) => ports.backup(...of))
  }
  const running = runningJob(shown)
  if (running === undefined) {
    // Only where a Job may be due it is worth to read live what stands in its way.
    if (endingOf(shown, context) !== undefined) return { ...shown, secrets: {} }
    const backup = await readEnd(shown.backup, (...of) => ports.backup(...of))
    if (backup !== undefined) return { ...shown, backup, secrets: {} }
  } else if (hasReported(shown, running)) {
    // Once it has reported, what changes is not this Job's business.
    return { ...shown, ...(await originalsFor(shown, running, ports)) }
  }
  return readAround(shown, { running, context }, ports)
}

/** What has expired is deleted with its objects: one clock that is wrong must not do that. */
async function readExpiry(shown: Shown, ports: BackupPorts, { now }: Context): Promise<Observed> {
  const { status, metadata } = shown.backup
  const isDue = secondsSince(status?.expiresAt ?? '', now) >= 0
  const apiTime = isDue ? await ports.apiTime(metadata.namespace) : undefined
  return { ...shown, secrets: {}, ...(apiTime !== undefined && { apiTime }) }
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

async function readAround(
  shown: Shown,
  { running, context }: { running: Job | undefined; context: Context },
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
  if (running !== undefined) Object.assign(observed, await originalsFor(observed, running, ports))
  else observed.secrets = await secretsOf(observed, ports)
  if (cluster === undefined) return observed
  const rules = workAt(cluster, context)
  const [write, backup, helmJobs, liveJobs] = await Promise.all([
    seeLease({ namespace, name }, 'write', ports, rules),
    seeLease({ namespace, name }, 'backup', ports, rules),
    ports.helmJobsAt({ namespace, name }),
    ports.jobsOf(metadata.namespace, metadata.uid),
  ])
  return { ...observed, leases: { write, backup }, helmJobs, liveJobs }
}

async function originalsFor(shown: Shown, job: Job, ports: BackupPorts) {
  const secrets = () => secretsOf(shown, ports)
  return readOriginals(job, { copied: copied(shown.backup), secrets }, ports)
}

async function secretsOf({ backup, cluster }: Shown, ports: BackupPorts): Promise<BucketSecrets> {
  const { name } = backup.spec.storage.s3.credentialsSecretRef
  return readSecrets({ namespace: backup.metadata.namespace, name }, cluster, ports)
}
