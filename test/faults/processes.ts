/**
 * `npm run test:faults:processes [count] [first seed]`: faults from seeds, new ones each run unless the first is
 * given, in the embedded world, whose Jobs are processes.
 */
import t from 'tap'
import { newSeed } from '../fuzz/run.ts'
import { strikesOf } from '../scenarios/strikes.ts'
import { runScenarios } from '../scenarios/run.ts'
import { startEmbeddedWorld } from '../world/embedded.ts'

const [count = '20', from = String(newSeed())] = process.argv.slice(2)
t.setTimeout(0)
t.comment(`seeds from ${from} on: ${count} ${from} repeats them`)
const world = await startEmbeddedWorld()
t.teardown(() => world.close())

await runScenarios(t, world, strikesOf(Number(from), Number(count)), { atOnce: 1 })
