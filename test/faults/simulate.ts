/** One run: a world, a load, its faults, and the violations that the oracle finds. */
import { awaitEnd, sayFarewell } from './farewell.ts'
import type { Call } from './doors.ts'
import { draw, strikeAt, type Strike } from './faults.ts'
import { Broken, NamespaceEnds, runLoad } from './load.ts'
import type { Machine } from './machine/machine.ts'
import {
  judge,
  judgeFarewell,
  judgeNamespaceEnd,
  watchChildren,
  watchDeletedNotes,
  watchSurvivors,
} from './oracle.ts'
import { startFaultWorld, type FaultWorld } from './world.ts'

export interface Run {
  seed: number
  /** The same for the same seed. */
  trace: string
  strikes: Strike[]
  struck: Strike[]
  /** Violations that the oracle found. */
  broken: string[]
  /** Number of calls by door. */
  calls: Record<string, number>
  /** The world after the run, for further checks. */
  world: FaultWorld
}

export interface Wish {
  seed: number
  /** Drawn from the seed when absent. */
  strikes?: readonly Strike[] | undefined
  /** Number of calls by door in a run without faults; needed to draw strikes. */
  calls?: Record<string, number>
  /**
   * Damages the world before the oracle checks it, after the load or the end of its namespace, to test the oracle:
   * it may ask what the oracle finds after each damage.
   */
  spoil?: ((world: FaultWorld, findings: () => string[]) => void) | undefined
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
  const survivors = watchSurvivors(world)
  const deletedNotes = watchDeletedNotes(world)
  // Kept whatever happens during the farewell.
  let afterLoad: string[] = []
  try {
    const acknowledged = await runLoad(world)
    const findings = () => judge(world, acknowledged, struck, deletedNotes)
    spoil?.(world, findings)
    afterLoad = findings()
    await sayFarewell(world)
    return [...afterLoad, ...judgeFarewell(world)]
  } catch (error) {
    if (error instanceof NamespaceEnds) {
      const left = await awaitEnd(world)
      const findings = () => judgeNamespaceEnd(world, survivors)
      spoil?.(world, findings)
      return [...afterLoad, ...left, ...findings()]
    }
    const why = error instanceof Broken ? error.message : String((error as Error).stack)
    return [...afterLoad, why]
  }
}
