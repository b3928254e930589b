/** Runs one plan in a world of its own. */
import { findRealParts } from '../real-parts.ts'
import { travel, type Result } from './journey.ts'
import type { Plan } from './plan.ts'
import { startHardWorld, type WorldOptions } from './world.ts'

/** The engine that ENGINE_BIN names, or the one that was built into the cache. */
export function engineBin(): string | undefined {
  return findRealParts(process.env).ENGINE_BIN
}

export async function runSeed(plan: Plan, options: WorldOptions = {}): Promise<Result> {
  const world = await startHardWorld(options)
  try {
    return await travel(world, plan)
  } finally {
    await world.close()
  }
}
