/** Hazards in the embedded world. */
import t from 'tap'
import { startEmbeddedWorld } from '../world/embedded.ts'
import { hazards } from './hazards.ts'
import { runScenarios } from './run.ts'

const world = await startEmbeddedWorld()
t.teardown(() => world.close())

await runScenarios(t, world, hazards, { atOnce: 3 })
