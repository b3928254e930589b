/**
 * The turns of a VecBackup, a VecRestore or a VecMigration that has not ended (specification: states and
 * transitions): what is told of its Job, what hinders one, and what its start takes.
 */
import { HIDDEN_JOB_SECONDS, RETRY_SECONDS, SOON_SECONDS } from '../crds/limits.ts'
import { LABELS } from '../crds/names.ts'
import type { Job } from '../crds/kubernetes.ts'
import type { Decided } from './carry-out.ts'
import { secondsSince } from './conditions.ts'
import { copiesFor, copiesToWrite, type Original } from './copies.ts'
import { endingOf } from './ending.ts'
import { toStop } from './job.ts'
import type { Lack } from './lack.ts'
import type { Settings } from './protocol.ts'
import { isSigned } from './signature.ts'
import { hasReported, runningJob, silenceOf, watch, whyStuck } from './transfer.ts'
import { ended, open, refused, soon, starting, waiting } from './transfer-answer.ts'
import type { Telling, Turn } from './transfer-answer.ts'
import type { ObservedTransfer } from './transfer-observe.ts'

export interface Transfer<Observed, Status> extends Telling<Observed, Status> {
  /** The first thing that is missing; undefined when a Job may be made. */
  lackOf(observed: Observed, settings: Settings): Lack | undefined
  /** What copies of credentials are made from: nothing that this namespace is not allowed to use. */
  originalsOf(observed: Observed, settings: Settings): Original[]
  /** Hash of the plan of this moment, where one can be made. */
  wantedHash(observed: Observed): string | undefined
  /** Whether its status tells of a Job that has reported. */
  wasStarted(observed: Observed): boolean
  /** Whether its Leases, as far as they were read, are another's by now. */
  missedTurn(observed: Observed): boolean
  /** Nothing is missing: each step is seen before the next. */
  start(turn: Turn<Observed, Status>): Decided<Status>
}

export function transferSync<Observed extends ObservedTransfer, Status>(
  turn: Turn<Observed, Status> & { kind: Transfer<Observed, Status> },
): Decided<Status> {
  const { kind, observed, context } = turn
  const ending = endingOf(observed, context)
  // A Job that ended and has not told how: its last report may still be on its way.
  if (ending === 'unknown') return open(turn, { again: SOON_SECONDS })
  if (ending !== undefined) return ended(turn, ending)

  // What changed since this Job started is not this Job's business.
  const running = runningJob(observed)
  if (running !== undefined) return whileRunning(turn, running)

  // Metacontroller's cache does not show it yet. Its Leases must not be given back.
  const [hidden] = observed.liveJobs ?? []
  if (hidden !== undefined) return whileHidden(turn, hidden)
  const lack = kind.lackOf(observed, context.settings)
  if (lack?.isRefusal === true) return refused(turn, lack)
  if (lack !== undefined) return waiting(turn, lack)
  return kind.start(turn)
}

/** A Job that Metacontroller has not shown for long has lost the label by which it is found. */
function whileHidden<Observed extends ObservedTransfer, Status>(
  turn: Turn<Observed, Status>,
  { metadata: { namespace = '', name, creationTimestamp = '', labels } }: Job,
): Decided<Status> {
  if (!(secondsSince(creationTimestamp, turn.context.now) >= HIDDEN_JOB_SECONDS)) {
    return soon(turn, 'the Job was just made')
  }
  const uid = labels?.[LABELS.parent] ?? ''
  const message = `Metacontroller does not show Job ${name}: it lost its label controller-uid. Set it again (kubectl label job ${name} -n ${namespace} controller-uid=${uid}), or delete the Job`
  return open(turn, { remark: starting(turn, message), again: RETRY_SECONDS })
}

function whileRunning<Observed extends ObservedTransfer, Status>(
  turn: Turn<Observed, Status> & { kind: Transfer<Observed, Status> },
  job: Job,
): Decided<Status> {
  const { kind, observed, context } = turn
  const { settings } = context
  const lack = kind.lackOf(observed, settings)
  if (lack?.reason === 'NotAllowed') return revoked(turn, job, lack)
  const { writes, ...answer } = watch(
    job,
    {
      // Somebody may have removed its report: it writes another one within a minute.
      reported:
        hasReported(observed, job) ||
        (observed.progress === undefined && kind.wasStarted(observed)),
      silent: silenceOf(job, observed.progress, context),
      writeCopies: isSigned(job, settings.jobKeys)
        ? copiesToWrite(kind.originalsOf(observed, settings), observed.copies ?? {}, job)
        : [],
      stuck: () => {
        const wanted = kind.wantedHash(observed)
        return whyStuck(job, { wanted, missedTurn: kind.missedTurn(observed) }, context)
      },
    },
    (message) => starting(turn, message),
  )
  return { ...open(turn, answer), ...writes }
}

/**
 * The permission was withdrawn while the Job runs: it is stopped and loses its credentials. Once it is
 * gone the resource is Pending until the permission is back; another Job then continues.
 */
function revoked<Observed extends ObservedTransfer, Status>(
  turn: Turn<Observed, Status> & { kind: Transfer<Observed, Status> },
  job: Job,
  lack: Lack,
): Decided<Status> {
  return {
    ...open(turn, { remark: lack, again: SOON_SECONDS }),
    stop: toStop([job]),
    deleteCopies: copiesFor(turn.kind.copied(turn.observed), job),
  }
}
