/** The scenarios of the suite on a real cluster, in the order in which they begin. */
import { accessKeyScenarios } from './access-key.ts'
import { backupCron } from './backup-cron.ts'
import { backupEnd, backupExpiry } from './backup-end.ts'
import { backupFaults } from './backup-faults.ts'
import { backupRetention } from './backup-retention.ts'
import { backupSchedule } from './backup-schedule.ts'
import { backupShards } from './backup-shards.ts'
import { backupWaits } from './backup-waits.ts'
import { backupScenarios } from './backup.ts'
import { drillScenarios } from './drill.ts'
import { clusterFaults } from './cluster-faults.ts'
import { clusterInput } from './cluster-input.ts'
import { clusterLife } from './cluster-life.ts'
import { collectionScenarios } from './collection.ts'
import { fullVolumes } from './full-volumes.ts'
import { formation } from './formation.ts'
import { keyRotationFaults } from './key-rotation-faults.ts'
import { keyRotations } from './key-rotation.ts'
import { updates } from './updates.ts'
import { hibernation } from './hibernation.ts'
import { windows } from './windows.ts'
import { expandableVolumes } from './expandable.ts'
import { hazards } from './hazards.ts'
import { lostNode } from './lost-node.ts'
import { migrationScenarios } from './migration.ts'
import { operatorDays } from './operator-days.ts'
import { jobPods } from './job-pods.ts'
import { pullSecrets } from './pull-secrets.ts'
import { restoreScenarios } from './restore.ts'
import { tenants } from './tenants.ts'
import { viewers } from './viewer.ts'
import { reshardingScenarios } from './resharding.ts'
import { shardWork } from './shard-work.ts'
import { volumeScenarios } from './volumes.ts'
import type { Scenario } from './scenario.ts'

export const SUITE: readonly Scenario[] = [
  // Those that wait for the real clock start first: all others run during their wait.
  ...operatorDays,
  ...backupCron,
  ...backupSchedule,
  ...backupRetention,
  ...drillScenarios,
  ...expandableVolumes,
  ...fullVolumes,
  ...clusterLife,
  ...clusterInput,
  ...formation,
  ...lostNode,
  ...shardWork,
  ...updates,
  ...keyRotations,
  ...keyRotationFaults,
  ...hibernation,
  ...windows,
  ...collectionScenarios,
  ...accessKeyScenarios,
  ...backupScenarios,
  ...backupShards,
  ...backupWaits,
  ...backupFaults,
  ...backupEnd,
  ...backupExpiry,
  ...migrationScenarios,
  ...hazards,
  ...restoreScenarios,
  ...pullSecrets,
  ...jobPods,
  ...clusterFaults,
  ...volumeScenarios,
  ...reshardingScenarios,
  ...tenants,
  ...viewers,
]
