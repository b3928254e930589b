/** Failures of restores in the embedded world. */
import t from 'tap'
import { startEmbeddedWorld } from '../world/embedded.ts'
import { restoreFaults } from './restore-faults.ts'
import { runScenarios } from './run.ts'

// A restore whose pod was killed observes the nodes for two minutes before it continues.
const world = await startEmbeddedWorld({ speed: 10 })
t.teardown(() => world.close())

await runScenarios(t, world, restoreFaults, { atOnce: 4 })
