/** Collections and access keys in the embedded world. */
import t from 'tap'
import { startEmbeddedWorld } from '../world/embedded.ts'
import { accessKeyScenarios } from './access-key.ts'
import { collectionScenarios } from './collection.ts'
import { runScenarios } from './run.ts'

/** A part of the scenarios, by a pattern over their titles. */
const chosen = new RegExp(process.env['SCENARIOS'] ?? '')

const world = await startEmbeddedWorld()
t.teardown(() => world.close())

const scenarios = [...collectionScenarios, ...accessKeyScenarios]
await runScenarios(
  t,
  world,
  scenarios.filter(({ title }) => chosen.test(title)),
  { atOnce: 4 },
)
