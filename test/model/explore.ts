/**
 * Explores every state that a small world can reach, breadth first: each step that is possible in a state is
 * taken in a copy of it, and a state that was reached before is not explored again.
 */

export interface Step<World> {
  name: string
  /** A fault, or an action that a user may or may not take: a path to a goal must not depend on it. */
  isStrike?: boolean
  /** Changes the world that it is given; throws `Wrong` if the step breaks a promise. */
  take: (world: World) => Promise<void>
}

export interface Model<World> {
  start: World
  copy(world: World): World
  /** Steps that are possible in this world. */
  steps(world: World): Step<World>[]
  /** Worlds with the same text are the same state. */
  text(world: World): string
  /** What two worlds of the same text must have in common after the same step (unmerged.ts); by default the text. */
  outcome?(world: World): string
  /** Promises that a step broke, in words. */
  wrong(before: World, after: World): string[]
  /** Promises that a state breaks, whatever led to it; does not change the world. */
  wrongIn?(world: World): Promise<string[]>
  /** Whether everything is done: a goal must be reachable from every state. */
  isGoal(world: World): boolean
}

export interface Found {
  states: number
  steps: number
  /** Every state was explored. If not, dead ends are not determined. */
  isWhole: boolean
  /** Broken promises, each with a path that leads to it. */
  wrong: string[]
  /** States from which no path leads to a goal. */
  deadEnds: string[]
}

/** A step broke a promise. */
export class Wrong extends Error {}

/** How a state was reached first. */
interface Origin {
  from: number
  by: string
}

const MOST_REPORTED = 5

/** Explores every state, or the first `most` states. */
export async function explore<World>(model: Model<World>, most = Infinity): Promise<Found> {
  // By state. A world is dropped once it is explored: all of them together do not fit into memory.
  const worlds: (World | undefined)[] = [model.start]
  const origins: Origin[] = [{ from: -1, by: 'start' }]
  const known = new Map([[model.text(model.start), 0]])
  const ways = new Ways()
  const goals: number[] = []
  // The shortest path to each message: one defect breaks many states.
  const wrong = new Map<string, string>()
  const record = (words: string[], at: number, by = '') => {
    const message = words.join('; ')
    if (words.length > 0 && !wrong.has(message))
      wrong.set(message, `${way(origins, at)}${by}: ${message}`)
  }
  let steps = 0

  let at = 0
  for (; at < Math.min(worlds.length, most); at += 1) {
    const world = worlds[at]
    if (world === undefined) break
    worlds[at] = undefined
    if (model.isGoal(world)) goals.push(at)
    record(await violationsOf(async () => (await model.wrongIn?.(world)) ?? []), at)
    for (const step of model.steps(world)) {
      const next = model.copy(world)
      const broken = await violationsOf(async () => {
        await step.take(next)
        return model.wrong(world, next)
      })
      steps += 1
      record(broken, at, ` > ${step.name}`)
      const text = model.text(next)
      const found = known.get(text) ?? worlds.length
      if (step.isStrike !== true) ways.add(at, found)
      if (found < worlds.length) continue
      known.set(text, found)
      worlds.push(next)
      origins.push({ from: at, by: step.name })
    }
  }
  const isWhole = at === worlds.length
  return {
    states: worlds.length,
    steps,
    isWhole,
    wrong: [...wrong.values()].slice(0, MOST_REPORTED),
    deadEnds: (isWhole ? ways.lost(worlds.length, goals) : [])
      .slice(0, MOST_REPORTED)
      .map((state) => way(origins, state)),
  }
}

/** Broken promises, whether they are returned or thrown. */
async function violationsOf(judge: () => Promise<string[]>): Promise<string[]> {
  try {
    return await judge()
  } catch (error) {
    if (error instanceof Wrong) return [error.message]
    throw error
  }
}

/** Which state leads to which, by steps that are not strikes. */
class Ways {
  readonly #from: number[] = []
  readonly #to: number[] = []

  add(from: number, to: number): void {
    if (from === to) return
    this.#from.push(from)
    this.#to.push(to)
  }

  /** The states from which no goal can be reached. */
  lost(count: number, goals: number[]): number[] {
    const before = this.#before(count)
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

  #before(count: number): number[][] {
    const before = Array.from({ length: count }, (): number[] => [])
    this.#to.forEach((to, at) => before[to]?.push(this.#from[at] ?? 0))
    return before
  }
}

function way(origins: Origin[], at: number): string {
  const names: string[] = []
  for (let origin = origins[at]; origin !== undefined; origin = origins[origin.from]) {
    names.unshift(origin.by)
  }
  return names.join(' > ')
}
