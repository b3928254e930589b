/** Restores in the embedded world. */
import t from 'tap'
import { startEmbeddedWorld } from '../world/embedded.ts'
import { restoreScenarios } from './restore.ts'
import { runScenarios } from './run.ts'

const world = await startEmbeddedWorld()
t.teardown(() => world.close())

await runScenarios(t, world, restoreScenarios, { atOnce: 4 })
