/**
 * What is answered of a VecBackup, a VecRestore or a VecMigration: while it goes on, and in the pass that
 * shows its end.
 */
import type { KubernetesEvent } from '../crds/kubernetes.ts'
import { EXPIRY_CHECK_SECONDS, RETRY_SECONDS, SOON_SECONDS } from '../crds/limits.ts'
import type { Decided } from './carry-out.ts'
import { copiesFor } from './copies.ts'
import type { Ending } from './ending.ts'
import { kept, staying } from './job.ts'
import type { Lack } from './lack.ts'
import { called, type Claim, type LeaseWrite } from './lease.ts'
import type { Child, Context } from './protocol.ts'
import type { ObservedTransfer } from './transfer-observe.ts'
import type { Remark } from './transfer-status.ts'

/** What the answers about one kind differ in. */
export interface Telling<Observed, Status> {
  openStatus(observed: Observed, remark: Remark | undefined, context: Context): Status
  endedStatus(observed: Observed, ending: Ending, context: Context): Status
  eventsOf(observed: Observed, status: Status, now: Date): KubernetesEvent[]
  /** While its Job is on its way. */
  starting: Pick<Remark, 'reason'>
  /** Credentials its Jobs may have copies of. */
  copied(observed: Observed): readonly string[]
  /** Its Leases, as far as it holds any: who has no Job holds nobody up. */
  givenBack(observed: Observed): LeaseWrite[]
}

/** One pass over a resource. */
export interface Turn<Observed, Status> {
  kind: Telling<Observed, Status>
  observed: Observed
  context: Context
}

/** What a decision that leaves it open says besides its status. */
export interface Answer {
  remark?: Remark | undefined
  /** Seconds until it is looked at again. */
  again: number
  /** Children besides those that were observed. */
  more?: Child[]
}

/** Not ended: every observed child stays. */
export function open<Observed extends ObservedTransfer, Status>(
  { kind, observed, context }: Turn<Observed, Status>,
  { remark, again, more = [] }: Answer,
): Decided<Status> {
  const status = kind.openStatus(observed, remark, context)
  return {
    status,
    events: kind.eventsOf(observed, status, context.now),
    children: staying(observed.children, { more }),
    resyncAfterSeconds: again,
  }
}

/** A step towards its Job was made: the next pass sees it. */
export function soon<Observed extends ObservedTransfer, Status>(
  turn: Turn<Observed, Status>,
  message: string,
  more: Child[] = [],
): Decided<Status> {
  return open(turn, { remark: starting(turn, message), again: SOON_SECONDS, more })
}

export function starting(
  { kind }: { kind: Pick<Telling<never, unknown>, 'starting'> },
  message: string,
): Remark {
  return { ...kind.starting, message }
}

/** Something else must come first. */
export function waiting<Observed extends ObservedTransfer, Status>(
  turn: Turn<Observed, Status>,
  remark?: Remark,
): Decided<Status> {
  return { ...open(turn, { remark, again: RETRY_SECONDS }), ...withoutLeases(turn) }
}

/** Somebody else is at work where it wants to work. */
export function waitingFor<Observed extends ObservedTransfer, Status>(
  turn: Turn<Observed, Status>,
  whom: string,
): Decided<Status> {
  return waiting(turn, { reason: 'WaitingForTurn', message: `waits for ${whom}` })
}

/** Another one holds the Lease, or came first: noted in its queue, where it can be. */
export function waitsBehind<Observed extends ObservedTransfer, Status>(
  turn: Turn<Observed, Status>,
  { holder, writes }: Extract<Claim, { state: 'waiting' }>,
): Decided<Status> {
  const { leases: _, ...decided } = waitingFor(turn, called(holder))
  return writes.length > 0 ? { ...decided, leases: writes } : decided
}

/** Ended: every child stays until that is recorded; the Jobs' credentials and the Leases do not. */
export function ended<Observed extends ObservedTransfer, Status>(
  turn: Turn<Observed, Status>,
  ending: Ending,
): Decided<Status> {
  const { kind, observed, context } = turn
  const status = kind.endedStatus(observed, ending, context)
  const copied = kind.copied(observed)
  const deleteCopies = observed.jobs.flatMap((job) => copiesFor(copied, job))
  return {
    status,
    events: kind.eventsOf(observed, status, context.now),
    children: observed.children.map(kept),
    resyncAfterSeconds: EXPIRY_CHECK_SECONDS,
    deleteCopies,
    ...withoutLeases(turn),
  }
}

/** It will never get what it asks for. */
export function refused<Observed extends ObservedTransfer, Status>(
  turn: Turn<Observed, Status>,
  { message, isShown }: Lack,
): Decided<Status> {
  const at = turn.context.now.toISOString()
  return ended(turn, { phase: 'Failed', at, error: message, ...(isShown === true && { message }) })
}

function withoutLeases<Observed, Status>({ kind, observed }: Turn<Observed, Status>) {
  const leases = kind.givenBack(observed)
  return leases.length > 0 ? { leases } : {}
}
