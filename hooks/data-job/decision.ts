/**
 * Decisions about a VecBackup, VecRestore or VecMigration: the answer, the writes that it needs, and
 * how they are applied.
 */
import { EXPIRY_CHECK_SECONDS } from '../../crds/contract/limits.ts'
import type { AnyObject, Job, KubernetesEvent, Secret } from '../../crds/kubernetes.ts'
import type { ConditionReason } from '../../crds/schema.ts'
import { expiredJobs } from '../job-watch.ts'
import { type LeasePorts, type LeaseWrite, writeLeases } from '../lease.ts'
import type { Child, Context, Desired, PrunedChild } from '../protocol.ts'
import { childrenAfter, isUnfinished, unchanged, type ObservedJobs } from '../request.ts'
import { secretCopyRefs, type SecretCopyIdentity, type SecretCopyPorts } from './secret-copies.ts'

/** Writes that a decision needs in addition to the answer. */
export interface SideEffects {
  leases?: LeaseWrite[]
  writeCopies?: Secret[]
  deleteCopies?: SecretCopyIdentity[]
}

/** A decision: the answer and its side effects. */
export type DataJobDecision<Status> = Desired<Status> & SideEffects

/** The decision for an unfinished resource, except its status. */
export interface Unfinished extends SideEffects, Pick<Desired<unknown>, 'deleteJobs'> {
  /** Why it is unfinished; absent if its report says it. */
  conditionReason?: ConditionReason
  resyncAfterSeconds: number
  /** Children in addition to the observed ones. */
  created?: Child[]
}

/** The part of a decision that does not depend on the kind. */
type SharedDecision = Omit<DataJobDecision<never>, 'status' | 'events'>

/** Unfinished: every observed child stays. */
export function whileUnfinished(
  { children }: Pick<ObservedJobs, 'children'>,
  answer: Unfinished,
): SharedDecision {
  const { conditionReason: _, created = [], ...decision } = answer
  return { ...decision, children: childrenAfter(children, { created }) }
}

/**
 * The sync that records the outcome: every child stays until then; the Jobs' credentials and the
 * Leases do not.
 */
export function whenFinished(
  { children, jobs }: ObservedJobs,
  {
    copiedCredentials,
    leaseReleases,
  }: { copiedCredentials: readonly string[]; leaseReleases: LeaseWrite[] },
): SharedDecision {
  return {
    children: children.map(unchanged),
    resyncAfterSeconds: EXPIRY_CHECK_SECONDS,
    deleteCopies: jobs.flatMap((job) => secretCopyRefs(copiedCredentials, job)),
    ...(leaseReleases.length > 0 && { leases: leaseReleases }),
  }
}

/**
 * Every later sync: the Jobs are retained for their logs until they expire. `reason` is why the RBAC
 * objects are pruned.
 */
export function afterFinished(
  { jobs, children }: { jobs: Job[]; children: AnyObject[] },
  reason: string,
  context: Context,
): { children: Child[]; pruned?: PrunedChild[] } {
  const rbac = children.filter(({ kind }) => kind !== 'Job')
  const pruned = [
    ...expiredJobs(jobs, () => true, context),
    // The RBAC objects are unused once the last pod has finished.
    ...(jobs.some(isUnfinished)
      ? []
      : rbac.map(({ kind, metadata: { name } }) => ({ kind, name, reason }))),
  ]
  const remaining = childrenAfter(children, { pruned })
  return { children: remaining, ...(pruned.length > 0 && { pruned }) }
}

export interface SideEffectPorts extends LeasePorts, SecretCopyPorts {
  /** Deletes a Job with foreground propagation; ignored if it is already gone. */
  deleteJob(job: NonNullable<Desired<unknown>['deleteJobs']>[number]): Promise<void>
}

/**
 * Applies a decision, then writes its Events: required writes come before those that only report
 * them.
 */
export async function applyDecision<Status>(
  decision: DataJobDecision<Status>,
  ports: SideEffectPorts & { writeEvent(event: KubernetesEvent): Promise<void> },
): Promise<DataJobDecision<Status>> {
  await applySideEffects(decision, ports)
  for (const event of decision.events ?? []) await ports.writeEvent(event)
  return decision
}

/** Applies the writes in this order: a Job is deleted before the next may be created. */
export async function applySideEffects(
  decision: SideEffects & Pick<Desired<unknown>, 'deleteJobs'>,
  ports: SideEffectPorts,
): Promise<void> {
  const { deleteJobs = [], leases = [], writeCopies = [], deleteCopies = [] } = decision
  for (const job of deleteJobs) await ports.deleteJob(job)
  await writeLeases(leases, ports)
  for (const copy of writeCopies) await ports.writeSecretCopy(copy)
  for (const copy of deleteCopies) await ports.deleteSecretCopy(copy)
}
