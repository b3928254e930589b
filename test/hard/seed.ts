/** Runs one plan in a world of its own. */
import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { travel, type Result } from './journey.ts'
import type { Plan } from './plan.ts'
import { startHardWorld, type WorldOptions } from './world.ts'

export const ENGINE_VERSION = '1.18.3'

/** The engine that ENGINE_BIN names, or the one that was built into the cache. */
export function engineBin(): string | undefined {
  const named = process.env['ENGINE_BIN']
  if (named !== undefined && named !== '') return named
  const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache')
  const found = join(cache, 'vec-operator/parts', `engine-${ENGINE_VERSION}`, 'qdrant')
  return existsSync(found) ? found : undefined
}

export async function runSeed(plan: Plan, options: WorldOptions = {}): Promise<Result> {
  const world = await startHardWorld(options)
  try {
    return await travel(world, plan)
  } finally {
    await world.close()
  }
}
