/**
 * A cluster that is small enough to explore completely: the objects of one namespace, their copies in the
 * caches of Metacontroller, and the time. Objects are immutable and replaced, so that many states share them.
 */
import { LABELS } from '../../crds/contract/names.ts'
import { finishedCondition, type AnyObject, type Job } from '../../crds/kubernetes.ts'
import type { Stored } from '../hooks/collection/engine.ts'
import type { OwnerReference } from '../world/client.ts'
import type { Answered } from '../world/loop/pass.ts'
import type { Calls } from './calls.ts'
import type { HookBody } from './pass.ts'

export const NAMESPACE = 'ns'

export interface Small extends AnyObject {
  metadata: AnyObject['metadata'] & { finalizers?: string[] }
  spec?: unknown
  status?: unknown
  data?: Record<string, string>
}

/** A call of a hook whose service stopped before one of its writes. */
export interface SlowCall {
  body: HookBody
  calls: Calls
  /** The time at which it was called. */
  now: number
  /** Metacontroller does not wait for it any longer, and calls the other service. */
  isGivenUp: boolean
  /** Number of steps since it stopped. */
  steps: number
}

export interface SmallWorld {
  /** Milliseconds since 1970. */
  now: number
  /** By `Kind/name`. */
  live: Record<string, Small>
  /** The caches of Metacontroller. */
  seen: Record<string, Small>
  /** Number of writes so far, from which uids and resource versions are made. */
  made: number
  namespaceEnds: boolean
  engine: SmallEngine
  bucket: SmallBucket
  /** An answer that Metacontroller has not carried out yet. It calls no other hook of the resource meanwhile. */
  answered?: Answered
  slow?: SlowCall
  /** Records the calls of the decision that is being made. */
  calls?: Calls
  /** How often each kind of strike may still happen. */
  left: Record<string, number>
}

/** The content of a cluster's engine, and the holder of its write Lease. */
export interface SmallEngine {
  collections: Map<string, Stored>
  /** Collection by alias. */
  aliasTargets: Map<string, string>
  isReady: boolean
  /** A replica of a shard is not Active. */
  isDefective?: boolean
  /** A backup was completed since its pods started. */
  isBackedUp?: boolean
  holder?: string
}

/** Number of batches that a backup has written, and whether the store is unavailable. */
export interface SmallBucket {
  batches: number
  isAway: boolean
}

export const START = Date.parse('2026-03-01T12:00:00Z')

export function keyOf({ kind, metadata }: Pick<AnyObject, 'kind' | 'metadata'>): string {
  return `${kind}/${metadata.name}`
}

/** A world with these objects, all of them cached; `left` limits the strikes. */
export function smallWorld(objects: object[], left: Record<string, number> = {}): SmallWorld {
  const engine = { collections: new Map(), aliasTargets: new Map(), isReady: true }
  const world: SmallWorld = {
    now: START,
    live: {},
    seen: {},
    made: 0,
    namespaceEnds: false,
    engine,
    bucket: { batches: 0, isAway: false },
    left,
  }
  for (const object of objects) create(world, object as Small)
  world.seen = { ...world.live }
  return world
}

/** A copy that can be changed. It shares the objects, which are immutable. */
export function copyOf(world: SmallWorld): SmallWorld {
  const { live, seen, left, engine, bucket, slow } = world
  const { collections, aliasTargets } = engine
  return {
    ...world,
    live: { ...live },
    seen: { ...seen },
    left: { ...left },
    bucket: { ...bucket },
    ...(slow && { slow: { ...slow } }),
    engine: {
      ...engine,
      // The engine of the collections' tests changes what it stores.
      collections: structuredClone(collections),
      aliasTargets: new Map(aliasTargets),
    },
  }
}

/** Creates an object as the API server does; false if its name is taken or the namespace is terminating. */
export function create(world: SmallWorld, object: Small, owner?: OwnerReference): boolean {
  const key = keyOf(object)
  if (key in world.live || world.namespaceEnds) return false
  world.made += 1
  world.live[key] = frozen({
    ...object,
    metadata: {
      ...object.metadata,
      namespace: object.metadata.namespace ?? NAMESPACE,
      uid: object.metadata.uid ?? `uid-${world.made}`,
      resourceVersion: String(world.made),
      generation: object.metadata.generation ?? 1,
      creationTimestamp: at(world),
      ...(owner !== undefined && { ownerReferences: [owner] }),
    },
  })
  return true
}

/** Replaces an object by a changed one; does nothing if the object is gone. */
export function edit(world: SmallWorld, key: string, change: (object: Small) => Small): void {
  const found = world.live[key]
  if (found === undefined) return
  world.made += 1
  const { metadata, ...rest } = change(found)
  world.live[key] = frozen({
    ...rest,
    metadata: { ...metadata, resourceVersion: String(world.made) },
  })
}

/** Deletes an object and everything that it owns. */
export function remove(world: SmallWorld, key: string): void {
  const { uid } = world.live[key]?.metadata ?? {}
  Reflect.deleteProperty(world.live, key)
  for (const [other, { metadata }] of Object.entries(world.live)) {
    if (metadata.ownerReferences?.some((owner) => owner.uid === uid) === true) remove(world, other)
  }
}

/** Requests the deletion of an object that something keeps: its pods, or a finalizer. */
export function beginEnd(world: SmallWorld, key: string): void {
  if (world.live[key]?.metadata.deletionTimestamp !== undefined) return
  edit(world, key, ({ metadata, ...rest }) => ({
    ...rest,
    metadata: { ...metadata, deletionTimestamp: at(world) },
  }))
}

/** Requests the deletion of a parent: Metacontroller's finalizer keeps it, if it has one. */
export function requestDeletion(world: SmallWorld, key: string): void {
  const { finalizers = [] } = world.live[key]?.metadata ?? {}
  if (finalizers.length > 0) beginEnd(world, key)
  else remove(world, key)
}

export function at({ now }: Pick<SmallWorld, 'now'>): string {
  return new Date(now).toISOString()
}

export function objects<Kind extends Small>(from: Record<string, Small>, kind: string): Kind[] {
  return Object.values(from).filter((object) => object.kind === kind) as Kind[]
}

export function jobs(world: SmallWorld): Job[] {
  return objects<Small>(world.live, 'Job') as unknown as Job[]
}

export function unfinished(world: SmallWorld): Job[] {
  return jobs(world).filter((job) => finishedCondition(job) === undefined)
}

/** The Jobs of one resource. */
export function ownJobs(world: SmallWorld, parent: string): Job[] {
  const uid = world.live[parent]?.metadata.uid
  return jobs(world).filter(({ metadata }) => metadata.labels?.[LABELS.parent] === uid)
}

/** Many states share an object, so changing it throws instead of changing all of them. */
function frozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  for (const inner of Object.values(value)) frozen(inner)
  return Object.freeze(value)
}
