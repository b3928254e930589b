import t from 'tap'
import { startEmbeddedWorld } from '../world/embedded.ts'
import { clusterFaults } from './cluster-faults.ts'
import { clusterInput } from './cluster-input.ts'
import { clusterLife } from './cluster-life.ts'
import { hibernation } from './hibernation.ts'
import { keyRotationFaults } from './key-rotation-faults.ts'
import { keyRotations } from './key-rotation.ts'
import { pullSecrets } from './pull-secrets.ts'
import { reshardingScenarios } from './resharding.ts'
import { runScenarios } from './run.ts'
import { updates } from './updates.ts'
import { volumeScenarios } from './volumes.ts'
import { windows } from './windows.ts'

const chosen = new RegExp(process.env['SCENARIOS'] ?? '')
// Its Jobs wait for nodes most of the time.
const world = await startEmbeddedWorld({ speed: 5 })
t.teardown(() => world.close())
for (const part of world.components) t.comment(part)

const scenarios = [
  ...clusterLife,
  ...clusterInput,
  ...hibernation,
  ...pullSecrets,
  ...clusterFaults,
  ...updates,
  ...keyRotations,
  ...keyRotationFaults,
  ...volumeScenarios,
  ...reshardingScenarios,
  ...windows,
].filter(({ title }) => chosen.test(title))
await runScenarios(t, world, scenarios, { atOnce: 4 })
