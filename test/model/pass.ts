/** One pass of Metacontroller in a small world: by the real hooks and their guard, on what it has seen. */
import { isDeepStrictEqual } from 'node:util'
import { VecBackup } from '../../crds/backup.ts'
import { isUnfinished } from '../../hooks/job.ts'
import type { Child, HookAnswer, Settings } from '../../hooks/protocol.ts'
import {
  answerValidator,
  InvalidAnswer,
  type AnswerValidator,
} from '../../hooks/answer-validation.ts'
import type { KindHooks } from '../../hooks/kind-hooks.ts'
import { groupObjects } from '../hooks/request.ts'
import { Wrong } from './explore.ts'
import {
  beginEnd,
  create,
  edit,
  keyOf,
  ownJobs,
  remove,
  type Answering,
  type Small,
  type SmallWorld,
} from './small-world.ts'

export interface Passing {
  /** `Kind/name` of the parent. */
  parent: string
  /** The service, just started: it remembers nothing of earlier passes. */
  room: (world: SmallWorld) => KindHooks
  settings: Settings
  /** Kinds of children that are changed where they are; others stay as they were made. */
  inPlace?: readonly string[]
}

/** Related kinds by the plural a customize hook names. */
const KIND_OF: Record<string, string> = {
  vecclusters: 'VecCluster',
  vecbackups: 'VecBackup',
  statefulsets: 'StatefulSet',
}

/** How much of an answer is carried out: what the service itself wrote is written in any case. */
export type Heard = 'all' | 'children' | 'nothing'

export async function pass(
  world: SmallWorld,
  passing: Passing,
  heard: Heard = 'all',
): Promise<void> {
  const asked = await ask(world, passing)
  if (asked === undefined || heard === 'nothing') return
  const { parent, answer } = asked
  carryOut(world, parent, { ...asked, inPlace: passing.inPlace ?? [] })
  if (heard === 'all') conclude(world, parent, answer)
}

/** Asks the hook and keeps its answer: what the service itself writes is written, and the rest comes later. */
export async function askOnly(world: SmallWorld, passing: Passing): Promise<void> {
  const asked = await ask(world, passing)
  if (asked !== undefined) world.answered = asked
}

/** Carries out the answer that was kept, whatever has happened since. */
export function carryOutKept(world: SmallWorld, { inPlace = [] }: Passing): void {
  const { answered } = world
  if (answered === undefined) return
  delete world.answered
  carryOut(world, answered.parent, { ...answered, inPlace })
  conclude(world, answered.parent, answered.answer)
}

async function ask(world: SmallWorld, passing: Passing): Promise<Answering | undefined> {
  const parent = world.seen[passing.parent]
  if (parent === undefined) return undefined
  const room = passing.room(world)
  const children = childrenIn(world.seen, parent)
  const answer = await decide(world, { ...passing, parent, room, children })
  return { parent, children, answer }
}

/** It has no memory, and is dear to make. */
const guards = new Map<string, AnswerValidator>()

function guardFor(room: KindHooks): AnswerValidator {
  const found = guards.get(room.kind) ?? answerValidator(room)
  guards.set(room.kind, found)
  return found
}

interface Deciding extends Omit<Passing, 'parent' | 'room'> {
  parent: Small
  room: KindHooks
  children: Small[]
}

async function decide(world: SmallWorld, deciding: Deciding): Promise<HookAnswer> {
  const { parent, room, children, settings } = deciding
  const finalizing = parent.metadata.deletionTimestamp !== undefined
  const hook = finalizing && room.finalize !== undefined ? 'finalize' : 'sync'
  const request = {
    parent,
    children: groupObjects(children),
    related: finalizing ? {} : groupObjects(relatedTo(world.seen, room, parent)),
    finalizing,
  }
  const call = hook === 'finalize' ? room.finalize : room.sync
  const desired = await call?.(request, { now: new Date(world.now), settings })
  if (desired === undefined) throw new Error(`no ${hook} hook`)
  try {
    return guardFor(room)(request, desired, hook)
  } catch (error) {
    if (error instanceof InvalidAnswer) throw new Wrong(error.message)
    throw error
  }
}

interface Answered {
  answer: HookAnswer
  children: Small[]
  inPlace: readonly string[]
}

function carryOut(world: SmallWorld, parent: Small, { answer, children, inPlace }: Answered): void {
  const wanted = new Map(answer.children.map((child) => [keyOf(child as Small), child]))
  for (const child of children) {
    const key = keyOf(child)
    const isThere = world.live[key]?.metadata.uid === child.metadata.uid
    if (wanted.has(key) || !isThere) continue
    // Its finalizer holds it.
    if (child.kind === VecBackup.kind) beginEnd(world, key)
    else remove(world, key)
  }
  for (const [key, child] of wanted) {
    const observed = children.find((one) => keyOf(one) === key)
    if (observed === undefined) make(world, child, parent)
    else if (inPlace.includes(child.kind)) change(world, observed, child)
  }
}

/** The status is written last, and finalizers go. */
function conclude(world: SmallWorld, parent: Small, { status, finalized }: HookAnswer): void {
  const key = keyOf(parent)
  const live = world.live[key]
  if (live === undefined || live.metadata.uid !== parent.metadata.uid) return
  if (finalized === true) {
    const [job] = ownJobs(world, key).filter(isUnfinished)
    if (job !== undefined && !world.namespaceEnds)
      throw new Wrong(`${job.metadata.name} outlives it`)
    remove(world, key)
  } else if (!isDeepStrictEqual(live.status, status))
    edit(world, key, (found) => ({ ...found, status }))
}

function make(world: SmallWorld, child: Child, parent: Small): void {
  const { apiVersion, kind, metadata } = parent
  const { name, uid = '' } = metadata
  // Under Kubernetes a child of a parent that is gone is collected at once.
  if (world.live[keyOf(parent)]?.metadata.uid !== uid) return
  if (world.namespaceEnds) return
  create(world, child, { apiVersion, kind, name, uid, controller: true })
}

/** What is as it should be is not written, and what was changed since it was seen is a conflict. */
function change(world: SmallWorld, found: Small, child: Child): void {
  const key = keyOf(found)
  if (world.live[key] !== found) return
  const { metadata, ...rest } = child as Small
  const annotations = { ...found.metadata.annotations, ...metadata.annotations }
  const wanted = { ...found, ...rest, metadata: { ...found.metadata, annotations } }
  if (!isDeepStrictEqual(wanted, found)) edit(world, key, () => wanted)
}

/** What Metacontroller's caches hold for a parent: itself, its children, and what it asks to be shown. */
export function isShown(object: Small, key: string, world: SmallWorld, passing: Passing): boolean {
  const parent = world.live[passing.parent] ?? world.seen[passing.parent]
  if (parent === undefined || key === passing.parent) return true
  return isChild(object, parent) || namesOf(passing.room(world), parent).includes(key)
}

function isChild({ kind, metadata }: Small, parent: Small): boolean {
  const { uid } = parent.metadata
  return kind !== 'Lease' && metadata.ownerReferences?.some((owner) => owner.uid === uid) === true
}

function childrenIn(seen: SmallWorld['seen'], parent: Small): Small[] {
  return Object.values(seen).filter((object) => isChild(object, parent))
}

function relatedTo(seen: SmallWorld['seen'], room: KindHooks, parent: Small): Small[] {
  return namesOf(room, parent).flatMap((key) => seen[key] ?? [])
}

function namesOf(room: KindHooks, parent: Small): string[] {
  return room
    .customize(parent)
    .flatMap(({ resource, names }) => names.map((name) => `${KIND_OF[resource] ?? ''}/${name}`))
}
