/** The desired state of a VecMigration: its Job, and when it starts. */
import type { MigrationStatus } from '../../crds/migration.ts'
import {
  afterFinished,
  whenFinished,
  whileUnfinished,
  type DataJobDecision,
  type Unfinished,
} from '../data-job/decision.ts'
import { isFinished, type Outcome } from '../data-job/observe.ts'
import {
  busyWith,
  creating,
  nextStep,
  runNumberAfter,
  starting,
  type JobFacts,
} from '../data-job/next-step.ts'
import { formatHolderName, holderOf } from '../lease.ts'
import { jobNameField, allObserved } from '../request.ts'
import type { Context } from '../protocol.ts'
import { copiedCredentials, copySources } from './endpoints.ts'
import { desiredPlan, migrationJob, migrationRbac } from './job.ts'
import { firstBlocker, type Observed } from './observe.ts'
import { activeStatus, finishedStatus, migrationEvents } from './status.ts'

export type Decision = DataJobDecision<MigrationStatus>

export function sync(observed: Observed, context: Context): Decision {
  const { migration } = observed
  // A finished migration outlives its clusters. Its Job is retained for its log and never
  // recreated.
  if (isFinished(migration)) {
    const retained = afterFinished(observed, 'the migration has ended', context)
    const { jobName: _, ...status } = migration.status ?? {}
    return { status: { ...status, ...jobNameField(observed) }, ...retained }
  }
  const facts = jobFacts(observed, context)
  const step = nextStep(observed, facts, context)
  switch (step.is) {
    case 'finished':
      return finished(observed, step.outcome, facts, context)
    case 'running':
      return unfinished(observed, step.answer, context)
    case 'blocked': {
      const { resyncAfterSeconds } = step.answer
      const seconds = observed.targetResyncSeconds ?? resyncAfterSeconds
      return unfinished(observed, { ...step.answer, resyncAfterSeconds: seconds }, context)
    }
    case 'ready':
      return unfinished(observed, start(observed, facts, context), context)
  }
}

function jobFacts(observed: Observed, { settings }: Context): JobFacts {
  const { migration, clusters, secrets } = observed
  return {
    blocker: firstBlocker(observed, settings),
    starting: { reason: 'MigrationStarting' },
    hasStarted: migration.status?.startTime !== undefined,
    desiredHash: desiredPlan(migration, clusters)?.hash,
    copiedCredentials: copiedCredentials(migration),
    copySources: copySources(migration, clusters, secrets, settings),
    rbac: migrationRbac(migration),
    // It holds no Lease: it only waits for the Leases of others.
    lostLease: false,
    leaseReleases: [],
  }
}

/** RBAC first, then the Job, which is not created while a restore writes. */
function start(observed: Observed, facts: JobFacts, { now, settings }: Context): Unfinished {
  const { migration, clusters, progress, writers = [] } = observed
  const rbac = migrationRbac(migration)
  const desired = desiredPlan(migration, clusters)
  // A Job must not start before it has permission to report.
  if (desired === undefined || !allObserved(rbac, observed.children)) {
    return starting(facts, 'creating ServiceAccount, Role and RoleBinding for the Job', rbac)
  }
  for (const lease of writers) {
    const holder = holderOf(lease, now)
    if (holder !== undefined) return busyWith(formatHolderName(holder), [])
  }
  const plan = { ...desired, run: runNumberAfter(progress) }
  const job = migrationJob(observed, plan, settings)
  return creating(facts, migration, job)
}

function unfinished(observed: Observed, answer: Unfinished, context: Context): Decision {
  const status = {
    ...activeStatus(observed, answer.conditionReason, context),
    ...jobNameField(observed),
  }
  const events = migrationEvents(observed.migration, status, context.now)
  return { status, events, ...whileUnfinished(observed, answer) }
}

function finished(
  observed: Observed,
  outcome: Outcome,
  facts: JobFacts,
  context: Context,
): Decision {
  const status = { ...finishedStatus(observed, outcome), ...jobNameField(observed) }
  const events = migrationEvents(observed.migration, status, context.now)
  return { status, events, ...whenFinished(observed, facts) }
}
