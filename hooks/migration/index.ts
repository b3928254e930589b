/**
 * The hooks of VecMigration: observe, decide, apply. An unfinished VecMigration needs the
 * VecClusters that it copies from and to as related objects, by name and namespace.
 */
import { VecCluster } from '../../crds/cluster.ts'
import { VecMigration } from '../../crds/migration.ts'
import { BackgroundTasks } from '../background-task.ts'
import { applyDecision } from '../data-job/decision.ts'
import { isFinished } from '../data-job/observe.ts'
import { finalize, observeDeletion } from '../data-job/finalize.ts'
import { kindHooks, type KindHooks, type RelatedRule } from '../protocol.ts'
import { JOB_CHILD_KINDS, relatedByName } from '../request.ts'
import { sourceClusterRef, targetRef } from './endpoints.ts'
import {
  observe,
  READINESS_MAX_AGE_SECONDS,
  type MigrationPorts,
  type TargetReadiness,
} from './observe.ts'
import { sync } from './sync.ts'

/** `inlineMs`: how long a hook waits for the target, which is then asked in the background. */
export function migrationHooks(ports: MigrationPorts, inlineMs?: number): KindHooks {
  const targets = new BackgroundTasks<TargetReadiness>(READINESS_MAX_AGE_SECONDS, inlineMs)
  return kindHooks({
    resource: VecMigration,
    childKinds: JOB_CHILD_KINDS,
    customize,
    finalizeReads: [],
    async sync(request, context) {
      return applyDecision(
        sync(await observe(request, { ports, targets }, context), context),
        ports,
      )
    },
    async finalize(request, context) {
      await targets.abort(request.parent.metadata.uid)
      return applyDecision(finalize(await observeDeletion(request, ports), context), ports)
    },
  })
}

export function customize(migration: VecMigration): RelatedRule[] {
  // A finished migration needs no cluster, and every change of a cluster would sync it again.
  if (isFinished(migration)) return []
  const source = sourceClusterRef(migration)
  const target = targetRef(migration)
  const isBoth = source?.namespace === target.namespace && source.name === target.name
  const clusters = source === undefined || isBoth ? [target] : [target, source]
  return clusters.map((cluster) => relatedByName(VecCluster, cluster))
}
