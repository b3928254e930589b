/**
 * Deletion of a VecBackup: its Job is stopped, then the objects it wrote are deleted, unless they are
 * retained (fate.ts). Nothing is created meanwhile.
 */
import type { VecBackup } from '../../crds/backup.ts'
import type { Job, Secret } from '../../crds/kubernetes.ts'
import { PURGE_TIMEOUT_SECONDS, RETRY_SECONDS, SOON_SECONDS } from '../../crds/limits.ts'
import { ANNOTATIONS } from '../../crds/names.ts'
import { conditionOf, conditionsOf, secondsSince } from '../conditions.ts'
import { warning } from '../events.ts'
import { isUnfinished, kept, toStop } from '../job.ts'
import { readReport } from '../observations.ts'
import type { Passes } from '../pass.ts'
import type { Context, HookRequest } from '../protocol.ts'
import type { Decision } from './act.ts'
import { fromRequest } from './observe.ts'
import { fateOf, scheduleOf, type Fate } from './fate.ts'
import type { Observed } from './observed.ts'
import type { BackupPorts } from './ports.ts'
import { leftOf, purgeBatch, type Purge } from './purge.ts'
import { readerOf } from './readers.ts'
import { s3PathOf } from './status.ts'

const NEXT_BATCH_SECONDS = 1

/** All that `finalize` decides on. */
export interface End extends Pick<Observed, 'backup' | 'children' | 'jobs' | 'progress'> {
  liveJobs: Job[]
  namespaceEnds: boolean
  /** Of the objects; absent while its Job stops. */
  fate?: Fate
  /** Bucket credentials; absent when there are none, or nothing is to be deleted yet. */
  credentials?: Secret
  /** A restore that reads these objects at this moment. */
  reader?: string
  /** The newest batch; absent when none was due or none has ended yet. */
  purge?: Purge
  againAfterSeconds?: number
}

export interface EndReach {
  ports: BackupPorts
  purges: Passes<Purge>
}

export async function observeEnd(
  request: HookRequest<VecBackup>,
  { ports, purges }: EndReach,
  context: Context,
): Promise<End> {
  const { now } = context
  const shown = fromRequest(request)
  const { backup } = shown
  const { namespace, uid } = backup.metadata
  const [liveJobs, namespaceEnds] = await Promise.all([
    ports.jobsOf(namespace, uid),
    ports.namespaceEnds(namespace),
  ])
  const end: End = { ...shown, liveJobs, namespaceEnds }
  if (isStopping(end)) return end
  if (!wasStarted(end)) {
    // The Job that was stopped may have told of its start after what the cache shows.
    await readReport(end, backup, (...of) => ports.backup(...of))
  }
  if (!wasStarted(end)) return end
  end.fate = fateOf(backup, { schedule: await policyOf(backup, ports), namespaceEnds })
  if (end.fate !== 'delete') return end

  const reader = await readerOf(backup, ports, context)
  if (reader !== undefined) return { ...end, reader }
  const { name } = backup.spec.storage.s3.credentialsSecretRef
  const credentials = await ports.secret(namespace, name)
  if (credentials === undefined) return end

  const last = purges.last(uid)
  const batch = (signal: AbortSignal) => purgeBatch(backup, ports, { last, signal })
  const { value: purge, againAfterSeconds } = await purges.result(uid, now, batch)
  // One more look: nothing may have been started behind the purge.
  const jobs = purge?.done === true ? await ports.jobsOf(namespace, uid) : liveJobs
  return {
    ...end,
    credentials,
    liveJobs: jobs,
    ...(purge !== undefined && { purge }),
    ...(againAfterSeconds !== undefined && { againAfterSeconds }),
  }
}

