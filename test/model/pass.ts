/** One pass of Metacontroller in a small world: calls the real hooks and their guard with the cached objects. */
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
  /** The hooks of a service that has just started and has no memory of earlier passes. */
  hooks: (world: SmallWorld) => KindHooks
  settings: Settings
  /** Kinds of children that Metacontroller updates; other children are only created and deleted. */
  updatedKinds?: readonly string[]
}

/** Related kinds by the plural that a customize hook returns. */
const KIND_OF: Record<string, string> = {
  vecclusters: 'VecCluster',
  vecbackups: 'VecBackup',
  statefulsets: 'StatefulSet',
}

/** How much of an answer is carried out. The writes of the service itself are always done. */
export type Heard = 'all' | 'children' | 'nothing'

export async function pass(
  world: SmallWorld,
  passing: Passing,
  heard: Heard = 'all',
): Promise<void> {
  const asked = await ask(world, passing)
  if (asked === undefined || heard === 'nothing') return
  const { parent, answer } = asked
  carryOut(world, parent, { ...asked, updatedKinds: passing.updatedKinds ?? [] })
  if (heard === 'all') conclude(world, parent, answer)
}

/** Calls the hook, which does its own writes, and stores its answer for later. */
export async function askOnly(world: SmallWorld, passing: Passing): Promise<void> {
  const asked = await ask(world, passing)
  if (asked !== undefined) world.answered = asked
}

/** Carries out the stored answer, whatever has happened since. */
export function carryOutPending(world: SmallWorld, { updatedKinds = [] }: Passing): void {
  const { answered } = world
  if (answered === undefined) return
  delete world.answered
  carryOut(world, answered.parent, { ...answered, updatedKinds })
  conclude(world, answered.parent, answered.answer)
}

async function ask(world: SmallWorld, passing: Passing): Promise<Answering | undefined> {
  const parent = world.seen[passing.parent]
  if (parent === undefined) return undefined
  const hooks = passing.hooks(world)
  const children = childrenIn(world.seen, parent)
  const answer = await decide(world, { ...passing, parent, hooks, children })
  return { parent, children, answer }
}

/** Guards are stateless and expensive to create. */
const guards = new Map<string, AnswerValidator>()

function guardFor(hooks: KindHooks): AnswerValidator {
  const found = guards.get(hooks.kind) ?? answerValidator(hooks)
  guards.set(hooks.kind, found)
  return found
}

interface Deciding extends Omit<Passing, 'parent' | 'hooks'> {
  parent: Small
  hooks: KindHooks
  children: Small[]
}

async function decide(world: SmallWorld, deciding: Deciding): Promise<HookAnswer> {
  const { parent, hooks, children, settings } = deciding
  const finalizing = parent.metadata.deletionTimestamp !== undefined
  const hook = finalizing && hooks.finalize !== undefined ? 'finalize' : 'sync'
  const request = {
    parent,
    children: groupObjects(children),
    related: finalizing ? {} : groupObjects(relatedTo(world.seen, hooks, parent)),
    finalizing,
  }
  const call = hook === 'finalize' ? hooks.finalize : hooks.sync
  const desired = await call?.(request, { now: new Date(world.now), settings })
  if (desired === undefined) throw new Error(`no ${hook} hook`)
  try {
    return guardFor(hooks)(request, desired, hook)
  } catch (error) {
    if (error instanceof InvalidAnswer) throw new Wrong(error.message)
    throw error
  }
}

interface Answered {
  answer: HookAnswer
  children: Small[]
  updatedKinds: readonly string[]
}

function carryOut(
  world: SmallWorld,
  parent: Small,
  { answer, children, updatedKinds }: Answered,
): void {
  const desired = new Map(answer.children.map((child) => [keyOf(child as Small), child]))
  for (const child of children) {
    const key = keyOf(child)
    const isThere = world.live[key]?.metadata.uid === child.metadata.uid
    if (desired.has(key) || !isThere) continue
    // The finalizer keeps the object.
    if (child.kind === VecBackup.kind) beginEnd(world, key)
    else remove(world, key)
  }
  for (const [key, child] of desired) {
    const observed = children.find((one) => keyOf(one) === key)
    if (observed === undefined) make(world, child, parent)
    else if (updatedKinds.includes(child.kind)) change(world, observed, child)
  }
}

/** Writes the status last, or removes the finalizer. */
function conclude(world: SmallWorld, parent: Small, { status, finalized }: HookAnswer): void {
  const key = keyOf(parent)
  const live = world.live[key]
  if (live === undefined || live.metadata.uid !== parent.metadata.uid) return
  if (finalized === true) {
    const [job] = ownJobs(world, key).filter(isUnfinished)
    if (job !== undefined && !world.namespaceEnds)
      throw new Wrong(`${job.metadata.name} outlives its parent`)
    remove(world, key)
  } else if (!isDeepStrictEqual(live.status, status))
    edit(world, key, (found) => ({ ...found, status }))
}

function make(world: SmallWorld, child: Child, parent: Small): void {
  const { apiVersion, kind, metadata } = parent
  const { name, uid = '' } = metadata
  // Kubernetes garbage-collects a child of a parent that is gone.
  if (world.live[keyOf(parent)]?.metadata.uid !== uid) return
  if (world.namespaceEnds) return
  create(world, child, { apiVersion, kind, name, uid, controller: true })
}

/** Writes only differences. An object that was changed since it was cached is a conflict and stays as it is. */
function change(world: SmallWorld, found: Small, child: Child): void {
  const key = keyOf(found)
  if (world.live[key] !== found) return
  const { metadata, ...rest } = child as Small
  const annotations = { ...found.metadata.annotations, ...metadata.annotations }
  const desired = { ...found, ...rest, metadata: { ...found.metadata, annotations } }
  if (!isDeepStrictEqual(desired, found)) edit(world, key, () => desired)
}

/** Whether the caches of Metacontroller have an object for a parent: itself, a child or a related object. */
export function isCached(object: Small, key: string, world: SmallWorld, passing: Passing): boolean {
  const parent = world.live[passing.parent] ?? world.seen[passing.parent]
  if (parent === undefined || key === passing.parent) return true
  return isChild(object, parent) || namesOf(passing.hooks(world), parent).includes(key)
}

function isChild({ kind, metadata }: Small, parent: Small): boolean {
  const { uid } = parent.metadata
  return kind !== 'Lease' && metadata.ownerReferences?.some((owner) => owner.uid === uid) === true
}

function childrenIn(seen: SmallWorld['seen'], parent: Small): Small[] {
  return Object.values(seen).filter((object) => isChild(object, parent))
}

function relatedTo(seen: SmallWorld['seen'], hooks: KindHooks, parent: Small): Small[] {
  return namesOf(hooks, parent).flatMap((key) => seen[key] ?? [])
}

function namesOf(hooks: KindHooks, parent: Small): string[] {
  return hooks
    .customize(parent)
    .flatMap(({ resource, names }) => names.map((name) => `${KIND_OF[resource] ?? ''}/${name}`))
}
