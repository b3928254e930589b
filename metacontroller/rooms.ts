/** The rooms that are served, each with its ports on the real clients. */
import type { Logger } from 'pino'
import { accessKeyRoom } from '../hooks/access-key/index.ts'
import { backupRoom } from '../hooks/backup/index.ts'
import { backupScheduleRoom } from '../hooks/backup-schedule/index.ts'
import { clusterRoom } from '../hooks/cluster/index.ts'
import { collectionRoom } from '../hooks/collection/index.ts'
import { migrationRoom } from '../hooks/migration/index.ts'
import { restoreRoom } from '../hooks/restore/index.ts'
import { withPullSecrets } from '../hooks/pull-secrets.ts'
import type { Room } from '../hooks/room.ts'
import { AddressGuard, type AddressRules } from '../jobs/clients/addresses.ts'
import type { EngineConnections } from '../jobs/clients/engine-route.ts'
import type { Kubernetes } from '../jobs/clients/kubernetes.ts'
import { backupPorts } from './backup-ports.ts'
import { backupSchedulePorts } from './backup-schedule-ports.ts'
import { collectionPorts } from './collection-ports.ts'
import { consensusPort } from './consensus.ts'
import type { OutsideCall, ServiceMetrics } from './metrics.ts'
import { migrationPorts } from './migration-ports.ts'
import { accessKeyPorts, clusterPorts, freshSecretPort, secretPort } from './ports.ts'
import { pullSecretPorts } from './pull-secrets.ts'
import { restorePorts } from './restore-ports.ts'
import { waited, type Timers } from './timers.ts'
import { WritesUnderWay } from './writes-under-way.ts'

export interface RoomTools {
  kubernetes: Kubernetes
  connections: EngineConnections
  engineRoute: 'direct' | 'proxy'
  /** Those the service may read; empty means all. */
  namespaces: string[]
  /** Keys that sign our Jobs (hooks/signature.ts). */
  jobKeys: () => readonly string[]
  now: () => Date
  timers: Timers
  metrics: ServiceMetrics
  log: Logger
  /** Where the image pull Secrets are, if there are any. */
  ownNamespace?: string
  /** How long a hook waits for an engine before it goes on in the background. */
  inlineMs?: number
  /** Which addresses a purge may call; absent out of the cluster, where the person who starts it decides. */
  purgeRules?: AddressRules
}

export function roomsOf(tools: RoomTools): Room[] {
  const { kubernetes, connections, engineRoute: route, namespaces, now, timers, log } = tools
  const secret = secretPort(kubernetes, now)
  const common = { kubernetes, secret, namespaces, now, log }
  const counted = (what: 'engine' | 'bucket') => ({
    called: (call: OutsideCall) => tools.metrics.called(what, call),
  })
  const freshSecret = freshSecretPort(kubernetes, now)
  const engines = { ...common, connections, route, freshSecret, ...counted('engine') }
  const sleep = (ms: number, signal?: AbortSignal) => waited(timers, ms, signal)
  const buckets = {
    ...{ ...common, time: { now, sleep }, ...counted('bucket') },
    guard: tools.purgeRules && new AddressGuard(tools.purgeRules),
  }
  const writes = new WritesUnderWay()
  const rooms = [
    clusterRoom(
      clusterPorts({ ...common, jobKeys: tools.jobKeys, consensus: consensusPort(engines) }),
    ),
    collectionRoom(
      collectionPorts({ ...engines, jobKeys: tools.jobKeys, timers, writes }),
      tools.inlineMs,
    ),
    accessKeyRoom(accessKeyPorts(common)),
    backupRoom(backupPorts(buckets)),
    backupScheduleRoom(backupSchedulePorts(common)),
    restoreRoom(restorePorts({ ...common, writes })),
    migrationRoom(migrationPorts(engines)),
  ]
  const { ownNamespace } = tools
  if (ownNamespace === undefined) return rooms
  const pullSecrets = pullSecretPorts({ ...common, ownNamespace })
  return rooms.map((room) => withPullSecrets(room, pullSecrets))
}
