/** The hooks of VecCluster: observe, decide, act. The StatefulSet is the only related object. */
import { VecCluster } from '../../crds/cluster.ts'
import { READINESS_CHECK_SECONDS, SHARDS_CHECK_SECONDS } from '../../crds/contract/limits.ts'
import { LABELS, releaseName } from '../../crds/contract/names.ts'
import { BackgroundTasks } from '../background-task.ts'
import { writeLeases } from '../lease.ts'
import {
  kindHooks,
  type Context,
  type Desired,
  type KindHooks,
  type RelatedRule,
} from '../protocol.ts'
import { JOB_CHILD_KINDS } from '../request.ts'
import { finalize } from './finalize.ts'
import { writeFormation } from './consensus.ts'
import { helmJobs } from './helm-result.ts'
import { HelmConcurrency } from './helm-slots.ts'
import { observe, observeDeletion } from './observe.ts'
import type { KeyAnswers } from './keys/ports.ts'
import type { ClusterPorts, Observed, PodConsensus } from './ports.ts'
import type { ShardsSummary } from './shards/summary.ts'
import type { Decision } from './decision.ts'
import { sync } from './sync.ts'

/** Querying consensus twice within one readiness check would return the same result. */
const CONSENSUS_MAX_AGE_SECONDS = READINESS_CHECK_SECONDS / 2

export function clusterHooks(ports: ClusterPorts): KindHooks {
  const helmConcurrency = new HelmConcurrency()
  const dependencies = {
    ports,
    helmConcurrency,
    consensus: new BackgroundTasks<PodConsensus[]>(CONSENSUS_MAX_AGE_SECONDS),
    shards: new BackgroundTasks<ShardsSummary>(SHARDS_CHECK_SECONDS),
    nodeKeys: new BackgroundTasks<KeyAnswers>(CONSENSUS_MAX_AGE_SECONDS),
  }
  const applied = async <T>(desired: Desired<T>) => {
    await applyDecision(desired, ports)
    return desired
  }
  return kindHooks({
    resource: VecCluster,
    childKinds: JOB_CHILD_KINDS,
    customize,
    finalizeReads: ['replicas', 'persistence'],
    async sync(request, context) {
      const observed = await observe(request, dependencies, context)
      const desired = sync(observed, context)
      recordHelmJob(helmConcurrency, observed, desired, context)
      return applied(desired)
    },
    async finalize(request, context) {
      helmConcurrency.forget(request.parent.metadata.uid)
      return applied(finalize(await observeDeletion(request, dependencies), context))
    },
  })
}

/** Records what this decision means for the order in which clusters get a helm Job. */
function recordHelmJob(
  helmConcurrency: HelmConcurrency,
  { cluster, jobs }: Observed,
  desired: Decision,
  { now }: Context,
): void {
  const { uid } = cluster.metadata
  const { isWaitingForSlot = false, deleteJobs = [] } = desired
  helmConcurrency.markWaiting(uid, isWaitingForSlot, now)
  if (createsHelmJob(desired)) helmConcurrency.markStarted(uid, now)
  const deleted = new Set(deleteJobs.map((job) => job.uid))
  if (helmJobs(jobs).some(({ metadata }) => deleted.has(metadata.uid ?? ''))) {
    helmConcurrency.markNotStarted(uid)
  }
}

function createsHelmJob({ children }: Desired<unknown>): boolean {
  return children.some(
    ({ kind, metadata, spec }) =>
      kind === 'Job' && spec !== undefined && metadata.labels?.[LABELS.component] === 'helm',
  )
}

/** The order matters: a Job is deleted before another lease holder may start. */
export async function applyDecision(
  {
    events = [],
    deleteJobs = [],
    leases = [],
    formation,
    validKeys,
  }: Desired<unknown> & Pick<Decision, 'leases' | 'formation' | 'validKeys'>,
  ports: ClusterPorts,
): Promise<void> {
  for (const job of deleteJobs) await ports.deleteJob(job)
  await writeLeases(leases, ports)
  if (formation !== undefined) await writeFormation(formation, ports)
  if (validKeys !== undefined) await ports.keepKeys(validKeys.cluster, validKeys.fingerprints)
  for (const event of events) await ports.writeEvent(event)
}

export function customize({ metadata }: VecCluster): RelatedRule[] {
  return [
    {
      apiVersion: 'apps/v1',
      resource: 'statefulsets',
      namespace: metadata.namespace,
      names: [releaseName(metadata.name)],
    },
  ]
}
