/** What a command works with: clients for the outside, the reporter, time, and the log. */
import type { Logger } from 'pino'
import type { Connection } from '../crds/connection.ts'
import type { S3Target } from '../crds/storage.ts'
import type { Bar } from './bar.ts'
import type { Mounted } from './clients/credentials.ts'
import type { Engine } from './clients/engine.ts'
import type { Helm } from './clients/helm.ts'
import type { Kubernetes } from './clients/kubernetes.ts'
import type { ConnectionOptions } from './clients/s3-connection.ts'
import type { Bucket } from './clients/s3.ts'
import type { Reporter } from './report.ts'
import type { Time } from './time.ts'

export interface EnginePlace {
  /** The client Service of a cluster, or an address. */
  at: Connection | string
  key?: Mounted | undefined
  /** Certificate authority; without one, those the system trusts. */
  ca?: Mounted | undefined
}

export interface Tools {
  kubernetes: Kubernetes
  helm: Helm
  /** The engine on one pod of a cluster, or without an ordinal the one behind its client Service. */
  engineOn(connection: Connection, ordinal?: number): Engine
  /** Any engine, with the credentials that are mounted for it. */
  engineAt(place: EnginePlace): Engine
  /** The bucket of a resource, by the credentials that are mounted for it. */
  bucketAt(
    target: Omit<S3Target, 'prefix'>,
    waiting?: ConnectionOptions['waiting'],
  ): Promise<Bucket>
  reporter: Reporter
  time: Time
  log: Logger
  /** Where a terminal watches. */
  bar?: Bar | undefined
  /** uid of this pod. */
  runner: string
  /** uid of the Job. */
  job: string
  /** Aborts on SIGTERM: clean up and let the error pass. */
  signal: AbortSignal
}

/** How an attempt ended that was reported. */
export type Outcome = 'Done' | 'Failed' | 'Refused'
