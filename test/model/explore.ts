/**
 * Explores every state a small world can come to, breadth first: what may happen in a state is asked,
 * each of it is done to a copy, and what was seen before is not looked at again.
 */
import { hash } from 'node:crypto'

export interface Step<World> {
  name: string
  /** Does it to a world of its own; throws a `Wrong` where a promise is broken. */
  take(world: World): Promise<void>
}

export interface Model<World> {
  start: World
  /** What may happen. */
  steps(world: World): Step<World>[]
  /** States of the same text are one. */
  text(world: World): string
  /** What must hold in every state: what does not, in words. */
  wrong(before: World, after: World): string[]
  /** Where everything comes to rest, at last. */
  isGoal(world: World): boolean
  /** States that are not looked into any further. */
  isBeyond(world: World): boolean
}

export interface Found {
  states: number
  steps: number
  /** Broken promises, each with the way that leads there. */
  wrong: string[]
  /** States from which no way leads to a goal. */
  deadEnds: string[]
}

/** A promise was broken in a step. */
export class Wrong extends Error {}

interface State<World> {
  /** Until it has been looked into: there are too many to keep them. */
  world: World | undefined
  from: number
  by: string
}

const MOST_TOLD = 5

/** Every state, or the first so many: then dead ends are not judged. */
export async function explore<World>(model: Model<World>, most = Infinity): Promise<Found> {
  const states: State<World>[] = [{ world: model.start, from: -1, by: 'start' }]
  const known = new Map([[hashOf(model.text(model.start)), 0]])
  /** By state: those that lead to it. */
  const before: number[][] = [[]]
  const goals = new Set<number>()
  const wrong: string[] = []
  let steps = 0

  for (let at = 0; at < Math.min(states.length, most); at += 1) {
    const state = states[at]
    if (state?.world === undefined) break
    const { world } = state
    state.world = undefined
    if (model.isGoal(world) || model.isBeyond(world)) goals.add(at)
    if (model.isBeyond(world)) continue
    for (const step of model.steps(world)) {
      const { name } = step
      const next = structuredClone(world)
      const broken = await taken(step, next, model, world)
      steps += 1
      if (broken.length > 0) wrong.push(`${way(states, at)} > ${name}: ${broken.join('; ')}`)
      const text = hashOf(model.text(next))
      const found = known.get(text)
      if (found !== undefined) {
        before[found]?.push(at)
        continue
      }
      known.set(text, states.length)
      before.push([at])
      states.push({ world: next, from: at, by: name })
    }
  }
  return {
    states: states.length,
    steps,
    wrong: wrong.slice(0, MOST_TOLD),
    deadEnds: (states.length > most ? [] : lost(states.length, before, goals))
      .slice(0, MOST_TOLD)
      .map((at) => way(states, at)),
  }
}

async function taken<World>(
  step: Step<World>,
  world: World,
  model: Model<World>,
  earlier: World,
): Promise<string[]> {
  try {
    await step.take(world)
    return model.wrong(earlier, world)
  } catch (error) {
    if (error instanceof Wrong) return [error.message]
    throw error
  }
}

/** Those from which no goal can be reached. */
function lost(count: number, before: number[][], goals: Set<number>): number[] {
  const reached = new Set(goals)
  const open = [...goals]
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    for (const earlier of before[at] ?? []) {
      if (reached.has(earlier)) continue
      reached.add(earlier)
      open.push(earlier)
    }
  }
  return Array.from({ length: count }, (_, at) => at).filter((at) => !reached.has(at))
}

/** The texts of all states would take more memory than there is. */
function hashOf(text: string): string {
  return hash('sha256', text, 'base64')
}

/** How a state was come to. */
function way<World>(states: State<World>[], at: number): string {
  const names: string[] = []
  for (let state = states[at]; state !== undefined; state = states[state.from]) {
    names.unshift(state.by)
  }
  return names.join(' > ')
}
