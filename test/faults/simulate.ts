/** One run: a world, a load, faults, and what the oracle says of it. */
import { awaitEnd, sayFarewell } from './farewell.ts'
import type { Call } from './doors.ts'
import { draw, strikeAt, type Strike } from './faults.ts'
import { Broken, NamespaceEnds, runLoad } from './load.ts'
import type { Machine } from './machine/machine.ts'
import { judge, judgeFarewell, watchChildren } from './oracle.ts'
import { startFaultWorld, type FaultWorld } from './world.ts'

export interface Run {
  seed: number
  /** The same for the same seed. */
  trace: string
  strikes: Strike[]
  struck: Strike[]
  /** What was promised and is not so. */
  broken: string[]
  /** Calls, by door. */
  calls: Record<string, number>
  /** For who wants to know how it came. */
  world: FaultWorld
}

export interface Wish {
  seed: number
  /** Drawn from the seed when absent. */
  strikes?: readonly Strike[] | undefined
  /** How often each door is used when nothing goes wrong. */
  calls?: Record<string, number>
  /** Done when all has settled, before the oracle looks: to see that it sees. */
  spoil?: ((world: FaultWorld) => void) | undefined
  /** Called at each call of the operator; it must not change the world. */
  observe?: ((call: Call) => void) | undefined
}

export async function simulate(machine: Machine, wish: Wish): Promise<Run> {
  const { seed, calls = {} } = wish
  const world = await startFaultWorld(machine, seed)
  const strikes = [...(wish.strikes ?? draw(world.dice, calls))]
  if (wish.observe !== undefined) world.doors.observe(wish.observe)
  const found = watchChildren(world)
  const struck = strikeAt(world, strikes)
  const broken = await promises(world, struck, wish.spoil)
  const { doors } = world
  await world.close()
  return {
    ...{ seed, strikes, struck, world },
    broken: [...found, ...broken],
    trace: doors.trace(),
    calls: doors.counts(),
  }
}

async function promises(
  world: FaultWorld,
  struck: Strike[],
  spoil: Wish['spoil'],
): Promise<string[]> {
  try {
    const acknowledged = await runLoad(world)
    spoil?.(world)
    const settled = judge(world, acknowledged, struck)
    await sayFarewell(world)
    return [...settled, ...judgeFarewell(world)]
  } catch (error) {
    if (error instanceof NamespaceEnds) return awaitEnd(world)
    return [error instanceof Broken ? error.message : String((error as Error).stack)]
  }
}
