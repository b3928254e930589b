/** What a VecMigration should have: its Job, and when (specification: states and transitions). */
import type { Job } from '../../crds/kubernetes.ts'
import { RETRY_SECONDS, SOON_SECONDS } from '../../crds/limits.ts'
import type { MigrationStatus } from '../../crds/migration.ts'
import type { Decided } from '../carry-out.ts'
import { copiesToWrite } from '../copies.ts'
import { endingOf, isFinal, type Ending } from '../ending.ts'
import { nextRun } from '../job.ts'
import { called, holderOf } from '../lease.ts'
import type { Child, Context } from '../protocol.ts'
import { areObserved } from '../rights.ts'
import { afterEnd, hasReported, runningJob, watch, whyStuck } from '../transfer.ts'
import { endAnswer, openAnswer, type Answer } from '../transfer-answer.ts'
import type { Remark } from '../transfer-status.ts'
import { migrationJob, migrationRights, wantedRun } from './children.ts'
import { copied, originalsOf } from './credentials.ts'
import { eventsOf } from './events.ts'
import { lackOf } from './needs.ts'
import type { Observed } from './observed.ts'
import { endedStatus, openStatus } from './status.ts'

export type Decision = Decided<MigrationStatus>

export function sync(observed: Observed, context: Context): Decision {
  // A migration that has ended outlives its clusters. Its Job is kept for the log, never made again.
  if (isFinal(observed.migration)) {
    const left = afterEnd(observed, 'the migration has ended', context)
    return { status: observed.migration.status ?? {}, ...left }
  }
  const ending = endingOf(observed, context)
  // A Job that ended and has not told how: its last report may still be on its way.
  if (ending === 'unknown') return open(observed, context, { again: SOON_SECONDS })
  if (ending !== undefined) return ended(observed, ending, context)

  // What changed since this Job started is not this Job's business.
  const running = runningJob(observed)
  if (running !== undefined) return whileRunning(observed, running, context)

  const { liveJobs = [] } = observed
  // Metacontroller's cache does not show it yet.
  if (liveJobs.length > 0) return soon(observed, context, 'the Job was just made')

  const lack = lackOf(observed)
  if (lack?.isRefusal === true) return refused(observed, lack.message, context)
  if (lack !== undefined) return waiting(observed, lack, context)
  return start(observed, context)
}

/** Everything else is there: the rights, then the Job, which is not made while a restore writes. */
function start(observed: Observed, context: Context): Decision {
  const { migration, clusters, jobs, liveJobs = [], progress, writers = [] } = observed
  const rights = migrationRights(migration)
  // A Job must not start before it may report.
  if (!areObserved(rights, observed.children)) {
    return soon(observed, context, 'the rights of the Job are being made', rights)
  }
  for (const lease of writers) {
    const holder = holderOf(lease, context.now)
    if (holder === undefined) continue
    const message = `waits for ${called(holder)}`
    return waiting(observed, { reason: 'WaitingForTurn', message }, context)
  }
  const wanted = wantedRun(migration, clusters)
  if (wanted === undefined) return waiting(observed, undefined, context)
  const plan = { ...wanted, run: nextRun([...jobs, ...liveJobs], progress?.run) }
  const job = migrationJob(observed, plan, context.settings)
  return soon(observed, context, `Job ${job.metadata.name} was started`, [job])
}

function soon(observed: Observed, context: Context, message: string, more: Child[] = []): Decision {
  return open(observed, context, { remark: starting(message), again: SOON_SECONDS, more })
}

function starting(message: string): Remark {
  return { reason: 'MigrationStarting', message }
}

function waiting(observed: Observed, remark: Remark | undefined, context: Context): Decision {
  return open(observed, context, { ...(remark !== undefined && { remark }), again: RETRY_SECONDS })
}

function whileRunning(observed: Observed, job: Job, context: Context): Decision {
  const { migration, clusters, secrets, copies = {} } = observed
  const { writes, ...answer } = watch(
    job,
    {
      reported: hasReported(observed, job),
      writeCopies: copiesToWrite(originalsOf(migration, clusters, secrets), copies, job),
      stuck: () => {
        const wanted = wantedRun(migration, clusters)?.hash
        return whyStuck(job, { wanted, missedTurn: false }, context)
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
  const { migration } = observed
  const status = endedStatus(observed, ending, context)
  const told = { status, events: eventsOf(migration, status, context.now) }
  return endAnswer(told, observed, { copied: copied(migration), leases: [] })
}

function open(observed: Observed, context: Context, answer: Answer): Decision {
  const status = openStatus(observed, answer.remark, context)
  const told = { status, events: eventsOf(observed.migration, status, context.now) }
  return openAnswer(told, observed.children, answer)
}
