/** A day in the embedded world, which has little else to do. */
import t from 'tap'
import { startEmbeddedWorld } from '../world/embedded.ts'
import { backupExpiry } from './backup-end.ts'
import { runScenarios } from './run.ts'

const world = await startEmbeddedWorld()
t.teardown(() => world.close())

await runScenarios(t, world, backupExpiry, { atOnce: 1 })
