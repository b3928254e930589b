/**
 * `npm run test:faults:processes [count] [first seed]`: seeded faults in the embedded world, whose Jobs are
 * processes.
 */
import t from 'tap'
import { strikesOf } from '../scenarios/strikes.ts'
import { runScenarios } from '../scenarios/run.ts'
import { startEmbeddedWorld } from '../world/embedded.ts'

const [count = '20', from = '1'] = process.argv.slice(2)
t.setTimeout(0)
const world = await startEmbeddedWorld()
t.teardown(() => world.close())

await runScenarios(t, world, strikesOf(Number(from), Number(count)), { atOnce: 1 })
