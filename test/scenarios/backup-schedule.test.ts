/** Schedules of backups in the embedded world. */
import t from 'tap'
import { startEmbeddedWorld } from '../world/embedded.ts'
import { backupRetention } from './backup-retention.ts'
import { backupSchedule } from './backup-schedule.ts'
import { drillScenarios } from './drill.ts'
import { runScenarios } from './run.ts'

/** A part of the scenarios, by a pattern over their titles. */
const chosen = new RegExp(process.env['SCENARIOS'] ?? '')

const world = await startEmbeddedWorld({ speed: 5 })
t.teardown(() => world.close())

const scenarios = [...backupSchedule, ...backupRetention, ...drillScenarios]
await runScenarios(
  t,
  world,
  scenarios.filter(({ title }) => chosen.test(title)),
  { atOnce: 4 },
)
