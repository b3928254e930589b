/** Which events make a parent be seen again: its own, those of its children, and the passing of time. */
import { controllerOf, isDeleting, type ApiObject } from '../client.ts'
import type { Clock } from '../clock.ts'
import type { CompositeController } from './composite.ts'
import { REPLAY_MS, type Informer } from './informer.ts'
import { groupOf, same } from './object.ts'
import { childSelector } from './selector.ts'

interface TriggerOptions {
  controller: CompositeController
  parents: Informer
  children: Informer[]
  clock: Clock
  enqueue: (parent: ApiObject) => void
}

/** The answer ends the timer; the informers end by themselves. */
export function watchParentsAndChildren(options: TriggerOptions): () => void {
  const { controller, parents, children, clock, enqueue } = options
  const events = {
    added: enqueue,
    updated: (old: ApiObject, parent: ApiObject) => {
      if (!ignores(controller, old, parent)) enqueue(parent)
    },
    deleted: enqueue,
  }
  parents.subscribe(events)
  for (const informer of children) {
    informer.subscribe({
      added: (child) => childChanged(options, child),
      updated: (old, child) => {
        const replayed = old.metadata.resourceVersion === child.metadata.resourceVersion
        if (!replayed) childChanged(options, child)
      },
      deleted: (child) => enqueueOwner(options, child),
    })
  }
  return every(controller.spec.resyncPeriodSeconds, clock, () => parents.replay(events))
}

/** A period that is not shorter than the replay of every cache has no effect of its own. */
function every(seconds: number | undefined, clock: Clock, run: () => void): () => void {
  const period = Math.max(1, seconds ?? 0) * 1000
  if (seconds === undefined || period >= REPLAY_MS) return () => undefined
  const start = (): (() => void) =>
    clock.setTimeout(() => {
      run()
      cancel = start()
    }, period)
  let cancel = start()
  return () => cancel()
}

/** Where status changes are ignored, only changes of spec and metadata count. A replay always does. */
function ignores({ spec }: CompositeController, old: ApiObject, parent: ApiObject): boolean {
  return (
    spec.parentResource.ignoreStatusChanges === true &&
    old !== parent &&
    old.metadata.generation === parent.metadata.generation &&
    same(old.metadata.labels, parent.metadata.labels) &&
    same(old.metadata.annotations, parent.metadata.annotations) &&
    !isDeleting(parent)
  )
}

function childChanged(options: TriggerOptions, child: ApiObject): void {
  if (isDeleting(child) || controllerOf(child) !== undefined) {
    enqueueOwner(options, child)
    return
  }
  // An orphan: every parent it matches may want it.
  const { parents, controller, enqueue } = options
  const near = parents.list(parents.kind.namespaced ? child.metadata.namespace : '')
  for (const parent of near) if (wouldAdopt(controller, parent, child)) enqueue(parent)
}

function wouldAdopt(controller: CompositeController, parent: ApiObject, child: ApiObject): boolean {
  try {
    return childSelector(controller, parent)(child.metadata.labels)
  } catch {
    // A parent without a usable selector adopts nothing.
    return false
  }
}

function enqueueOwner({ parents, enqueue }: TriggerOptions, child: ApiObject): void {
  const owner = controllerOf(child)
  const { kind, apiVersion, namespaced } = parents.kind
  if (owner?.kind !== kind || groupOf(owner.apiVersion) !== groupOf(apiVersion)) return
  const { namespace = '' } = child.metadata
  const key = namespaced && namespace !== '' ? `${namespace}/${owner.name}` : owner.name
  const parent = parents.get(key)
  if (parent?.metadata.uid === owner.uid) enqueue(parent)
}
