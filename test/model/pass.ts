/** One pass of Metacontroller in a small world: by the real hooks and their guard, on what it has seen. */
import type { Child, HookAnswer, Settings } from '../../hooks/protocol.ts'
import { guardOf, GuardRefusal, type Guard } from '../../hooks/guard.ts'
import type { Room } from '../../hooks/room.ts'
import { grouped } from '../hooks/request.ts'
import { PLURALS_OF } from './kinds.ts'
import { Wrong } from './explore.ts'
import { create, keyOf, remove, touch, type Small, type SmallWorld } from './small-world.ts'

export const FINALIZER = 'metacontroller.io/test'

export interface Passing {
  /** `Kind/name` of the parent. */
  parent: string
  /** The service, just started: it remembers nothing of earlier passes. */
  room: (world: SmallWorld) => Room
  settings: Settings
  /** Kinds of children that are changed where they are; others stay as they were made. */
  inPlace?: readonly string[]
}

export async function pass(world: SmallWorld, passing: Passing): Promise<void> {
  const parent = world.seen[passing.parent]
  if (parent === undefined) return
  const room = passing.room(world)
  const children = childrenIn(world, parent)
  const answer = await decide(world, { ...passing, parent, room, children })
  apply(world, parent, { answer, children, inPlace: passing.inPlace ?? [] })
}

/** It has no memory, and is dear to make. */
const guards = new Map<string, Guard>()

function guardFor(room: Room): Guard {
  const found = guards.get(room.kind) ?? guardOf(room)
  guards.set(room.kind, found)
  return found
}

interface Deciding extends Omit<Passing, 'parent' | 'room'> {
  parent: Small
  room: Room
  children: Small[]
}

async function decide(world: SmallWorld, deciding: Deciding): Promise<HookAnswer> {
  const { parent, room, children, settings } = deciding
  const finalizing = parent.metadata.deletionTimestamp !== undefined
  const hook = finalizing && room.finalize !== undefined ? 'finalize' : 'sync'
  const request = {
    parent: structuredClone(parent),
    children: grouped(children),
    related: finalizing ? {} : grouped(relatedTo(world, room, parent)),
    finalizing,
  }
  const call = hook === 'finalize' ? room.finalize : room.sync
  const desired = await call?.(request, { now: new Date(world.now), settings })
  if (desired === undefined) throw new Error(`no ${hook} hook`)
  try {
    return guardFor(room)(request, desired, hook)
  } catch (error) {
    if (error instanceof GuardRefusal) throw new Wrong(error.message)
    throw error
  }
}

function apply(
  world: SmallWorld,
  parent: Small,
  {
    answer,
    children,
    inPlace,
  }: { answer: HookAnswer; children: Small[]; inPlace: readonly string[] },
): void {
  const { uid = '' } = parent.metadata
  const live = world.live[keyOf(parent)]
  const wanted = new Map(answer.children.map((child) => [keyOf(child as Small), child]))
  for (const child of children) {
    const key = keyOf(child)
    if (!wanted.has(key) && world.live[key]?.metadata.uid === child.metadata.uid) remove(world, key)
  }
  for (const [key, child] of wanted) {
    const observed = children.find((one) => keyOf(one) === key)
    if (observed === undefined) make(world, child, parent)
    else if (inPlace.includes(child.kind)) change(world, key, child)
  }
  if (live?.metadata.uid !== uid) return
  if (answer.finalized === true) remove(world, keyOf(parent))
  else live.status = structuredClone(answer.status)
}

function make(world: SmallWorld, child: Child, parent: Small): void {
  const { apiVersion, kind, metadata } = parent
  const { name, uid = '' } = metadata
  // Under Kubernetes a child of a parent that is gone is collected at once.
  if (world.live[keyOf(parent)]?.metadata.uid !== uid) return
  create(world, structuredClone(child), { apiVersion, kind, name, uid, controller: true })
}

function change(world: SmallWorld, key: string, child: Child): void {
  const found = world.live[key]
  if (found === undefined) return
  const { metadata, ...rest } = structuredClone(child) as Small
  const merged = { ...found.metadata.annotations, ...metadata.annotations }
  Object.assign(found, rest)
  found.metadata.annotations = merged
  touch(world, found)
}

function childrenIn({ seen }: SmallWorld, parent: Small): Small[] {
  const { uid } = parent.metadata
  return Object.values(seen)
    .filter(({ metadata }) => metadata.ownerReferences?.some((owner) => owner.uid === uid))
    .filter(({ kind }) => kind !== 'Lease')
    .map((child) => structuredClone(child))
}

function relatedTo({ seen }: SmallWorld, room: Room, parent: Small): Small[] {
  return room.customize(parent).flatMap(({ resource, names }) =>
    names.flatMap((name) => {
      const found = seen[`${PLURALS_OF[resource] ?? ''}/${name}`]
      return found === undefined ? [] : [structuredClone(found)]
    }),
  )
}
