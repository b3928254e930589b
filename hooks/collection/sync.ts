/** What the status of a VecCollection says, and when it is looked at again; it has no children. */
import type { CollectionStatus, VecCollection } from '../../crds/collection.ts'
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import { RETRY_SECONDS } from '../../crds/limits.ts'
import { shortHash } from '../../crds/names.ts'
import { clusterRefusal } from '../allow.ts'
import { conditionOf, timestamp } from '../conditions.ts'
import { eventOn } from '../events.ts'
import type { Context, Desired } from '../protocol.ts'
import { notServed, serves } from '../served.ts'
import { clusterOf, collectionNameOf } from './claims.ts'
import type { Observed } from './observe.ts'
import { internalError, verdict, waiting, type Outcome } from './outcome.ts'
import { collectionStatus } from './status.ts'

/** `2026-11-21T16`, of an instant. */
const TO_THE_HOUR = 13

export function sync(observed: Observed, context: Context): Desired<CollectionStatus> {
  const { collection, cluster, outcome, failure, againAfterSeconds } = observed
  const { namespace, name } = clusterOf(collection)
  const called = `cluster ${namespace}/${name}`

  if (!serves(context.settings, namespace)) {
    const elsewhere = waiting('ClusterNotServed', notServed(called))
    return answer(collection, elsewhere, elsewhere.againAfterSeconds, context)
  }
  if (cluster === undefined) {
    const missing = waiting('ClusterNotFound', `${called} not found`)
    return answer(collection, missing, missing.againAfterSeconds, context)
  }
  const refusal = clusterRefusal(cluster, collection.metadata.namespace, context.settings)
  if (refusal !== undefined) {
    const refused = verdict(collection, 'Failed', refusal)
    return answer(collection, refused, RETRY_SECONDS, context)
  }
  if (failure !== undefined) {
    return answer(collection, internalError(collection, failure.error), againAfterSeconds, context)
  }
  if (outcome !== undefined) return answer(collection, outcome, againAfterSeconds, context)

  // No pass over this spec has ended: what is known stays, and says which generation it is about.
  if (collection.status?.phase !== undefined) {
    return {
      status: collection.status,
      children: [],
      resyncAfterSeconds: againAfterSeconds,
    }
  }
  const begun = waiting('Reconciling', 'the first look at the engine is under way')
  return answer(collection, begun, againAfterSeconds, context)
}

function answer(
  collection: VecCollection,
  outcome: Outcome,
  resyncAfterSeconds: number,
  { now }: Context,
): Desired<CollectionStatus> {
  const status = collectionStatus(collection, outcome, now)
  const events = [
    ...(outcome.phase === undefined ? [] : eventsOf(collection, status, now)),
    ...(outcome.recreated === true ? [recreatedEvent(collection, now)] : []),
  ]
  return {
    ...{ status, children: [], resyncAfterSeconds },
    ...(events.length > 0 && { events }),
    ...(outcome.failure !== undefined && { failure: outcome.failure }),
  }
}

/** Once an hour: the result of a pass is shown more than once. */
function recreatedEvent(collection: VecCollection, now: Date): KubernetesEvent {
  const message = `collection ${collectionNameOf(collection)} was gone from the engine and was created again, empty`
  const event = { type: 'Warning' as const, reason: 'CollectionRecreated', message }
  return eventOn(collection, { ...event, transition: timestamp(now).slice(0, TO_THE_HOUR) }, now)
}

/** One Event for each verdict that says something new. Who waits tells so in the condition only. */
function eventsOf(
  collection: VecCollection,
  { conditions = [] }: CollectionStatus,
  now: Date,
): KubernetesEvent[] {
  const before = conditionOf(collection, 'Ready')
  return conditions
    .filter(({ type }) => type === 'Ready')
    .filter(({ reason, message }) => reason !== before?.reason || message !== before.message)
    .map(({ status, reason, message, lastTransitionTime }) => {
      const transition = `${collection.metadata.generation}/${shortHash(lastTransitionTime, message)}`
      const type = status === 'True' ? 'Normal' : 'Warning'
      return eventOn(collection, { type, reason, message, transition }, now)
    })
}
