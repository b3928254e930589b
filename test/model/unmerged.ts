/**
 * Checks that worlds of the same text are the same state, by random walks that merge no states. Two worlds of the
 * same text must allow the same steps, and these must lead to the same texts. Otherwise exploring only one of them
 * misses states that the other can reach.
 */
import type { Model, Step } from './explore.ts'
import { Wrong } from './explore.ts'

export interface Walks {
  seed: number
  /** Number of walks, each from the start. */
  walks: number
  /** Steps of each walk. */
  length: number
}

export interface Compared {
  /** Number of worlds whose text an earlier world had. */
  compared: number
  /** Differences between worlds of the same text, with the path to the second world. */
  differences: string[]
}

const MOST_REPORTED = 5

export async function walk<World>(
  model: Model<World>,
  { seed, walks, length }: Walks,
): Promise<Compared> {
  const random = randomOf(seed)
  const known = new Map<string, Future>()
  const differences: string[] = []
  let compared = 0
  for (let number = 0; number < walks; number += 1) {
    let world = model.start
    const way = ['start']
    for (let at = 0; at < length; at += 1) {
      const steps = await taken(model, world)
      const future = futureOf(model, steps)
      const text = model.text(world)
      const before = known.get(text)
      if (before === undefined) known.set(text, future)
      else {
        compared += 1
        const found = differenceOf(before, future)
        if (found !== undefined) differences.push(`${way.join(' > ')}: ${found}`)
      }
      const next = steps[Math.floor(random() * steps.length)]
      if (next?.world === undefined) break
      world = next.world
      way.push(next.name)
    }
  }
  return { compared, differences: differences.slice(0, MOST_REPORTED) }
}

interface Taken<World> {
  name: string
  /** Undefined if the step broke a promise, which `explore` reports. */
  world: World | undefined
}

async function taken<World>(model: Model<World>, world: World): Promise<Taken<World>[]> {
  return Promise.all(model.steps(world).map((step) => take(model, world, step)))
}

async function take<World>(model: Model<World>, from: World, step: Step<World>) {
  const world = model.copy(from)
  try {
    await step.take(world)
    return { name: step.name, world }
  } catch (error) {
    if (error instanceof Wrong) return { name: step.name, world: undefined }
    throw error
  }
}

/** The outcome of each step, by its name without run numbers: only their order matters, which the text has. */
type Future = ReadonlyMap<string, string[]>

function futureOf<World>(model: Model<World>, steps: Taken<World>[]): Future {
  const future = new Map<string, string[]>()
  for (const { name, world } of steps) {
    const plain = name.replace(/(-[0-9a-f]{12})?-\d+(?= )/g, '-n')
    const text = world === undefined ? 'broken' : (model.outcome?.(world) ?? model.text(world))
    future.set(plain, [...(future.get(plain) ?? []), text].sort())
  }
  return future
}

function differenceOf(one: Future, other: Future): string | undefined {
  for (const name of new Set([...one.keys(), ...other.keys()])) {
    const [before, after] = [one.get(name), other.get(name)]
    if (before === undefined || after === undefined)
      return `only one of two worlds has the step "${name}"`
    if (before.join('\n') !== after.join('\n')) {
      return `"${name}" leads to different states: ${clipped(before, after)}`
    }
  }
  return undefined
}

/** The texts around their first difference. */
function clipped(one: string[], other: string[]): string {
  const [before, after] = [one.join('\n'), other.join('\n')]
  let at = 0
  while (at < before.length && before[at] === after[at]) at += 1
  const part = (text: string) => text.slice(Math.max(at - 30, 0), at + 30)
  return `...${part(before)}... and ...${part(after)}...`
}

/** mulberry32: the same numbers for the same seed. */
function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
