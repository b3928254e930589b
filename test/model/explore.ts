/**
 * Explores every state a small world can come to, breadth first: what may happen in a state is asked,
 * each of it is done to a copy, and what was seen before is not looked at again.
 */

export interface Step<World> {
  name: string
  /** A fault, or what a person may do and nobody may count on: no way to a goal leads over it. */
  isStrike?: boolean
  /** Does it to a world of its own; throws a `Wrong` where a promise is broken. */
  take: (world: World) => Promise<void>
}

export interface Model<World> {
  start: World
  copy(world: World): World
  /** What may happen. */
  steps(world: World): Step<World>[]
  /** States of the same text are one. */
  text(world: World): string
  /** What two of them must agree on after the same step (unmerged.ts); by default the text. */
  outcome?(world: World): string
  /** What a step must not do: what it did, in words. */
  wrong(before: World, after: World): string[]
  /** What must hold in a state by itself; it is left as it is. */
  wrongIn?(world: World): Promise<string[]>
  /** Where everything comes to rest, at last. */
  isGoal(world: World): boolean
}

export interface Found {
  states: number
  steps: number
  /** Every state was looked into; else dead ends are not judged. */
  isWhole: boolean
  /** Broken promises, each with a way that leads there. */
  wrong: string[]
  /** States from which no way leads to a goal. */
  deadEnds: string[]
}

/** A promise was broken in a step. */
export class Wrong extends Error {}

/** How each state was come to. */
interface Origin {
  from: number
  by: string
}

const MOST_TOLD = 5

/** Every state, or the first so many. */
export async function explore<World>(model: Model<World>, most = Infinity): Promise<Found> {
  // By state; the world until it has been looked into: there are too many to keep them.
  const worlds: (World | undefined)[] = [model.start]
  const origins: Origin[] = [{ from: -1, by: 'start' }]
  const known = new Map([[model.text(model.start), 0]])
  const ways = new Ways()
  const goals: number[] = []
  // By its words the shortest way there: one defect breaks many states.
  const wrong = new Map<string, string>()
  const tell = (words: string[], at: number, by = '') => {
    const said = words.join('; ')
    if (words.length > 0 && !wrong.has(said)) wrong.set(said, `${way(origins, at)}${by}: ${said}`)
  }
  let steps = 0

  let at = 0
  for (; at < Math.min(worlds.length, most); at += 1) {
    const world = worlds[at]
    if (world === undefined) break
    worlds[at] = undefined
    if (model.isGoal(world)) goals.push(at)
    tell(await told(async () => (await model.wrongIn?.(world)) ?? []), at)
    for (const step of model.steps(world)) {
      const next = model.copy(world)
      const broken = await told(async () => {
        await step.take(next)
        return model.wrong(world, next)
      })
      steps += 1
      tell(broken, at, ` > ${step.name}`)
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
    wrong: [...wrong.values()].slice(0, MOST_TOLD),
    deadEnds: (isWhole ? ways.lost(worlds.length, goals) : [])
      .slice(0, MOST_TOLD)
      .map((state) => way(origins, state)),
  }
}

/** What is wrong, be it said or thrown. */
async function told(judge: () => Promise<string[]>): Promise<string[]> {
  try {
    return await judge()
  } catch (error) {
    if (error instanceof Wrong) return [error.message]
    throw error
  }
}

/** Which state leads to which, by what may be counted on. */
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
