/** Reads all that a decision about a VecRestore may know: from the request, and through ports the rest. */
import type { Job } from '../../crds/kubernetes.ts'
import { releaseName } from '../../crds/names.ts'
import type { VecRestore } from '../../crds/restore.ts'
import { workAt } from '../allow-from.ts'
import { endingOf, isFinal } from '../ending.ts'
import { seeLease } from '../lease.ts'
import { backupsIn, clustersIn, readReport, shownJobs } from '../observations.ts'
import type { Context, HookRequest } from '../protocol.ts'
import { hasReported, isCrashed, runningJob } from '../transfer.ts'
import { readEnd, readOriginals, readSecrets, type BucketSecrets } from '../transfer-observe.ts'
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
  if (isCrashed(shown, context)) {
    await readReport(shown, shown.restore, (...of) => ports.restore(...of))
  }
  if (endingOf(shown, context) !== undefined) return { ...shown, secrets: {} }
  const running = runningJob(shown)
  if (running === undefined) {
    const restore = await readEnd(shown.restore, (...of) => ports.restore(...of))
    if (restore !== undefined) return { ...shown, restore, secrets: {} }
  } else if (hasReported(shown, running)) {
    // Once it has reported, what changes is not this Job's business.
    return { ...shown, ...(await originalsFor(shown, running, ports)) }
  }
  return readAround(shown, { running, context }, ports)
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

/** Live: a namesake may have been made, and its Leases must be those of the cluster that lives. */
async function readAround(
  { restore, children, jobs, progress }: Shown,
  { running, context }: { running: Job | undefined; context: Context },
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
      ? { secrets: await secretsOf(known, ports) }
      : await originalsFor(known, running, ports)
  if (cluster === undefined) return { ...known, ...read }
  const rules = workAt(cluster, context)
  const [write, backupLease, others, liveJobs] = await Promise.all([
    seeLease(target, 'write', ports, rules),
    seeLease(target, 'backup', ports, rules),
    ports.othersAt(target, rules),
    ports.jobsOf(namespace, uid),
  ])
  return { ...known, ...read, leases: { write, backup: backupLease }, others, liveJobs }
}

async function originalsFor(shown: Shown, job: Job, ports: RestorePorts) {
  return readOriginals(
    job,
    { copied: copied(shown), secrets: () => secretsOf(shown, ports) },
    ports,
  )
}

async function secretsOf(
  { restore, cluster, backup }: Shown,
  ports: RestorePorts,
): Promise<BucketSecrets> {
  const name = sourceOf(restore, backup)?.credentialsSecretRef.name
  return readSecrets({ namespace: bucketNamespaceOf(restore), name }, cluster, ports)
}
