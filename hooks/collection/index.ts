/** The hooks of VecCollection: observe (which reconciles the engine), decide, write Events. */
import { VecCluster } from '../../crds/cluster.ts'
import { VecCollection } from '../../crds/collection.ts'
import { BackgroundTasks } from '../background-task.ts'
import { kindHooks, type KindHooks, type RelatedRule } from '../protocol.ts'
import { relatedByName } from '../request.ts'
import { EngineCaches } from './engine-cache.ts'
import { finalize, observeDeletion, type DeletionAttempt } from './finalize.ts'
import { observe } from './observe.ts'
import { clusterNameOf } from '../../crds/collection-ownership.ts'
import type { CollectionPorts } from './ports.ts'
import type { LastReconcile } from './result.ts'
import { sync } from './sync.ts'

/** `inlineMs`: how long a hook waits for a reconcile before it continues in the background. */
export function collectionHooks(ports: CollectionPorts, inlineMs?: number): KindHooks {
  const dependencies = {
    ports,
    // nextReconcileAt decides when a reconcile is due; results need no minimum age here.
    reconciles: new BackgroundTasks<LastReconcile>(0, inlineMs),
    deletions: new BackgroundTasks<DeletionAttempt>(0, inlineMs),
    engines: new EngineCaches(() => ports.now()),
    firstObserved: new Map<string, number>(),
  }
  return kindHooks({
    resource: VecCollection,
    childKinds: [],
    customize,
    finalizeReads: ['clusterRef', 'collectionName', 'aliases', 'deletionPolicy'],
    async sync(request, context) {
      const desired = sync(await observe(request, dependencies, context), context)
      for (const event of desired.events ?? []) await ports.writeEvent(event)
      return desired
    },
    async finalize(request, context) {
      return finalize(await observeDeletion(request.parent, dependencies, context), context)
    },
  })
}

export function customize(collection: VecCollection): RelatedRule[] {
  return [relatedByName(VecCluster, clusterNameOf(collection))]
}
