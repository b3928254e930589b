/** What a VecBackup should have: its Job, and when (specification: states and transitions). */
import type { BackupStatus, VecBackup } from '../../crds/backup.ts'
import { EXPIRY_CHECK_SECONDS, SOON_SECONDS } from '../../crds/limits.ts'
import type { Holder } from '../../crds/rules/holder.ts'
import { secondsSince } from '../conditions.ts'
import { isFinal } from '../ending.ts'
import { warning } from '../events.ts'
import { claim, givenBack, standsIn } from '../lease.ts'
import type { Context } from '../protocol.ts'
import { areObserved } from '../rights.ts'
import { afterEnd, runAfter } from '../transfer.ts'
import { soon, waitingFor, waitsBehind, type Turn } from '../transfer-answer.ts'
import { transferSync, type Transfer } from '../transfer-sync.ts'
import type { Decision } from './act.ts'
import { backupJob, backupRights, wantedRun } from './children.ts'
import { compactReport, compactStatus } from './compact.ts'
import { copied, originalsOf } from './copies.ts'
import { eventsOf } from './events.ts'
import { isExpired } from './fate.ts'
import { lackOf } from './needs.ts'
import type { Observed } from './observed.ts'
import { endedStatus, expiredStatus, finalStatus, openStatus } from './status.ts'

export function sync(observed: Observed, context: Context): Decision {
  // A backup that has ended outlives its cluster. Its Job is kept for the log, never made again.
  if (isFinal(observed.backup)) return afterwards(observed, context)
  return transferSync({ kind: BACKUP, observed, context })
}

export function asHolder({ metadata: { namespace, name, uid } }: VecBackup): Holder {
  return { kind: 'VecBackup', namespace, name, uid }
}

const BACKUP: Transfer<Observed, BackupStatus> = {
  ...{ openStatus, endedStatus, lackOf, originalsOf, start },
  starting: { reason: 'BackupStarting' },
  eventsOf: ({ backup }, status, now) => eventsOf(backup, status, now),
  copied: ({ backup }) => copied(backup),
  givenBack: ({ backup, leases }) =>
    leases === undefined ? [] : givenBack([leases.backup], asHolder(backup)),
  wantedHash: ({ backup, cluster, statefulSet }) =>
    cluster && wantedRun(backup, cluster, statefulSet).hash,
  wasStarted: ({ backup }) => backup.status?.startTime !== undefined,
  missedTurn: ({ backup, leases }) =>
    leases !== undefined && !standsIn(leases.backup.lease, asHolder(backup)),
}

/** Everything else is there: the rights, then the Lease, then the Job. Each is seen before the next. */
function start(turn: Turn<Observed, BackupStatus>): Decision {
  const { observed, context } = turn
  const { backup, cluster, leases, progress, helmJobs = [] } = observed
  const rights = backupRights(backup)
  // A Job must not start before it may report.
  if (cluster === undefined || leases === undefined || !areObserved(rights, observed.children)) {
    return soon(turn, 'the rights of the Job are being made', rights)
  }
  const about = { cluster, now: context.now, free: [leases.write] }
  const claimed = claim([leases.backup], asHolder(backup), about)
  if (claimed.state === 'waiting') return waitsBehind(turn, claimed)
  if (claimed.state === 'taking') {
    const taking = soon(turn, 'the Lease of the cluster is being taken')
    return { ...taking, leases: claimed.writes }
  }
  // One of an earlier release, or the first install, took no Lease.
  const [helmJob] = helmJobs
  if (helmJob !== undefined) return waitingFor(turn, helmJob)
  const plan = { ...wantedRun(backup, cluster, observed.statefulSet), run: runAfter(progress) }
  const job = backupJob(observed, cluster, plan, context.settings)
  return soon(turn, `Job ${job.metadata.name} was started`, [job])
}

const CLOCK_AHEAD = {
  reason: 'ClockAhead',
  message:
    'spec.retentionDays have passed by the clock of the operator, but not by that of the API server: nothing is deleted; set the clock of the node that the operator runs on',
}

/** It has ended and its status tells how: what is left is its history and the day it expires. */
function afterwards(observed: Observed, context: Context): Decision {
  const { backup } = observed
  const { expiresAt } = backup.status ?? {}
  const report = compactReport(observed.progress)
  const left = {
    ...afterEnd(observed, 'the backup has ended', context),
    ...(report !== undefined && { report }),
  }
  const status = compactStatus(backup, finalStatus(backup), context.now)
  if (expiresAt === undefined) return { status, ...left }
  if (secondsSince(expiresAt, context.now) < 0) {
    return { status, ...left, resyncAfterSeconds: EXPIRY_CHECK_SECONDS }
  }
  const { apiTime = context.now } = observed
  if (secondsSince(expiresAt, apiTime) < 0) {
    const events = [warning(backup, CLOCK_AHEAD, context.now)]
    return { status, ...left, events, resyncAfterSeconds: EXPIRY_CHECK_SECONDS }
  }
  // Its deletion must tell this from a user's, so the condition is recorded before it deletes itself.
  if (!isExpired(backup)) {
    return { status: expiredStatus(backup, context), ...left, resyncAfterSeconds: SOON_SECONDS }
  }
  const { namespace, name, uid } = backup.metadata
  return {
    status,
    ...left,
    resyncAfterSeconds: EXPIRY_CHECK_SECONDS,
    expire: { namespace, name, uid },
  }
}
