/** A tenant attacks: in the embedded world, as far as that knows rights. */
import t from 'tap'
import { startEmbeddedWorld } from '../world/embedded.ts'
import { runScenarios } from './run.ts'
import { tenants } from './tenants.ts'

/** A part of the scenarios, by a pattern over their titles. */
const chosen = new RegExp(process.env['SCENARIOS'] ?? '')

const world = await startEmbeddedWorld()
t.teardown(() => world.close())
await runScenarios(
  t,
  world,
  tenants.filter(({ title }) => chosen.test(title)),
  { atOnce: 4 },
)
