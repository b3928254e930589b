/** Migrations in the embedded world. */
import t from 'tap'
import { startEmbeddedWorld } from '../world/embedded.ts'
import { migrationScenarios } from './migration.ts'
import { runScenarios } from './run.ts'

const world = await startEmbeddedWorld({ speed: 5 })
t.teardown(() => world.close())

await runScenarios(t, world, migrationScenarios, { atOnce: 4 })
