/** The life of one resource in a small world: what may happen to it, and what must hold all the time. */
import type { KindHooks } from '../../hooks/kind-hooks.ts'
import { isUnfinished } from '../../hooks/job.ts'
import { settings } from '../builders.ts'
import type { Model, Step } from './explore.ts'
import { hasTold, jobSteps, type Work } from './jobs.ts'
import { askOnly, carryOutKept, isShown, pass, type Passing } from './pass.ts'
import { beside, doubled, lost, phaseIn, revived } from './promises.ts'
import { beginEnd, copyOf, ownJobs, remove, type Small, type SmallWorld } from './small-world.ts'
import { striking } from './steps.ts'
import { isAlike, nextInstant, outcomeOf, textOf } from './told.ts'

export interface Life {
  start: SmallWorld
  /** `Kind/name`. */
  parent: string
  room: (world: SmallWorld) => KindHooks
  /** What its Jobs do; absent where it has none. */
  work?: Work
  /** Phases in which it has come to rest. */
  rest: readonly string[]
  /** Phases that it never leaves. */
  final?: readonly string[]
  inPlace?: readonly string[]
  /** What else can happen in a world. */
  more?: (world: SmallWorld) => Step<SmallWorld>[]
  /** What must hold for this kind alone. */
  wrong?: (before: SmallWorld, after: SmallWorld) => string[]
}

/** Passes after which nothing may change any more, when nothing happens. */
const ROUNDS = 8

export function lifeOf(life: Life): Model<SmallWorld> {
  const { parent, room, work, final = [] } = life
  const passing: Passing = { ...life, parent, room, settings }
  const rest = restIn(passing)
  return {
    start: { ...life.start, seen: allSeen(life.start, passing) },
    copy: copyOf,
    text: textOf,
    outcome: outcomeOf,
    steps: (world) => [
      ...passes(world, passing),
      ...seeing(world, passing),
      ...(work === undefined
        ? []
        : jobSteps(world, { parent, work, isAllSeen: isAllSeen(world, passing) })),
      ...time(world, passing),
      ...deletion(world, life),
      ...(life.more?.(world) ?? []),
    ],
    wrong: (before, after) => [
      ...doubled(after, parent),
      ...lost(before, after, parent),
      ...beside(before, after, parent),
      ...revived(before, after, { parent, final }),
      ...(life.wrong?.(before, after) ?? []),
    ],
    wrongIn: async (world) =>
      world.answered === undefined && isAllSeen(world, passing) && !(await rest(world))
        ? ['flaps: passes go on to change what nobody touches']
        : [],
    isGoal: (world) => isGoal(world, life),
  }
}

/** Of one resource Metacontroller has one pass at a time; one that it never finishes is lost. */
function passes(world: SmallWorld, passing: Passing): Step<SmallWorld>[] {
  if (world.answered !== undefined) {
    return [{ name: 'its answer is carried out', take: async (to) => carryOutKept(to, passing) }]
  }
  return [
    { name: 'pass', take: (to) => pass(to, passing) },
    ...striking(
      world,
      'lost answers',
      { name: 'pass without its answer', take: (to) => pass(to, passing, 'nothing') },
      { name: 'pass without its status', take: (to) => pass(to, passing, 'children') },
    ),
    ...striking(world, 'slow answers', {
      name: 'pass with a slow answer',
      take: (to) => askOnly(to, passing),
    }),
  ]
}

/** It is gone; or it has done what is asked of it now, and nothing is under way. */
function isGoal(world: SmallWorld, { parent, rest }: Life): boolean {
  const found = world.live[parent]
  if (world.answered !== undefined) return false
  if (found === undefined) return true
  if (found.metadata.deletionTimestamp !== undefined) return false
  const { conditions = [] } = (found.status ?? {}) as { conditions?: Condition[] }
  return (
    rest.includes(phaseIn(world, parent) ?? '') &&
    !ownJobs(world, parent).some(isUnfinished) &&
    conditions.every(
      ({ type, status, observedGeneration }) =>
        observedGeneration === found.metadata['generation'] &&
        (type !== 'Applied' || status === 'True'),
    )
  )
}

