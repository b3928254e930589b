/**
 * The hooks of VecRestore: observe, decide, apply. An unfinished VecRestore needs its target
 * VecCluster and its VecBackup as related objects, by name and namespace.
 */
import { VecBackup } from '../../crds/backup.ts'
import { VecCluster } from '../../crds/cluster.ts'
import { restoreBackupRef, restoreTarget, VecRestore } from '../../crds/restore.ts'
import { applyDecision } from '../data-job/decision.ts'
import { isFinished } from '../data-job/observe.ts'
import { finalize, observeDeletion } from '../data-job/finalize.ts'
import { release } from '../lease-claim.ts'
import { kindHooks, type KindHooks, type RelatedRule } from '../protocol.ts'
import { JOB_CHILD_KINDS, relatedByName } from '../request.ts'
import { observe, type RestorePorts } from './observe.ts'
import { leaseHolder, sync } from './sync.ts'

export function restoreHooks(ports: RestorePorts): KindHooks {
  return kindHooks({
    resource: VecRestore,
    childKinds: JOB_CHILD_KINDS,
    customize,
    finalizeReads: ['targetClusterRef'],
    async sync(request, context) {
      return applyDecision(sync(await observe(request, ports, context), context), ports)
    },
    async finalize(request, context) {
      const decision = finalize(await observeDeletion(request, ports), context)
      const { parent } = request
      if (decision.finalized === true) {
        await release(restoreTarget(parent), ['write', 'backup'], leaseHolder(parent), ports)
      }
      return applyDecision(decision, ports)
    },
  })
}

export function customize(restore: VecRestore): RelatedRule[] {
  // A finished restore needs no cluster, and every change of a cluster would sync it again.
  if (isFinished(restore)) return []
  const backup = restoreBackupRef(restore)
  return [
    relatedByName(VecCluster, restoreTarget(restore)),
    ...(backup === undefined ? [] : [relatedByName(VecBackup, backup)]),
  ]
}
