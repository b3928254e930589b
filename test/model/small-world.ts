/**
 * A cluster small enough to know all of it: the objects of one namespace, what Metacontroller has seen
 * of them, and the time. Plain data, so that a state can be copied and compared.
 */
import type { AnyObject, Job } from '../../crds/kubernetes.ts'
import { endOf } from '../../crds/kubernetes.ts'
import { ANNOTATIONS } from '../../crds/names.ts'
import type { Stored } from '../hooks/collection/engine.ts'
import type { OwnerReference } from '../world/client.ts'

export const NAMESPACE = 'ns'

export interface Small extends AnyObject {
  spec?: unknown
  status?: unknown
  data?: Record<string, string>
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
}

/** What is in the engine of a cluster, and who keeps others from writing there. */
export interface SmallEngine {
  collections: Map<string, Stored>
  /** Collection by alias. */
  aliasTargets: Map<string, string>
  isReady: boolean
  holder?: string
}

export const START = Date.parse('2026-03-01T12:00:00Z')

export function keyOf({ kind, metadata }: Pick<AnyObject, 'kind' | 'metadata'>): string {
  return `${kind}/${metadata.name}`
}

/** A world with these objects in it, that everybody has seen. */
export function smallWorld(objects: object[]): SmallWorld {
  const engine = { collections: new Map(), aliasTargets: new Map(), isReady: true }
  const world: SmallWorld = {
    now: START,
    live: {},
    seen: {},
    made: 0,
    namespaceEnds: false,
    engine,
  }
  for (const object of objects) create(world, object as Small)
  world.seen = structuredClone(world.live)
  return world
}

/** As the API server makes it; false where something of that name is there. */
export function create(world: SmallWorld, object: Small, owner?: OwnerReference): boolean {
  const key = keyOf(object)
  if (key in world.live) return false
  world.made += 1
  world.live[key] = {
    ...object,
    metadata: {
      ...object.metadata,
      namespace: NAMESPACE,
      uid: object.metadata.uid ?? `uid-${world.made}`,
      resourceVersion: String(world.made),
      generation: 1,
      creationTimestamp: new Date(world.now).toISOString(),
      ...(owner !== undefined && { ownerReferences: [owner] }),
    },
  }
  return true
}

/** What belongs to an object goes with it. */
export function remove(world: SmallWorld, key: string): void {
  const { uid } = world.live[key]?.metadata ?? {}
  Reflect.deleteProperty(world.live, key)
  for (const [other, { metadata }] of Object.entries(world.live)) {
    if (metadata.ownerReferences?.some((owner) => owner.uid === uid) === true) remove(world, other)
  }
}

export function touch(world: SmallWorld, object: Small): void {
  world.made += 1
  object.metadata.resourceVersion = String(world.made)
}

export function objects<Kind extends Small>(from: Record<string, Small>, kind: string): Kind[] {
  return Object.values(from).filter((object) => object.kind === kind) as Kind[]
}

export function jobs(world: SmallWorld): Job[] {
  return objects<Small>(world.live, 'Job') as unknown as Job[]
}

export function unfinished(world: SmallWorld): Job[] {
  return jobs(world).filter((job) => endOf(job) === undefined)
}

/** The world without what makes two of the same kind differ: when it was, and what was counted. */
export function textOf({ now, live, seen, namespaceEnds, engine }: SmallWorld): string {
  const names = new Map<string, string>()
  const all = [live, seen].map((objects) => Object.values(objects).map(told))
  const { collections, aliasTargets, ...rest } = engine
  const inEngine = [[...collections].sort(), [...aliasTargets].sort(), rest]
  const text = JSON.stringify([all, namespaceEnds, inEngine], (key, value: unknown) =>
    typeof value === 'string' && TIME.test(value)
      ? ageOf(now - Date.parse(value), LIMITS[key] ?? USUAL)
      : value,
  )
  return text.replace(/uid-\d+/g, (uid) => {
    const name = names.get(uid) ?? `uid ${names.size}`
    names.set(uid, name)
    return name
  })
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/
/** Ages that decisions tell apart, in seconds, by the field they are taken from (crds/limits.ts). */
const LIMITS: Record<string, number[]> = {
  /** Of a Job that says nothing. */
  creationTimestamp: [600],
  /** Of a Job's end: its report may be late, its log is kept. */
  lastTransitionTime: [30, 86_400],
  /** Of a Lease: looked at once more, too short for a Job, over. */
  acquireTime: [15, 240, 300],
  /** Of a report: a failed helm run is tried again. */
  at: [30],
  startedAt: [],
  startTime: [],
  deletionTimestamp: [],
}
const USUAL = [30, 600, 86_400]

function ageOf(ms: number, limits: number[]): string {
  const seconds = ms / 1000
  const limit = limits.findIndex((one) => seconds < one)
  return `age ${seconds < 0 ? 'to come' : limit}`
}

/** An object without what no decision looks at. */
function told(object: Small): object {
  const { creationTimestamp, annotations = {}, ...metadata } = object.metadata
  const isJob = object.kind === 'Job'
  const progress = annotations[ANNOTATIONS.progress]
  return {
    ...object,
    metadata: { ...metadata, resourceVersion: '', ...(isJob && { creationTimestamp }) },
    annotations: {
      ...annotations,
      ...(progress !== undefined && { [ANNOTATIONS.progress]: JSON.parse(progress) as unknown }),
    },
    status: isJob ? object.status : timeless(object),
  }
}

/** Of a status it does not matter since when it is so; of a child it does when it ended. */
function timeless({ status, metadata }: Small): unknown {
  const {
    conditions = [],
    completionTime,
    ...rest
  } = (status ?? {}) as {
    conditions?: object[]
    completionTime?: string
  }
  const isChild = metadata.ownerReferences !== undefined
  return {
    ...rest,
    ...(isChild && { completionTime }),
    conditions: conditions.map((one) => ({ ...one, lastTransitionTime: '' })),
  }
}
