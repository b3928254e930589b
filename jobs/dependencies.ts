/**
 * The dependencies of a command: clients for outside systems, the reporter, the clock and the log.
 */
import type { Logger } from 'pino'
import type { Connection } from '../crds/contract/connection.ts'
import type { S3Target } from '../crds/storage.ts'
import type { ProgressBar } from './progress.ts'
import type { MountedKey } from './clients/engine/credentials.ts'
import type { Engine } from './clients/engine/client.ts'
import type { Helm } from './clients/helm.ts'
import type { Kubernetes } from './clients/kubernetes/client.ts'
import type { S3ConnectionOptions } from './clients/s3/connection.ts'
import type { Bucket } from './clients/s3/bucket.ts'
import type { Reporter } from './reporter.ts'
import type { Clock } from './clock.ts'

export interface EngineAddress {
  /** The client Service of a cluster, or an address. */
  address: Connection | string
  /** One pod of the cluster instead of its client Service. */
  ordinal?: number | undefined
  key?: MountedKey | undefined
  /** Certificate authority; without one, those that the system trusts. */
  ca?: MountedKey | undefined
}

export interface Dependencies {
  kubernetes: Kubernetes
  helm: Helm
  /** The engine on one pod of a cluster, or without an ordinal the one behind its client Service. */
  engineForPod(connection: Connection, ordinal?: number): Engine
  /** Any engine, with the mounted credentials for it. */
  engineForAddress(address: EngineAddress): Engine
  /** The bucket of a resource, with the mounted credentials for it. */
  openBucket(
    target: Omit<S3Target, 'prefix'>,
    hooks?: Pick<S3ConnectionOptions, 'onWaiting' | 'beforeChange'>,
  ): Promise<Bucket>
  reporter: Reporter
  time: Clock
  log: Logger
  /** Only on a terminal. */
  progressBar?: ProgressBar | undefined
  /** uid of this pod. */
  podUid: string
  /** uid of the Job. */
  jobUid: string
  /** Aborts on SIGTERM: clean up and let the error propagate. */
  signal: AbortSignal
}

/** The outcome of an attempt that was reported. */
export type RunResult = 'Done' | 'Failed' | 'Refused'
