/** What a VecRestore should have: its Job, and when (specification: states and transitions). */
import type { VecCluster } from '../../crds/cluster.ts'
import type { Job } from '../../crds/kubernetes.ts'
import { RETRY_SECONDS, SECOND_LOOK_SECONDS, SOON_SECONDS } from '../../crds/limits.ts'
import type { RestoreStatus, VecRestore } from '../../crds/restore.ts'
import type { Decided } from '../carry-out.ts'
import { copiesToWrite } from '../copies.ts'
import { endingOf, isFinal, type Ending } from '../ending.ts'
import { nextRun } from '../job.ts'
import {
  called,
  claim,
  givenBack,
  heldSeconds,
  standsIn,
  type Holder,
  type SeenLease,
} from '../lease.ts'
import type { Child, Context } from '../protocol.ts'
import { areObserved } from '../rights.ts'
import { afterEnd, hasReported, runningJob, watch, whyStuck } from '../transfer.ts'
import { endAnswer, openAnswer, type Answer } from '../transfer-answer.ts'
import type { Remark } from '../transfer-status.ts'
import { restoreJob, restoreRights, wantedRun } from './children.ts'
import { copied, originalsOf } from './copies.ts'
import { eventsOf } from './events.ts'
import { lackOf } from './needs.ts'
import type { Observed } from './observed.ts'
import { endedStatus, openStatus } from './status.ts'

export type Decision = Decided<RestoreStatus>

export function sync(observed: Observed, context: Context): Decision {
  // A restore that has ended outlives its cluster. Its Job is kept for the log, never made again.
  if (isFinal(observed.restore)) {
    const left = afterEnd(observed, 'the restore has ended', context)
    return { status: observed.restore.status ?? {}, ...left }
  }
  const ending = endingOf(observed, context)
  // A Job that ended and has not told how: its last report may still be on its way.
  if (ending === 'unknown') return open(observed, context, { again: SOON_SECONDS })
  if (ending !== undefined) return ended(observed, ending, context)

  // What changed since this Job started is not this Job's business.
  const running = runningJob(observed)
  if (running !== undefined) return whileRunning(observed, running, context)

  const { cluster, liveJobs = [] } = observed
  // Metacontroller's cache does not show it yet. Its Leases must not be given back.
  if (liveJobs.length > 0) return soon(observed, context, 'the Job was just made')

  const lack = lackOf(observed)
  if (lack?.isRefusal === true) return refused(observed, lack.message, context)
  if (lack !== undefined || cluster === undefined) return waiting(observed, lack, context)
  return start(observed, cluster, context)
}

/** Everything else is there: the rights, then the Leases, then the Job. Each is seen before the next. */
function start(observed: Observed, cluster: VecCluster, context: Context): Decision {
  const { restore, leases, others = [] } = observed
  const { now } = context
  const rights = restoreRights(restore)
  // A Job must not start before it may report.
  if (leases === undefined || !areObserved(rights, observed.children)) {
    return soon(observed, context, 'the rights of the Job are being made', rights)
  }
  const [other] = others
  if (other !== undefined) return waiting(observed, waitsFor(other), context)
  const claimed = claim(both(leases), asHolder(restore), { cluster, now })
  if (claimed.state === 'waiting') {
    return waiting(observed, waitsFor(called(claimed.holder)), context)
  }
  if (claimed.state === 'taking') {
    const taking = soon(observed, context, 'the Leases of the cluster are being taken')
    return { ...taking, leases: claimed.writes }
  }
  // Who looked for the Leases just before they were taken is seen at work by then.
  const left = SECOND_LOOK_SECONDS - heldSeconds(both(leases), now)
  if (left > 0) {
    const message = 'the Leases of the cluster are held: looks once more who is at work there'
    return open(observed, context, { remark: starting(message), again: Math.ceil(left) })
  }
  return withJob(observed, cluster, context)
}

function withJob(observed: Observed, cluster: VecCluster, context: Context): Decision {
  const { restore, jobs, liveJobs = [], progress } = observed
  const wanted = wantedRun(restore, cluster, observed)
  if (wanted === undefined) return waiting(observed, undefined, context)
  const plan = { ...wanted, run: nextRun([...jobs, ...liveJobs], progress?.run) }
  const job = restoreJob(observed, cluster, plan, context.settings)
  return soon(observed, context, `Job ${job.metadata.name} was started`, [job])
}

/** In the order they are taken. */
function both({ write, backup }: NonNullable<Observed['leases']>): SeenLease[] {
  return [write, backup]
}

function soon(observed: Observed, context: Context, message: string, more: Child[] = []): Decision {
  return open(observed, context, { remark: starting(message), again: SOON_SECONDS, more })
}

function starting(message: string): Remark {
  return { reason: 'RestoreStarting', message }
}

function waitsFor(whom: string): Remark {
  return { reason: 'WaitingForTurn', message: `waits for ${whom}` }
}

export function asHolder({ metadata: { namespace, name, uid } }: VecRestore): Holder {
  return { kind: 'VecRestore', namespace, name, uid }
}

/** Who must wait without a Job holds nobody up. */
function waiting(observed: Observed, remark: Remark | undefined, context: Context): Decision {
  const writes = release(observed)
  return {
    ...open(observed, context, { ...(remark !== undefined && { remark }), again: RETRY_SECONDS }),
    ...(writes.length > 0 && { leases: writes }),
  }
}

function release({ restore, leases }: Observed) {
  return leases === undefined ? [] : givenBack(both(leases), asHolder(restore))
}

function whileRunning(observed: Observed, job: Job, context: Context): Decision {
  const { restore, cluster, leases } = observed
  const { writes, ...answer } = watch(
    job,
    {
      reported: hasReported(observed, job),
      writeCopies: copiesToWrite(originalsOf(observed), observed.copies ?? {}, job),
      stuck: () => {
        const wanted = cluster && wantedRun(restore, cluster, observed)?.hash
        const isOurs = (lease: SeenLease) => standsIn(lease, asHolder(restore))
        const missedTurn = leases !== undefined && !both(leases).every(isOurs)
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
  const status = endedStatus(observed, ending, context)
  const told = { status, events: eventsOf(observed, status, context.now) }
  return endAnswer(told, observed, { copied: copied(observed), leases: release(observed) })
}

function open(observed: Observed, context: Context, answer: Answer): Decision {
  const status = openStatus(observed, answer.remark, context)
  const told = { status, events: eventsOf(observed, status, context.now) }
  return openAnswer(told, observed.children, answer)
}
