/** What a DELETE does: which finalizers the object gets, and whether it is removed or only marked. */
import type { ApiObject, Propagation } from '../client.ts'
import { recordAt, valueAt } from './json.ts'
import type { Kind } from './kinds.ts'
import { timestamp } from './metadata.ts'
import { badRequest, conflict } from './failure.ts'

export const FOREGROUND = 'foregroundDeletion'
export const ORPHAN = 'orphan'

export interface DeleteOptions {
  propagationPolicy?: string
  gracePeriodSeconds?: number
  preconditions?: { uid?: string; resourceVersion?: string }
}

/** Throws when the object is not the one that was meant. */
export function checkPreconditions(kind: Kind, object: ApiObject, options: DeleteOptions): void {
  const { name, uid, resourceVersion } = object.metadata
  const preconditions = options.preconditions
  if (preconditions?.uid !== undefined && preconditions.uid !== uid) {
    const why = `Precondition failed: UID in precondition: ${preconditions.uid}, UID in object meta: ${uid ?? ''}`
    throw conflict(kind, name, why)
  }
  if (
    preconditions?.resourceVersion !== undefined &&
    preconditions.resourceVersion !== resourceVersion
  ) {
    const why = `Precondition failed: ResourceVersion in precondition: ${preconditions.resourceVersion}, ResourceVersion in object meta: ${resourceVersion ?? ''}`
    throw conflict(kind, name, why)
  }
}

/** The object as deletion leaves it; undefined when nothing holds it. */
export function afterDelete(
  kind: Kind,
  object: ApiObject,
  options: DeleteOptions,
  now: Date,
): ApiObject | undefined {
  const finalizers = finalizersFor(kind, object, options)
  const grace = graceOf(kind, object, options)
  const marked = marking(kind, object, now, grace)
  const metadata = { ...object.metadata, ...marked, finalizers }
  if (finalizers.length === 0) Reflect.deleteProperty(metadata, 'finalizers')
  const next = { ...object, metadata }
  return isHeld(next) ? withPhase(kind, next) : undefined
}

/** Whether an object that is being deleted still has to stay. */
export function isHeld({ metadata, kind, spec }: ApiObject): boolean {
  const namespaceFinalizers = kind === 'Namespace' ? recordAt({ spec }, 'spec')['finalizers'] : []
  return (
    (metadata.finalizers ?? []).length > 0 ||
    (metadata.deletionGracePeriodSeconds ?? 0) > 0 ||
    (Array.isArray(namespaceFinalizers) && namespaceFinalizers.length > 0)
  )
}

function marking(kind: Kind, { metadata }: ApiObject, now: Date, grace: number) {
  if (metadata.deletionTimestamp !== undefined) {
    // Only a shorter grace is accepted.
    const left = Math.min(grace, metadata.deletionGracePeriodSeconds ?? 0)
    return { deletionGracePeriodSeconds: left }
  }
  return {
    deletionTimestamp: timestamp(new Date(now.getTime() + grace * 1000)),
    deletionGracePeriodSeconds: grace,
    // Deletion changes the desired state.
    ...(kind.generation && { generation: (metadata.generation ?? 0) + 1 }),
  }
}

function finalizersFor(kind: Kind, object: ApiObject, options: DeleteOptions): string[] {
  const policy = propagationOf(kind, object, options)
  const others = (object.metadata.finalizers ?? []).filter(
    (name) => name !== FOREGROUND && name !== ORPHAN,
  )
  if (policy === 'Foreground') return [...others, FOREGROUND]
  if (policy === 'Orphan') return [...others, ORPHAN]
  return others
}

function propagationOf(
  { kind }: Kind,
  { metadata: { finalizers = [] } }: ApiObject,
  { propagationPolicy }: DeleteOptions,
): Propagation {
  switch (propagationPolicy) {
    case 'Background':
    case 'Foreground':
    case 'Orphan':
      return propagationPolicy
    case undefined:
      break
    default:
      throw badRequest(`propagationPolicy: Unsupported value: "${propagationPolicy}"`)
  }
  if (finalizers.includes(FOREGROUND)) return 'Foreground'
  if (finalizers.includes(ORPHAN)) return 'Orphan'
  // For backwards compatibility a Job that is deleted without a word leaves its pods.
  return kind === 'Job' ? 'Orphan' : 'Background'
}

/** Only a pod that runs is given time to end. */
function graceOf({ kind }: Kind, object: ApiObject, { gracePeriodSeconds }: DeleteOptions): number {
  const phase = valueAt(object, 'status.phase')
  const runs = kind === 'Pod' && valueAt(object, 'spec.nodeName') !== undefined
  if (!runs || phase === 'Succeeded' || phase === 'Failed') return 0
  const own = valueAt(object, 'spec.terminationGracePeriodSeconds')
  return gracePeriodSeconds ?? (typeof own === 'number' ? own : 30)
}

function withPhase(kind: Kind, object: ApiObject): ApiObject {
  if (kind.kind !== 'Namespace') return object
  return { ...object, status: { ...recordAt(object, 'status'), phase: 'Terminating' } }
}
