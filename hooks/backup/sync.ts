/** What a VecBackup should have: its Job, and when (specification: states and transitions). */
import type { VecBackup } from '../../crds/backup.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import type { Job } from '../../crds/kubernetes.ts'
import { EXPIRY_CHECK_SECONDS, RETRY_SECONDS, SOON_SECONDS } from '../../crds/limits.ts'
import { secondsSince } from '../conditions.ts'
import { copiesToWrite } from '../copies.ts'
import { endingOf, isFinal, type Ending } from '../ending.ts'
import { nextRun } from '../job.ts'
import { called, claim, givenBack, holderOf, standsIn, type Holder } from '../lease.ts'
import type { Child, Context } from '../protocol.ts'
import { areObserved } from '../rights.ts'
import { afterEnd, hasReported, runningJob, watch, whyStuck } from '../transfer.ts'
import { endAnswer, openAnswer, type Answer } from '../transfer-answer.ts'
import type { Remark } from '../transfer-status.ts'
import type { Decision } from './act.ts'
import { backupJob, backupRights, wantedRun } from './children.ts'
import { copied, originalsOf } from './copies.ts'
import { eventsOf } from './events.ts'
import { lackOf } from './needs.ts'
import type { Observed } from './observed.ts'
import { endedStatus, openStatus } from './status.ts'

export function sync(observed: Observed, context: Context): Decision {
  // A backup that has ended outlives its cluster. Its Job is kept for the log, never made again.
  if (isFinal(observed.backup)) return afterwards(observed, context)

  const ending = endingOf(observed, context)
  // A Job that ended and has not told how: its last report may still be on its way.
  if (ending === 'unknown') return open(observed, context, { again: SOON_SECONDS })
  if (ending !== undefined) return ended(observed, ending, context)

  // What changed since this Job started is not this Job's business.
  const running = runningJob(observed)
  if (running !== undefined) return whileRunning(observed, running, context)

  const { cluster, liveJobs = [] } = observed
  // Metacontroller's cache does not show it yet. Its Lease must not be given back.
  if (liveJobs.length > 0) return soon(observed, context, 'the Job was just made')

  const lack = lackOf(observed)
  if (lack?.isRefusal === true) return refused(observed, lack.message, context)
  if (lack !== undefined || cluster === undefined) return waiting(observed, lack, context)
  return start(observed, cluster, context)
}

/** Everything else is there: the rights, then the Lease, then the Job. Each is seen before the next. */
function start(observed: Observed, cluster: VecCluster, context: Context): Decision {
  const { backup, liveJobs = [], leases, progress } = observed
  const rights = backupRights(backup)
  // A Job must not start before it may report.
  if (leases === undefined || !areObserved(rights, observed.children)) {
    return soon(observed, context, 'the rights of the Job are being made', rights)
  }
  const writer = holderOf(leases.write, context.now)
  if (writer !== undefined) return waiting(observed, waitsFor(writer), context)
  const claimed = claim([leases.backup], asHolder(backup), { cluster, now: context.now })
  if (claimed.state === 'waiting') return waiting(observed, waitsFor(claimed.holder), context)
  if (claimed.state === 'taking') {
    const taking = soon(observed, context, 'the Lease of the cluster is being taken')
    return { ...taking, leases: claimed.writes }
  }
  const run = nextRun([...observed.jobs, ...liveJobs], progress?.run)
  const plan = { ...wantedRun(backup, cluster, observed.statefulSet), run }
  const job = backupJob(observed, cluster, plan, context.settings)
  return soon(observed, context, `Job ${job.metadata.name} was started`, [job])
}

function soon(observed: Observed, context: Context, message: string, more: Child[] = []): Decision {
  return open(observed, context, { remark: starting(message), again: SOON_SECONDS, more })
}

function starting(message: string): Remark {
  return { reason: 'BackupStarting', message }
}

function waitsFor(holder: Holder): Remark {
  return { reason: 'WaitingForTurn', message: `waits for ${called(holder)}` }
}

export function asHolder({ metadata: { namespace, name, uid } }: VecBackup): Holder {
  return { kind: 'VecBackup', namespace, name, uid }
}

/** Who must wait without a Job holds nobody up. */
function waiting(observed: Observed, remark: Remark | undefined, context: Context): Decision {
  const { backup, leases } = observed
  const writes = leases === undefined ? [] : givenBack([leases.backup], asHolder(backup))
  return {
    ...open(observed, context, { ...(remark !== undefined && { remark }), again: RETRY_SECONDS }),
    ...(writes.length > 0 && { leases: writes }),
  }
}

function whileRunning(observed: Observed, job: Job, context: Context): Decision {
  const { backup, cluster, statefulSet, leases } = observed
  const { writes, ...answer } = watch(
    job,
    {
      reported: hasReported(observed, job),
      writeCopies: copiesToWrite(originalsOf(observed), observed.copies ?? {}, job),
      stuck: () => {
        const wanted = cluster && wantedRun(backup, cluster, statefulSet).hash
        const missedTurn = leases !== undefined && !standsIn(leases.backup, asHolder(backup))
        return whyStuck(job, { wanted, missedTurn }, context)
      },
    },
    starting,
  )
  return { ...open(observed, context, answer), ...writes }
}

function refused(observed: Observed, error: string, context: Context): Decision {
  return ended(observed, { phase: 'Failed', at: context.now.toISOString(), error }, context)
}

function ended(observed: Observed, ending: Ending, context: Context): Decision {
  const { backup, leases } = observed
  const status = endedStatus(observed, ending, context)
  const told = { status, events: eventsOf(backup, status, context.now) }
  const writes = leases === undefined ? [] : givenBack([leases.backup], asHolder(backup))
  return endAnswer(told, observed, { copied: copied(backup), leases: writes })
}

/** It has ended and its status tells how: what is left is its history and the day it expires. */
function afterwards(observed: Observed, context: Context): Decision {
  const { status = {}, metadata } = observed.backup
  const isExpired =
    status.expiresAt !== undefined && secondsSince(status.expiresAt, context.now) >= 0
  const { namespace, name, uid } = metadata
  return {
    status,
    ...afterEnd(observed, 'the backup has ended', context),
    ...(status.expiresAt !== undefined && { resyncAfterSeconds: EXPIRY_CHECK_SECONDS }),
    ...(isExpired && { expire: { namespace, name, uid } }),
  }
}

function open(observed: Observed, context: Context, answer: Answer): Decision {
  const status = openStatus(observed, answer.remark, context)
  const told = { status, events: eventsOf(observed.backup, status, context.now) }
  return openAnswer(told, observed.children, answer)
}
