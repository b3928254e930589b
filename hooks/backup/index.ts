/**
 * The hooks of VecBackup: observe, decide, apply. An unfinished VecBackup needs its VecCluster as a
 * related object, by name and namespace.
 */
import { VecBackup } from '../../crds/backup.ts'
import { VecCluster } from '../../crds/cluster.ts'
import { BackgroundTasks } from '../background-task.ts'
import { isFinished } from '../data-job/observe.ts'
import { release } from '../lease-claim.ts'
import { kindHooks, type KindHooks, type RelatedRule } from '../protocol.ts'
import { JOB_CHILD_KINDS, relatedByName } from '../request.ts'
import { finalize, observeDeletion } from './finalize.ts'
import { clusterRefOf, observe, type BackupPorts, type Purge } from './observe.ts'
import { applyDecision, leaseHolder, sync, type Decision } from './sync.ts'

export function backupHooks(ports: BackupPorts): KindHooks {
  // Freshness 0: every finalize requests the next batch.
  const purges = new BackgroundTasks<Purge>(0)
  const apply = async (decision: Decision, backup: VecBackup) => {
    await applyDecision(decision, backup.metadata, ports)
    return decision
  }
  return kindHooks({
    resource: VecBackup,
    childKinds: JOB_CHILD_KINDS,
    customize,
    finalizeReads: ['clusterRef', 'storage', 'deletionPolicy'],
    async sync(request, context) {
      const observed = await observe(request, ports, context)
      return apply(sync(observed, context), request.parent)
    },
    async finalize(request, context) {
      const deletion = await observeDeletion(request, { ports, purges }, context)
      const decision = finalize(deletion, context)
      if (decision.finalized === true) await purges.abort(request.parent.metadata.uid)
      if (decision.finalized === true || decision.startsPurge === true) {
        await release(clusterRefOf(request.parent), ['backup'], leaseHolder(request.parent), ports)
      }
      return apply(decision, request.parent)
    },
  })
}

export function customize(backup: VecBackup): RelatedRule[] {
  // A finished backup needs no cluster, and every change of a cluster would sync it again.
  if (isFinished(backup)) return []
  return [relatedByName(VecCluster, clusterRefOf(backup))]
}
