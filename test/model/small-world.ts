/**
 * A cluster small enough to know all of it: the objects of one namespace, what Metacontroller has seen
 * of them, and the time. Plain data that is never changed but replaced, so that many states share it.
 */
import { LABELS } from '../../crds/contract/names.ts'
import { finishedCondition, type AnyObject, type Job } from '../../crds/kubernetes.ts'
import type { HookAnswer } from '../../hooks/protocol.ts'
import type { Stored } from '../hooks/collection/engine.ts'
import type { OwnerReference } from '../world/client.ts'

export const NAMESPACE = 'ns'

export interface Small extends AnyObject {
  spec?: unknown
  status?: unknown
  data?: Record<string, string>
}

/** What a hook was asked about, and what it answered. */
export interface Answering {
  parent: Small
  children: Small[]
  answer: HookAnswer
}

export interface SmallWorld {
  /** Milliseconds since 1970. */
  now: number
  /** By `Kind/name`. */
  live: Record<string, Small>
  /** What Metacontroller's caches hold. */
  seen: Record<string, Small>
  /** Objects made so far: their uids are counted. */
  made: number
  namespaceEnds: boolean
  engine: SmallEngine
  bucket: SmallBucket
  /** An answer that Metacontroller has not carried out yet: it asks nothing else about this resource meanwhile. */
  answered?: Answering
  /** How often each kind of event may still strike. */
  left: Record<string, number>
}

/** What is in the engine of a cluster, and who keeps others from writing there. */
export interface SmallEngine {
  collections: Map<string, Stored>
  /** Collection by alias. */
  aliasTargets: Map<string, string>
  isReady: boolean
  holder?: string
}

/** What a backup has written, in batches; and whether the store answers. */
export interface SmallBucket {
  batches: number
  isAway: boolean
}

export const START = Date.parse('2026-03-01T12:00:00Z')

export function keyOf({ kind, metadata }: Pick<AnyObject, 'kind' | 'metadata'>): string {
  return `${kind}/${metadata.name}`
}

/** A world with these objects in it, that everybody has seen, in which so much may happen. */
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

/** A world of its own: the objects in it are shared, for none of them is ever changed. */
export function copyOf(world: SmallWorld): SmallWorld {
  const { live, seen, left, engine, bucket } = world
  const { collections, aliasTargets } = engine
  return {
    ...world,
    live: { ...live },
    seen: { ...seen },
    left: { ...left },
    bucket: { ...bucket },
    engine: {
      ...engine,
      // The engine of the collections' tests changes what it stores.
      collections: structuredClone(collections),
      aliasTargets: new Map(aliasTargets),
    },
  }
}

/** As the API server makes it; false where something of that name is there, or the namespace ends. */
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

/** Replaces an object by a changed one; one that is gone stays so. */
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

/** What belongs to an object goes with it. */
export function remove(world: SmallWorld, key: string): void {
  const { uid } = world.live[key]?.metadata ?? {}
  Reflect.deleteProperty(world.live, key)
  for (const [other, { metadata }] of Object.entries(world.live)) {
    if (metadata.ownerReferences?.some((owner) => owner.uid === uid) === true) remove(world, other)
  }
}

/** It is on its way out, until whoever holds it lets it go. */
export function beginEnd(world: SmallWorld, key: string): void {
  if (world.live[key]?.metadata.deletionTimestamp !== undefined) return
  edit(world, key, ({ metadata, ...rest }) => ({
    ...rest,
    metadata: { ...metadata, deletionTimestamp: at(world) },
  }))
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

/** Whoever changes what many states share would change them all: that throws. */
function frozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  for (const inner of Object.values(value)) frozen(inner)
  return Object.freeze(value)
}
