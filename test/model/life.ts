/** The life of one resource in a small world: what may happen to it, and what must always hold. */
import type { KindHooks } from '../../hooks/protocol.ts'
import { isUnfinished } from '../../hooks/request.ts'
import { settings } from '../builders.ts'
import type { Model, Step } from './explore.ts'
import { hasReported, jobSteps, type Work } from './jobs.ts'
import {
  askOnly,
  cachedKeys,
  carryOutPending,
  continueSlow,
  pass,
  passUntil,
  type Passing,
} from './pass.ts'
import { beside, doubled, lost, outlived, phaseIn, revived } from './promises.ts'
import { copyOf, ownJobs, requestDeletion, type Small, type SmallWorld } from './small-world.ts'
import { striking } from './steps.ts'
import { isAlike, nextInstant, outcomeOf, textOf } from './state-text.ts'

export interface Life {
  start: SmallWorld
  /** `Kind/name`. */
  parent: string
  hooks: (world: SmallWorld) => KindHooks
  /** What its Jobs do; absent if it has none. */
  work?: Work
  /** Phases in which its work is done. */
  rest: readonly string[]
  /** Phases that it never leaves. */
  final?: readonly string[]
  /** Further steps that are possible in a world. */
  more?: (world: SmallWorld) => Step<SmallWorld>[]
  /** Promises of this kind that a step broke. */
  wrong?: (before: SmallWorld, after: SmallWorld) => string[]
}

/** After this many passes without another event, a further pass must not change anything. */
const ROUNDS = 8

export function lifeOf(life: Life): Model<SmallWorld> {
  const { parent, hooks, work, final = [] } = life
  const passing: Passing = { ...life, parent, hooks, settings }
  const rest = restIn(passing)
  return {
    start: { ...life.start, seen: allSeen(life.start, passing) },
    copy: copyOf,
    text: textOf,
    outcome: outcomeOf,
    steps: (world) =>
      whileSlow(world, passing, () => [
        ...passes(world, passing),
        ...seeing(world, passing),
        ...(work === undefined
          ? []
          : jobSteps(world, { parent, work, isAllSeen: isAllSeen(world, passing) })),
        ...time(world, passing),
        ...deletion(world, life),
        ...(life.more?.(world) ?? []),
      ]),
    wrong: (before, after) => [
      ...doubled(after, parent),
      ...outlived(before, after, parent),
      ...lost(before, after, parent),
      ...beside(before, after, parent),
      ...revived(before, after, { parent, final }),
      ...(life.wrong?.(before, after) ?? []),
    ],
    wrongIn: async (world) =>
      world.answered === undefined &&
      world.slow === undefined &&
      isAllSeen(world, passing) &&
      !(await rest(world))
        ? ['flaps: passes keep changing objects although nothing else happens']
        : [],
    isGoal: (world) => isGoal(world, life),
  }
}

/** Metacontroller runs one pass of a resource at a time. A pass that it does not finish is lost. */
function passes(world: SmallWorld, passing: Passing): Step<SmallWorld>[] {
  if (world.answered !== undefined) {
    return [{ name: 'its answer is carried out', take: async (to) => carryOutPending(to, passing) }]
  }
  // It waits for the answer of the slow service.
  if (world.slow?.isGivenUp === false) return []
  return [
    { name: 'pass', take: (to) => pass(to, passing) },
    ...stops(world, passing),
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

/** A service stops before one of its writes. If it does fewer writes, this is a pass as any other. */
function stops({ left, slow }: SmallWorld, passing: Passing): Step<SmallWorld>[] {
  if ((left['slow services'] ?? 0) === 0 || slow !== undefined) return []
  return WRITES.map((write) => ({
    name: `a service stops before write ${write} of a pass`,
    isStrike: true,
    async take(to) {
      const isStopped = await passUntil(to, passing, write)
      if (isStopped) to.left['slow services'] = (to.left['slow services'] ?? 0) - 1
    },
  }))
}

/** Writes before which a service stops; few decisions have more. */
const WRITES = [0, 1, 2]
/** After this many other steps, a stopped service continues. */
const MOST_BETWEEN = 3

/**
 * While a service is stopped, Metacontroller waits for its answer, or has given up and calls the other service.
 * The stopped one continues at any time.
 */
function whileSlow(
  world: SmallWorld,
  passing: Passing,
  others: () => Step<SmallWorld>[],
): Step<SmallWorld>[] {
  const { slow } = world
  if (slow === undefined) return others()
  const continues = {
    name: slow.isGivenUp ? 'the service continues, too late' : 'the service continues',
    take: (to: SmallWorld) => continueSlow(to, passing),
  }
  const givesUp = {
    name: 'Metacontroller gives up on the service',
    take: async ({ slow: one }: SmallWorld) => void (one && (one.isGivenUp = true)),
  }
  const rest = slow.steps < MOST_BETWEEN ? others() : []
  const counted = rest.map((step) => ({
    ...step,
    async take(to: SmallWorld) {
      await step.take(to)
      if (to.slow !== undefined) to.slow.steps += 1
    },
  }))
  return [continues, ...(slow.isGivenUp ? [] : [givesUp]), ...counted]
}

/** The resource is gone, or it has done what its current spec requests and no Job is unfinished. */
function isGoal(world: SmallWorld, { parent, rest }: Life): boolean {
  const found = world.live[parent]
  if (world.answered !== undefined || world.slow !== undefined) return false
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

/** Time advances to the next instant that matters to a decision. It is a strike while a cache lags: few lag so long. */
function time(world: SmallWorld, passing: Passing): Step<SmallWorld>[] {
  const next = nextInstant(world)
  // Metacontroller waits ten seconds for an answer, less than any of these ages.
  if (next === undefined || world.slow?.isGivenUp === false) return []
  const step = {
    name: 'time passes',
    take: async (to: SmallWorld) => void (to.now = next + 1000),
  }
  if (!isAllSeen(world, passing)) {
    return striking(world, 'lags', { ...step, name: 'time passes while a cache lags' })
  }
  if (
    ownJobs(world, passing.parent).some(
      (job) => isUnfinished(job) && !hasReported(world, passing.parent, job),
    )
  ) {
    return striking(world, 'silences', { ...step, name: 'time passes without a report' })
  }
  return 'time' in world.left ? striking(world, 'time', step) : [step]
}

/** A user deletes the resource; the finalizer of Metacontroller keeps it until the finalize hook is done. */
function deletion(world: SmallWorld, { parent }: Life): Step<SmallWorld>[] {
  if (world.live[parent]?.metadata.deletionTimestamp !== undefined) return []
  if (world.live[parent] === undefined) return []
  const take = async (to: SmallWorld) => requestDeletion(to, parent)
  return striking(world, 'deletions', { name: 'is deleted', take })
}

/** The caches of Metacontroller catch up: one has the resource, one all other objects. */
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
  const isCached = cachedKeys(world, passing)
  const unchanged = Object.entries(world.seen).filter(([key]) => !isSeen(key))
  const updated = Object.entries(world.live).filter(
    ([key, object]) => isSeen(key) && isCached(object, key),
  )
  return Object.fromEntries([...unchanged, ...updated])
}

function isAllSeen(world: SmallWorld, passing: Passing): boolean {
  return isSame(allSeen(world, passing), world.seen, isAlike)
}

function allSeen(world: SmallWorld, passing: Passing): SmallWorld['seen'] {
  return seenOf(world, passing, () => true)
}

/** By default objects are compared by identity: a changed object is another one. */
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

/** Whether passes soon stop changing anything, if nothing else happens. It works on copies of the world. */
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
