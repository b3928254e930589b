/** Inputs of decisions about a cluster, and helpers that read them. */
import type { ClusterStatus } from '../../../crds/cluster.ts'
import { UpgradePlan } from '../../../crds/contract/job.ts'
import { clusterRbac, desiredRun, findPendingRun } from '../../../hooks/cluster/job.ts'
import type { Observed } from '../../../hooks/cluster/ports.ts'
import type { Decision } from '../../../hooks/cluster/decision.ts'
import { sync as decide } from '../../../hooks/cluster/sync.ts'
import type { Context, Desired } from '../../../hooks/protocol.ts'
import { applied, cluster, observed, progress, settings, statefulSet } from '../../builders.ts'
import { jobPlan as planOf } from '../decisions.ts'

export const rbac = clusterRbac(cluster())

/** Decides like the hooks, with the run that is due. */
export function sync(observed: Observed, hookContext: Context): Decision {
  const due = findPendingRun(observed, hookContext.settings)
  return decide(due === undefined ? observed : { ...observed, pendingRun: due }, hookContext)
}

/** Ready for a Job: RBAC exists and nothing runs. */
export function ready(overrides: Partial<Observed> = {}): Observed {
  return observed({ children: rbac, liveJobs: [], unfinishedHelmJobs: 0, ...overrides })
}

/** Applied and rolled out, unless the parts override it. */
export function running(overrides: Partial<Observed> = {}): Observed {
  const observed = overrides.cluster ?? cluster({ status: { phase: 'Running', appliedRun: 1 } })
  const planHash = desiredRun(
    ready({ progress: progress({ applied: applied() }), ...overrides, cluster: observed }),
    settings,
  ).hash
  return ready({
    statefulSet: statefulSet(),
    progress: progress({ applied: applied({ planHash }) }),
    ...overrides,
    cluster: observed,
  })
}

export function condition({ status }: Desired<ClusterStatus>, type: string) {
  const observed = status.conditions?.find((candidate) => candidate.type === type)
  return observed && [observed.status, observed.reason, observed.message]
}

export function upgradePlan(desired: Desired<ClusterStatus>): UpgradePlan {
  return planOf(desired, UpgradePlan)
}
