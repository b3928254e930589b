/** What tests of the decisions about a cluster begin with and look at. */
import { clusterRights } from '../../../hooks/cluster/children.ts'
import type { Observed } from '../../../hooks/cluster/observed.ts'
import { dueRun, wantedRun } from '../../../hooks/cluster/plan.ts'
import { sync as decide, type Decision } from '../../../hooks/cluster/sync.ts'
import { UpgradePlan } from '../../../crds/command.ts'
import type { Context, Desired } from '../../../hooks/protocol.ts'
import type { ClusterStatus } from '../../../crds/cluster.ts'
import { applied, cluster, observed, progress, settings, statefulSet } from '../../builders.ts'
import { planIn as planOf } from '../decisions.ts'

export const rights = clusterRights(cluster())

/** Decides as the room does: with the run that was found due. */
export function sync(found: Observed, at: Context): Decision {
  const due = dueRun(found, at.settings)
  return decide(due === undefined ? found : { ...found, due }, at)
}

/** Ready for a Job: the rights are there and nothing runs. */
export function ready(parts: Partial<Observed> = {}): Observed {
  return observed({ children: rights, liveJobs: [], unfinishedHelmJobs: 0, ...parts })
}

/** Applied and rolled out, as far as the parts do not say otherwise. */
export function running(parts: Partial<Observed> = {}): Observed {
  const found = parts.cluster ?? cluster({ status: { phase: 'Running', appliedRun: 1 } })
  const planHash = wantedRun(ready({ ...parts, cluster: found }), settings).hash
  return ready({
    statefulSet: statefulSet(),
    progress: progress({ applied: applied({ planHash }) }),
    ...parts,
    cluster: found,
  })
}

export function condition({ status }: Desired<ClusterStatus>, type: string) {
  const found = status.conditions?.find((one) => one.type === type)
  return found && [found.status, found.reason, found.message]
}

export function planIn(desired: Desired<ClusterStatus>): UpgradePlan {
  return planOf(desired, UpgradePlan)
}
