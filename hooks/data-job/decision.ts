/**
 * Decisions about a VecBackup, VecRestore or VecMigration: the answer (status fields, one Event when the
 * work starts, one when it ends, one for each warning in between, and children), the writes that it
 * needs, and how they are applied.
 */
import { EXPIRY_CHECK_SECONDS } from '../../crds/contract/limits.ts'
import type { AnyObject, Job, KubernetesEvent, Secret } from '../../crds/kubernetes.ts'
import type { Condition, ConditionReason } from '../../crds/schema.ts'
import { type ConditionUpdate, getCondition, timestamp } from '../conditions.ts'
import type { Outcome, SideEffectPorts } from './observe.ts'
import { type SecretCopyIdentity, secretCopyRefs } from './secret-copies.ts'
import { type InvolvedObject, normalEvent, warningEvent } from '../events.ts'
import { expiredJobs } from '../job-watch.ts'
import { type LeaseWrite, writeLeases } from '../lease.ts'
import type { Child, Context, Desired, PrunedChild } from '../protocol.ts'
import { childrenAfter, isUnfinished, type ObservedJobs, unchanged } from '../request.ts'

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
 * The sync that records the outcome: every child stays until then, the credentials of the Jobs do not. A Lease no longer
 * counts once the Job of its holder has ended; one that was taken without a Job is released here.
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

/** Maximum length of an error in a status; the Job's log has the full text. */
const MAX_ERROR = 4096
/** In percent: 100 only once the report says that everything is done. */
const MAX_UNFINISHED_PERCENTAGE = 99

/** Condition Complete of an unfinished resource. */
export function unfinishedCondition(conditionReason: ConditionReason): ConditionUpdate {
  return { type: 'Complete', status: 'False', ...conditionReason }
}

/** Condition Complete of a finished resource. */
export function outcomeCondition(
  { phase, message }: Outcome,
  reason: ConditionReason,
): ConditionUpdate {
  const status = phase === 'Completed' ? 'True' : 'False'
  return { type: 'Complete', status, ...reason, message: message ?? reason.message }
}

/**
 * The time of the conditions of a finished resource. Not that of the sync: the cached resource may
 * be older than the last answer, and the outcome is then recorded again.
 */
export function outcomeTime({ at }: Outcome): Date {
  return new Date(at)
}

/** When it finished, and why it failed. */
export function completionFields({ at, error }: Outcome): {
  completionTime: string
  error?: string
} {
  return {
    completionTime: timestamp(new Date(at)),
    ...(error !== undefined && { error: error.slice(0, MAX_ERROR) }),
  }
}

/** Number of collections that the lists of a report omit, by state; zeros are omitted. */
export function unlistedFields(unlisted: Record<'completed' | 'failed' | 'pending', number>): {
  unlistedCollections?: Partial<typeof unlisted>
} {
  const counts = Object.entries(unlisted).filter(([, count]) => count > 0)
  return counts.length === 0 ? {} : { unlistedCollections: Object.fromEntries(counts) }
}

/** When the first attempt started: later attempts continue its work. */
export function formatStartTime(startedAt: string | undefined): string | undefined {
  return startedAt === undefined ? undefined : timestamp(new Date(startedAt))
}

/** Progress in percent while it is unfinished. */
export function unfinishedPercentage(done: number, total: number): number {
  return total === 0 ? 0 : Math.min(MAX_UNFINISHED_PERCENTAGE, Math.floor((100 * done) / total))
}

interface EventInputs {
  resource: InvolvedObject & Parameters<typeof getCondition>[0]
  /** The new status. */
  status: { conditions?: Condition[]; error?: string }
  now: Date
}

interface EventTexts {
  /** Set only on the sync that first reports it as running. */
  started: ConditionReason | false
  /** The successful outcome, and what its Event adds to the summary in the message of its condition. */
  completed: { reason: string; suffix: string }
  /** Reason of the failed outcome. */
  failed: string
}

export function dataJobEvents(
  { resource, status, now }: EventInputs,
  { started, completed, failed }: EventTexts,
): KubernetesEvent[] {
  const completeCondition = status.conditions?.find(({ type }) => type === 'Complete')
  const events = started === false ? [] : [normalEvent(resource, started, now)]
  if (
    completeCondition === undefined ||
    completeCondition.reason === getCondition(resource, 'Complete')?.reason
  ) {
    return events
  }
  const { reason, message } = completeCondition
  switch (reason) {
    case failed:
    case 'JobSilent':
    case 'JobNotStarted': {
      const { error } = status
      const text = error === undefined || error === message ? message : `${message}: ${error}`
      return [...events, warningEvent(resource, { reason, message: text }, now)]
    }
    case completed.reason: {
      // Notes follow the summary.
      const [summary = ''] = message.split(/[:;] /, 1)
      const text = summary + completed.suffix + message.slice(summary.length)
      return [...events, normalEvent(resource, { reason, message: text }, now)]
    }
    default:
      return events
  }
}
