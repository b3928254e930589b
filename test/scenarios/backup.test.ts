/** Backups and their schedules in the embedded world. */
import t from 'tap'
import { startEmbeddedWorld } from '../world/embedded.ts'
import { backupEnd } from './backup-end.ts'
import { backupFaults } from './backup-faults.ts'
import { backupShards } from './backup-shards.ts'
import { backupWaits } from './backup-waits.ts'
import { backupScenarios } from './backup.ts'
import { runScenarios } from './run.ts'

/** A part of the scenarios, by a pattern over their titles. */
const chosen = new RegExp(process.env['SCENARIOS'] ?? '')

const world = await startEmbeddedWorld()
t.teardown(() => world.close())

const scenarios = [
  ...backupScenarios,
  ...backupShards,
  ...backupWaits,
  ...backupFaults,
  ...backupEnd,
]
await runScenarios(
  t,
  world,
  scenarios.filter(({ title }) => chosen.test(title)),
  { atOnce: 4 },
)