export function finalize(end: End, { now }: Context): Decision {
  const { backup, credentials, reader, purge, againAfterSeconds } = end
  const { namespace } = backup.metadata
  const unfinished = end.liveJobs.filter(isUnfinished)
  if (unfinished.length > 0) {
    const waits = waiting(end, 'StoppingJob', 'waits for the Job to stop', SOON_SECONDS, now)
    return { ...waits, stop: toStop(unfinished) }
  }
  // A Job reports before it writes: without a report there is nothing in the bucket.
  if (!wasStarted(end) || end.fate === 'retain') return released(end)
  if (end.fate === 'retain in a deleted namespace') {
    const message = `namespace ${namespace} is deleted and spec.deletionPolicy is not Delete: the objects in ${s3PathOf(backup)} stay`
    return releasedWith(end, { reason: 'ObjectsRetained', message }, now)
  }
  if (isOverdue(end, now)) {
    const message = `namespace ${namespace} ends and ${s3PathOf(backup)} was not emptied in ${PURGE_TIMEOUT_SECONDS} s: what is left there stays`
    return releasedWith(end, { reason: 'PurgeGivenUp', message }, now)
  }
  if (reader !== undefined) {
    return waiting(end, 'WaitingForRestore', `waits for ${reader}`, RETRY_SECONDS, now)
  }
  if (credentials === undefined) {
    const { name } = backup.spec.storage.s3.credentialsSecretRef
    const message = `Secret ${namespace}/${name} not found: the objects in ${s3PathOf(backup)} stay`
    return releasedWith(end, { reason: 'CredentialsMissing', message }, now)
  }
  if (purge?.done === true) return purged(end, purge, now)
  if (purge?.reader !== undefined) {
    const { namespace: from, name, until } = purge.reader
    const message = `waits for VecRestore ${from}/${name}, which recorded in the bucket that it reads ${s3PathOf(backup)}: until ${until} unless it renews that`
    return waiting(end, 'WaitingForRestore', message, RETRY_SECONDS, now)
  }
  if (purge?.error !== undefined) {
    const message = `${s3PathOf(backup)}: ${purge.error} (${ANNOTATIONS.retainObjects}: "true" leaves the objects)`
    const failed = waiting(end, 'PurgeFailed', message, RETRY_SECONDS, now)
    return 'defect' in purge ? { ...failed, failure: { error: purge.defect } } : failed
  }
  const left = purge === undefined ? '' : leftOf(purge)
  const again = againAfterSeconds ?? NEXT_BATCH_SECONDS
  return waiting(end, 'Purging', `${s3PathOf(backup)} is being emptied${left}`, again, now)
}

function isStopping({ liveJobs }: Pick<End, 'liveJobs'>): boolean {
  return liveJobs.some(isUnfinished)
}

/**
 * Its schedule, as it is now: a policy that was just set there may not be on the backup yet. One that was
 * made under the same name since is not its schedule.
 */
async function policyOf(backup: VecBackup, ports: Pick<BackupPorts, 'schedulePolicy'>) {
  const owner = scheduleOf(backup)
  if (owner === undefined) return undefined
  const found = await ports.schedulePolicy(backup.metadata.namespace, owner.name)
  return found?.uid === owner.uid ? found : undefined
}

function wasStarted({ backup, jobs, liveJobs, progress }: End): boolean {
  return (
    progress !== undefined ||
    backup.status?.startTime !== undefined ||
    jobs.length + liveJobs.length > 0
  )
}

function isOverdue({ backup, namespaceEnds }: End, now: Date): boolean {
  const { deletionTimestamp = now.toISOString() } = backup.metadata
  return namespaceEnds && secondsSince(deletionTimestamp, now) >= PURGE_TIMEOUT_SECONDS
}

function waiting(
  { backup, children }: End,
  reason: string,
  message: string,
  again: number,
  now: Date,
): Decision {
  const finding = { type: 'Purged', status: 'False' as const, reason, message }
  const others = backup.status?.conditions?.filter(({ type }) => type !== 'Purged') ?? []
  const isNews = conditionOf(backup, 'Purged')?.message !== message
  const conditions = [...others, ...conditionsOf(backup, [finding], now)]
  return {
    status: { ...backup.status, conditions },
    children: children.map(kept),
    resyncAfterSeconds: again,
    ...(reason === 'PurgeFailed' &&
      isNews && { events: [warning(backup, { reason, message }, now)] }),
  }
}

function released({ backup, children }: End): Decision {
  return { status: backup.status ?? {}, children: children.map(kept), finalized: true }
}

/** What this backup did not write is not ours to delete: its owner learns where it is. */
function purged(end: End, { others }: Purge, now: Date): Decision {
  if (others === undefined) return released(end)
  const { bucket } = end.backup.spec.storage.s3
  const message = `${s3PathOf(end.backup)}: ${others.count} objects that this backup did not write stay, such as s3://${bucket}/${others.example}`
  return releasedWith(end, { reason: 'OtherObjectsKept', message }, now)
}

/** Objects stay behind that nobody asked to keep: that is told where people look. */
function releasedWith(end: End, told: { reason: string; message: string }, now: Date): Decision {
  return {
    ...released(end),
    events: [warning(end.backup, told, now)],
    warnings: [told.message],
  }
}
