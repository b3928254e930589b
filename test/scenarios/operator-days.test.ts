/** Failures of the operator itself in the embedded world. */
import t from 'tap'
import { startEmbeddedWorld } from '../world/embedded.ts'
import { operatorDays } from './operator-days.ts'
import { runScenarios } from './run.ts'

/** A part of the scenarios, by a pattern over their titles. */
const chosen = new RegExp(process.env['SCENARIOS'] ?? '')

const world = await startEmbeddedWorld()
t.teardown(() => world.close())

await runScenarios(
  t,
  world,
  operatorDays.filter(({ title }) => chosen.test(title)),
  { atOnce: 1 },
)