interface Condition {
  type: string
  status: string
  observedGeneration?: number
}

/** Time goes on until it makes a difference; caches seldom lag for so long. */
function time(world: SmallWorld, passing: Passing): Step<SmallWorld>[] {
  const next = nextInstant(world)
  if (next === undefined) return []
  const step = {
    name: 'time goes on',
    take: async (to: SmallWorld) => void (to.now = next + 1000),
  }
  if (!isAllSeen(world, passing)) {
    return striking(world, 'lags', { ...step, name: 'time goes on unseen' })
  }
  if (
    ownJobs(world, passing.parent).some(
      (job) => isUnfinished(job) && !hasTold(world, passing.parent, job),
    )
  ) {
    return striking(world, 'silences', { ...step, name: 'time goes on in silence' })
  }
  return 'time' in world.left ? striking(world, 'time', step) : [step]
}

/** A person deletes it; Metacontroller's finalizer holds it until its hook says otherwise. */
function deletion(world: SmallWorld, { parent, room }: Life): Step<SmallWorld>[] {
  if (world.live[parent]?.metadata.deletionTimestamp !== undefined) return []
  if (world.live[parent] === undefined) return []
  const isHeld = room(world).finalize !== undefined
  const take = async (to: SmallWorld) => (isHeld ? beginEnd(to, parent) : remove(to, parent))
  return striking(world, 'deletions', { name: 'is deleted', take })
}

/** The caches of Metacontroller hear of what happened: one of the resource, one of all others. */
function seeing(world: SmallWorld, passing: Passing): Step<SmallWorld>[] {
  const step = (name: string, isSeen: (key: string) => boolean) => {
    const seen = seenOf(world, passing, isSeen)
    return isSame(seen, world.seen, isAlike)
      ? []
      : [{ name, take: async (to: SmallWorld) => void (to.seen = seen) }]
  }
  return [
    ...step('the resource is seen', (key) => key === passing.parent),
    ...step('the others are seen', (key) => key !== passing.parent),
  ]
}

function seenOf(
  world: SmallWorld,
  passing: Passing,
  isSeen: (key: string) => boolean,
): SmallWorld['seen'] {
  const kept = Object.entries(world.seen).filter(([key]) => !isSeen(key))
  const heard = Object.entries(world.live).filter(
    ([key, object]) => isSeen(key) && isShown(object, key, world, passing),
  )
  return Object.fromEntries([...kept, ...heard])
}

function isAllSeen(world: SmallWorld, passing: Passing): boolean {
  return isSame(allSeen(world, passing), world.seen, isAlike)
}

function allSeen(world: SmallWorld, passing: Passing): SmallWorld['seen'] {
  return seenOf(world, passing, () => true)
}

/** An object that was changed is another object. */
function isSame(
  one: Record<string, Small>,
  other: Record<string, Small>,
  isEqual = (before: Small, after: Small) => before === after,
): boolean {
  const entries = Object.entries(one)
  return (
    entries.length === Object.keys(other).length &&
    entries.every(([key, object]) => {
      const same = other[key]
      return same !== undefined && isEqual(object, same)
    })
  )
}

/** Whether passes soon change nothing any more, when nothing else happens. It leaves no trace. */
function restIn(passing: Passing): (world: SmallWorld) => Promise<boolean> {
  const known = new Set<string>()
  return async (world) => {
    const way: string[] = []
    let from = copyOf(world)
    from.seen = allSeen(world, passing)
    for (let text = textOf(from); !known.has(text); text = textOf(from)) {
      if (way.length === ROUNDS) return false
      way.push(text)
      const to = copyOf(from)
      await pass(to, passing)
      to.seen = allSeen(to, passing)
      if (isSame(to.live, from.live)) break
      from = to
    }
    for (const text of way) known.add(text)
    return true
  }
}
