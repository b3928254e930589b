/** Creates the hooks of all kinds and connects their ports to the real clients. */
import type { Logger } from 'pino'
import { accessKeyHooks } from '../hooks/access-key/index.ts'
import { backupScheduleHooks } from '../hooks/backup-schedule/index.ts'
import { backupHooks } from '../hooks/backup/index.ts'
import { clusterHooks } from '../hooks/cluster/index.ts'
import { collectionHooks } from '../hooks/collection/index.ts'
import { withImagePullSecrets } from '../hooks/image-pull-secrets.ts'
import type { KindHooks } from '../hooks/protocol.ts'
import { migrationHooks } from '../hooks/migration/index.ts'
import { restoreHooks } from '../hooks/restore/index.ts'
import { systemClock } from '../jobs/clock.ts'
import type { EngineConnections } from '../jobs/clients/engine/transport.ts'
import { AddressGuard, type AddressRules } from '../jobs/clients/http/address-guard.ts'
import type { Kubernetes } from '../jobs/clients/kubernetes/client.ts'
import type { ClientCall, ServiceMetrics } from './metrics/index.ts'
import { backupPorts } from './ports/backup.ts'
import { backupSchedulePorts } from './ports/backup-schedule.ts'
import {
  accessKeyPorts,
  cachedSecretReader,
  clusterPorts,
  consensusPort,
  liveSecretReader,
} from './ports/cluster.ts'
import { nodeKeysPort } from './ports/keys.ts'
import { collectionPorts, InFlightWrites } from './ports/collection.ts'
import { imagePullSecretPorts } from './ports/common.ts'
import { migrationPorts } from './ports/migration.ts'
import { conflictingWorkPort, restorePorts } from './ports/restore.ts'
import { shardPorts } from './ports/shards.ts'
import { delay, type Timers } from './runtime.ts'

export interface KindHooksDependencies {
  kubernetes: Kubernetes
  connections: EngineConnections
  engineRoute: 'direct' | 'proxy'
  /** Namespaces that the service may read; an empty list means all. */
  namespaces: string[]
  /** Keys that sign the Jobs of this installation (hooks/request.ts). */
  jobKeys: () => readonly string[]
  now: () => Date
  timers: Timers
  metrics: ServiceMetrics
  log: Logger
  /** Namespace of the operator's pod, which contains the image pull Secrets; absent if unknown. */
  ownNamespace?: string
  /** How long a hook waits for an engine before the call continues in the background. */
  inlineMs?: number
  /**
   * Addresses that a purge may connect to; absent outside a cluster, where no limits apply because
   * the user who runs the service is responsible.
   */
  purgeRules?: AddressRules
}

export function createKindHooks(dependencies: KindHooksDependencies): KindHooks[] {
  const { kubernetes, connections, engineRoute: route, namespaces, now, timers, log } = dependencies
  const secret = cachedSecretReader(kubernetes, now)
  const shared = { kubernetes, secret, namespaces, now, log }
  const recordCalls = (system: 'engine' | 'bucket') => ({
    onCall: (call: ClientCall) => dependencies.metrics.recordCall(system, call),
  })
  const freshSecret = liveSecretReader(kubernetes, now)
  const engineDependencies = {
    ...shared,
    connections,
    route,
    freshSecret,
    ...recordCalls('engine'),
  }
  const sleep = (ms: number, signal?: AbortSignal) => delay(timers, ms, signal)
  const bucketDependencies = {
    ...{ ...shared, clock: { ...systemClock, now, sleep }, ...recordCalls('bucket') },
    guard: dependencies.purgeRules && new AddressGuard(dependencies.purgeRules),
  }
  const inFlightWrites = new InFlightWrites()
  const kindHooks = [
    clusterHooks(
      clusterPorts({
        ...shared,
        jobKeys: dependencies.jobKeys,
        consensus: consensusPort(engineDependencies),
        shards: shardPorts(engineDependencies),
        nodeKeys: nodeKeysPort(engineDependencies),
        conflictingWork: conflictingWorkPort({ kubernetes, namespaces, inFlightWrites }),
      }),
    ),
    collectionHooks(
      collectionPorts({
        ...engineDependencies,
        jobKeys: dependencies.jobKeys,
        timers,
        inFlightWrites,
      }),
      dependencies.inlineMs,
    ),
    accessKeyHooks(accessKeyPorts(shared)),
    backupHooks(backupPorts(bucketDependencies)),
    backupScheduleHooks(backupSchedulePorts(shared)),
    restoreHooks(restorePorts({ ...shared, inFlightWrites })),
    migrationHooks(migrationPorts(engineDependencies)),
  ]
  const { ownNamespace } = dependencies
  if (ownNamespace === undefined) return kindHooks
  const pullSecrets = imagePullSecretPorts({ ...shared, ownNamespace })
  return kindHooks.map((hooks) => withImagePullSecrets(hooks, pullSecrets))
}
