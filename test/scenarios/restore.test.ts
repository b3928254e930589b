/** Restores in the embedded world, without the failures of restore-faults.test.ts. */
import t from 'tap'
import { startEmbeddedWorld } from '../world/embedded.ts'
import { restoreFaults } from './restore-faults.ts'
import { restoreScenarios } from './restore.ts'
import { runScenarios } from './run.ts'

const world = await startEmbeddedWorld()
t.teardown(() => world.close())

const others = restoreScenarios.filter((scenario) => !restoreFaults.includes(scenario))
await runScenarios(t, world, others, { atOnce: 4 })
