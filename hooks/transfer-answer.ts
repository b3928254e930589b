/**
 * What is answered of a VecBackup, a VecRestore or a VecMigration: while it goes on, and in the pass that
 * shows its end.
 */
import type { AnyObject, Job } from '../crds/kubernetes.ts'
import { EXPIRY_CHECK_SECONDS, RETRY_SECONDS } from '../crds/limits.ts'
import type { Decided } from './carry-out.ts'
import { copiesFor } from './copies.ts'
import { kept, staying } from './job.ts'
import type { LeaseWrite } from './lease.ts'
import type { Child } from './protocol.ts'
import type { Remark } from './transfer-status.ts'

/** What a decision that leaves it open says besides its status. */
export interface Answer {
  remark?: Remark
  /** Seconds until it is looked at again. */
  again?: number
  /** Children besides those that were observed. */
  more?: Child[]
}

/** What is told: the status, and Events about it. */
type Told<Status> = Pick<Decided<Status>, 'status' | 'events'>

/** Not ended: every observed child stays. */
export function openAnswer<Status>(
  told: Told<Status>,
  children: AnyObject[],
  { again = RETRY_SECONDS, more = [] }: Answer,
): Decided<Status> {
  return { ...told, children: staying(children, { more }), resyncAfterSeconds: again }
}

/** Ended: every child stays until that is recorded; the Jobs' credentials and the Leases do not. */
export function endAnswer<Status>(
  told: Told<Status>,
  { jobs, children }: { jobs: Job[]; children: AnyObject[] },
  { copied, leases }: { copied: readonly string[]; leases: LeaseWrite[] },
): Decided<Status> {
  const deleteCopies = jobs.flatMap((job) => copiesFor(copied, job))
  return {
    ...told,
    children: children.map(kept),
    resyncAfterSeconds: EXPIRY_CHECK_SECONDS,
    ...(deleteCopies.length > 0 && { deleteCopies }),
    ...(leases.length > 0 && { leases }),
  }
}
