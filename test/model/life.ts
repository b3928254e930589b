/** The life of one resource in a small world: what may happen to it, and what must hold all the time. */
import { isDeepStrictEqual } from 'node:util'
import type { Job } from '../../crds/kubernetes.ts'
import { runOf } from '../../hooks/job.ts'
import type { Room } from '../../hooks/room.ts'
import { settings } from '../builders.ts'
import { Wrong, type Model, type Step } from './explore.ts'
import { jobSteps, type Work } from './jobs.ts'
import { pass, type Passing } from './pass.ts'
import { jobs, remove, textOf, touch, unfinished, type SmallWorld } from './small-world.ts'

export interface Life {
  start: SmallWorld
  /** `Kind/name`. */
  parent: string
  room: (world: SmallWorld) => Room
  /** What its Jobs do; absent where it has none. */
  work?: Work
  /** Phases in which it has come to rest. */
  rest: readonly string[]
  /** Phases that it never leaves. */
  final?: readonly string[]
  inPlace?: readonly string[]
  /** What it does depends on the time alone. */
  isTimed?: boolean
  /** So many objects are made at most: where life never ends. */
  most?: number
  /** What else can happen in a world. */
  more?: (world: SmallWorld) => Step<SmallWorld>[]
}

/** The life of the first Job is looked at; that of the next only until it is there. */
const MOST_RUNS = 1
/** Passes after which nothing may change any more, when nothing happens. */
const ROUNDS = 8
const DAY_SECONDS = 86_401

export function lifeOf(life: Life): Model<SmallWorld> {
  const { parent, room, work, final = [], rest } = life
  const passing: Passing = { ...life, parent, room, settings }
  return {
    start: life.start,
    text: textOf,
    steps: (world) => [
      { name: 'pass', take: (to) => pass(to, passing) },
      ...(isAllSeen(world)
        ? [{ name: 'comes to rest', take: (to: SmallWorld) => atRest(to, passing) }]
        : []),
      { name: 'the resource is seen', take: async (to) => see(to, (key) => key === parent) },
      { name: 'the others are seen', take: async (to) => see(to, (key) => key !== parent) },
      ...(work === undefined ? [] : jobSteps(world, parent, work)),
      ...times(world, life),
      ...deletion(world, life),
      ...(life.more?.(world) ?? []),
    ],
    wrong: (before, after) => [
      ...doubled(after),
      ...lost(before, after, parent),
      ...revived(before, after, { parent, final }),
    ],
    isGoal: (world) =>
      world.live[parent] === undefined ||
      (rest.includes(phaseIn(world, parent) ?? '') && unfinished(world).length === 0),
    isBeyond: (world) =>
      jobs(world).some((job) => runOf(job) > MOST_RUNS) || world.made > (life.most ?? Infinity),
  }
}

export function phaseIn({ live }: SmallWorld, key: string): string | undefined {
  return (live[key]?.status as { phase?: string } | undefined)?.phase
}

function times(
  world: SmallWorld,
  { parent, final = [], isTimed = false }: Life,
): Step<SmallWorld>[] {
  const later = (name: string, seconds: number) => ({
    name,
    take: async (to: SmallWorld) => void (to.now += seconds * 1000),
  })
  const isOver = final.includes(phaseIn(world, parent) ?? '')
  const kinds = new Set(Object.values(world.live).map(({ kind }) => kind))
  // Where nobody waits for it, time changes nothing.
  return [
    ...(kinds.has('Lease') || kinds.has('Job') || isTimed ? [later('half a minute', 31)] : []),
    ...(unfinished(world).length > 0 || isTimed ? [later('eleven minutes', 661)] : []),
    ...(isOver && kinds.has('Job') ? [later('a day', DAY_SECONDS)] : []),
  ]
}

/** A person deletes it; Metacontroller's finalizer holds it until its hook says otherwise. */
function deletion(world: SmallWorld, { parent, room }: Life): Step<SmallWorld>[] {
  const { live } = world
  if (live[parent] === undefined || live[parent].metadata.deletionTimestamp !== undefined) return []
  const isHeld = room(world).finalize !== undefined
  const take = async (to: SmallWorld) => {
    const found = to.live[parent]
    if (found === undefined || !isHeld) {
      remove(to, parent)
      return
    }
    found.metadata.deletionTimestamp = new Date(to.now).toISOString()
    touch(to, found)
  }
  return [{ name: 'is deleted', take }]
}

/** The caches of Metacontroller hear of what happened. */
function see(world: SmallWorld, isSeen: (key: string) => boolean): void {
  const kept = Object.entries(world.seen).filter(([key]) => !isSeen(key))
  const heard = Object.entries(world.live).filter(([key]) => isSeen(key))
  world.seen = structuredClone(Object.fromEntries([...kept, ...heard].sort(byKey)))
}

function byKey([one]: [string, unknown], [other]: [string, unknown]): number {
  return one < other ? -1 : 1
}

/** When nothing happens, passes soon change nothing any more. It leaves no trace. */
async function atRest(world: SmallWorld, passing: Passing): Promise<void> {
  const copy = structuredClone(world)
  for (let round = 0; round < ROUNDS; round += 1) {
    const before = textOf(copy)
    await pass(copy, passing)
    see(copy, () => true)
    if (textOf(copy) === before) return
  }
  throw new Wrong('flaps: passes go on to change what nobody touches')
}

function isAllSeen({ live, seen }: SmallWorld): boolean {
  return isDeepStrictEqual(live, seen)
}

function doubled(world: SmallWorld): string[] {
  const names = unfinished(world).map(({ metadata }) => metadata.name)
  return names.length > 1 ? [`two Jobs at once: ${names.join(', ')}`] : []
}

/** A Job at work goes only when it was told to, or with its parent. */
function lost(before: SmallWorld, after: SmallWorld, parent: string): string[] {
  if (after.live[parent] === undefined) return []
  const isThere = ({ metadata }: Job) =>
    after.live[`Job/${metadata.name}`]?.metadata.uid === metadata.uid
  return unfinished(before)
    .filter((job) => job.metadata.deletionTimestamp === undefined && !isThere(job))
    .map(({ metadata }) => `${metadata.name} is lost`)
}

function revived(
  before: SmallWorld,
  after: SmallWorld,
  { parent, final }: { parent: string; final: readonly string[] },
): string[] {
  const phase = phaseIn(before, parent) ?? ''
  if (!final.includes(phase) || after.live[parent] === undefined) return []
  const made = jobs(after).filter(({ metadata }) => !(`Job/${metadata.name}` in before.live))
  const now = phaseIn(after, parent) ?? ''
  return [
    ...made.map(({ metadata }) => `${metadata.name} is made after the end`),
    ...(now === phase ? [] : [`was ${phase}, is ${now}`]),
  ]
}
