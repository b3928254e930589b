/**
 * Contract of a Job: it receives its plan in the environment variable PLAN (JSON, gzip, base64) and reports
 * its progress in an annotation of the resource it works for. A plan that is too large is rejected with the field that makes
 * it large.
 */
import { gunzipSync, gzipSync } from 'node:zlib'
import { Type, type Static, type TSchema } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { Value } from '@sinclair/typebox/value'
import { BackupMethod, BackupPhase } from '../backup.ts'
import { VecCluster } from '../cluster.ts'
import { VolumeField } from '../kubernetes.ts'
import { Enum, PassThrough, StringMap, Timestamp } from '../schema.ts'
import { S3Target } from '../storage.ts'
import { PlannedKeys, ReleaseKeys } from './api-keys.ts'
import { Connection, planFields } from './connection.ts'
import { Rejected } from './errors.ts'
import { MAX_PLAN_BYTES, MAX_REPORT_MESSAGE } from './limits.ts'
import { MigrationResult } from './migration-job.ts'
import { ANNOTATIONS } from './names.ts'
import { RestoreResult } from './restore-job.ts'
import { ShardsResult } from './shards-job.ts'

/** Environment of every Job container. */
export const JOB_ENV = {
  plan: 'PLAN',
  /** Downward API: uid of the pod, the `runner` of a report. */
  podUid: 'POD_UID',
  /** Downward API: uid of the Job. */
  jobUid: 'JOB_UID',
  /** DNS domain of the Kubernetes cluster; absent in Jobs of an earlier release. */
  clusterDomain: 'CLUSTER_DOMAIN',
  /** PEM of the certificate authorities of the chart repository; absent without `engineChart.caBundle`. */
  chartCa: 'ENGINE_CHART_CA',
  /** Credential with the keys `username` and `password` of the chart repository; absent if it needs none. */
  chartCredentials: 'ENGINE_CHART_CREDENTIALS',
} as const

/** Exit codes of a Job's container. Any other code is a crash: the Job controller retries. */
export const EXIT = { done: 0, failed: 1, crash: 75 } as const

/** A risk that a user accepts by annotation. */
export const Risk = Enum([
  'shard-loss',
  'fewer-replicas',
  'last-copy',
  'version-skip',
  'downgrade',
  'no-backup',
  'split-brain',
])
export type Risk = Static<typeof Risk>

/** End of a message about something that is refused because of this risk. */
export function formatAcceptHint(risk: Risk): string {
  return `accept the risk with the annotation ${ANNOTATIONS.acceptRisk}: ${risk}`
}

/** The certificate that the nodes of a cluster with TLS were last restarted with (hooks/cluster/certificate.ts). */
export const AppliedCertificate = Type.Object({
  fingerprint: ShortString(),
  /** Hashes of the certificate authorities that the nodes trust. */
  authorities: Type.Array(ShortString()),
  /** Annotation of the pods; absent in a release that was installed without it, until the first renewal. */
  mark: Type.Optional(ShortString()),
  /** Hash of the annotation with which a user restarts the nodes. */
  restart: Type.Optional(ShortString()),
  /** Absent if it cannot be read, and for runs of an earlier release. */
  expiresAt: Type.Optional(Timestamp()),
})
export type AppliedCertificate = Static<typeof AppliedCertificate>

/** The release that a successful helm run applied; a run is due if and only if it differs from the desired one. */
export const AppliedRelease = Type.Object({
  planHash: Type.String(),
  generation: Type.Integer({ minimum: 0 }),
  secretFingerprints: StringMap(),
  startMark: Type.Optional(Type.String()),
  version: Type.String(),
  /** Hash of what restarts pods (hooks/cluster/windows.ts); absent for runs of an earlier release. */
  podsHash: Type.Optional(Type.String()),
  /** Number of the run that applied it. */
  run: Type.Integer({ minimum: 0 }),
  at: Timestamp(),
  /** The pods prefer different Kubernetes nodes if the spec has no affinity. */
  defaultAffinity: Type.Optional(Type.Boolean()),
  /** Size of the data volumes, if it is larger than that of the spec. */
  grownSize: Type.Optional(Type.String({ maxLength: 32 })),
  /** Fingerprint of the key in `vec-<name>-apikey`; absent without a key, and for runs of an earlier release. */
  publishedKey: Type.Optional(ShortString()),
  /** Whether the nodes accept tokens once they have its configuration; absent for runs of an earlier release. */
  jwtRbac: Type.Optional(Type.Boolean()),
  /** Keys, if they are rotated without a gap. */
  keys: Type.Optional(ReleaseKeys),
  /** Absent without TLS, and for runs of an earlier release. */
  certificate: Type.Optional(AppliedCertificate),
  /** metadata.generation of the StatefulSet after the run: a cached object with a lower one is stale. */
  statefulSetGeneration: Type.Optional(Type.Integer({ minimum: 0 })),
  /** Objects of the release were missing before the run: another client has deleted them. */
  recreatedObjects: Type.Optional(Type.Literal(true)),
})
export type AppliedRelease = Static<typeof AppliedRelease>

/** Volumes of the pods, by the section of the spec that describes them, and what they are to have. */
export const PlannedVolume = Type.Object({
  field: VolumeField,
  size: Type.String(),
  /** Name of the VolumeAttributesClass; without it the volumes keep theirs. */
  attributesClass: Type.Optional(Type.String()),
  /** The size is larger than that of the spec, by spec.persistence.autoGrow. */
  isAutoGrown: Type.Optional(Type.Literal(true)),
})
export type PlannedVolume = Static<typeof PlannedVolume>

/** How Prometheus verifies the nodes of a cluster with TLS. */
export const MonitorTls = Type.Object({
  serverName: Type.String(),
  /** Secret with the certificate authority in `ca.crt`; absent: public authorities. */
  caSecret: Type.Optional(Type.String()),
})
export type MonitorTls = Static<typeof MonitorTls>

/** Plan of `cluster upgrade`. */
export const UpgradePlan = Type.Object({
  ...planFields,
  generation: Type.Integer({ minimum: 0 }),
  startMark: Type.Optional(Type.String()),
  secretFingerprints: StringMap(),
  release: Type.String(),
  chart: Type.String(),
  repository: Type.String(),
  /** Chart version: spec.version without a leading v, or a step on the way to it. */
  version: Type.String(),
  values: PassThrough(),
  /** Hash of what restarts pods, to be recorded with the release. */
  podsHash: Type.Optional(Type.String()),
  /** Volumes that change before helm runs if they differ. */
  volumes: Type.Optional(Type.Array(PlannedVolume)),
  /** To be recorded with the release. */
  defaultAffinity: Type.Optional(Type.Boolean()),
  /** Keys, if they are rotated without a gap. */
  keys: Type.Optional(PlannedKeys),
  /** To be recorded with the release. */
  certificate: Type.Optional(AppliedCertificate),
  /** Set if the release has a ServiceMonitor and the nodes use TLS. */
  monitorTls: Type.Optional(MonitorTls),
  /** For the annotation last-applied-spec. */
  spec: VecCluster.spec,
  acceptedRisks: Type.Array(Risk),
  /** Set if objects of the release were missing when the run was planned; to be recorded with the release. */
  recreatesObjects: Type.Optional(Type.Literal(true)),
  /** Fingerprint of the API key of the nodes, if the plan that was applied last had the same hash. */
  appliedKey: Type.Optional(ShortString()),
  /** Whether pods of an existing release are updated by a Job on the shards, and not by Kubernetes alone. */
  isGated: Type.Optional(Type.Boolean()),
  /** Connection for querying the engine's pods before nodes are removed. */
  engine: Type.Object({ tls: Type.Boolean(), p2p: Type.Boolean() }),
})
export type UpgradePlan = Static<typeof UpgradePlan>

/** Plan of `cluster uninstall`. */
export const UninstallPlan = Type.Object({
  ...planFields,
  release: Type.String(),
  /** Volumes that are deleted after the release, by claim template and number of nodes. Absent: all are retained. */
  deletedVolumes: Type.Optional(
    Type.Object({
      templates: Type.Array(Type.String()),
      nodes: Type.Integer({ minimum: 0 }),
    }),
  ),
})
export type UninstallPlan = Static<typeof UninstallPlan>

/** Plan of `backup run`. The list of collections may be long: the Job reads it from the immutable spec. */
export const BackupPlan = Type.Object({
  ...planFields,
  cluster: Connection,
  /** uid of the VecCluster. */
  clusterUid: Type.Optional(Type.String()),
  storage: S3Target,
  method: BackupMethod,
  /** Backup by shard: number of concurrent streams. */
  parallelism: Type.Integer({ minimum: 1 }),
})
export type BackupPlan = Static<typeof BackupPlan>

/** Plan of `backup purge`: deletes the objects of a VecBackup that is being deleted. */
export const PurgePlan = Type.Object({ ...planFields, storage: S3Target })
export type PurgePlan = Static<typeof PurgePlan>

/** One collection of a backup, as reported in the annotation. */
export const BackedUpCollection = Type.Object({
  name: Type.String(),
  status: BackupPhase('How far it is.'),
  /** Bytes of its snapshots. */
  bytes: Type.Optional(Type.Integer({ minimum: 0 })),
  /** It has no points. */
  isEmpty: Type.Optional(Type.Literal(true)),
  snapshots: Type.Optional(
    Type.Array(
      Type.Object({
        node: Type.Integer({ minimum: 0 }),
        shard: Type.Optional(Type.Integer({ minimum: 0 })),
        snapshotName: Type.String(),
        key: Type.String(),
      }),
    ),
  ),
  error: Type.Optional(Type.String()),
})
export type BackedUpCollection = Static<typeof BackedUpCollection>

/** Progress of a backup. The list has failures first; collections that do not fit are counted. */
export const BackupResult = Type.Object({
  /** When its first attempt started. */
  startedAt: Timestamp(),
  /** Collections to back up; 0 until they are known. */
  total: Type.Integer({ minimum: 0 }),
  completed: Type.Integer({ minimum: 0 }),
  failed: Type.Integer({ minimum: 0 }),
  /** Bytes of all completed snapshots. */
  bytes: Type.Integer({ minimum: 0 }),
  /** uid of the VecCluster. */
  clusterUid: Type.Optional(Type.String({ maxLength: 63 })),
  /** Hashes of the names of all completed collections (crds/contract/names.ts). */
  collectionHashes: Type.Optional(Type.String({ maxLength: 8000 })),
  /** The same of those that had no points. */
  emptyCollectionHashes: Type.Optional(Type.String({ maxLength: 8000 })),
  /** Error of the first failed collection, or of the whole backup. */
  error: Type.Optional(Type.String()),
  collections: Type.Array(BackedUpCollection),
  /** Collections that are not in the list, by state. */
  unlisted: Type.Object({
    completed: Type.Integer({ minimum: 0 }),
    failed: Type.Integer({ minimum: 0 }),
    pending: Type.Integer({ minimum: 0 }),
  }),
  /** Position while the backup is running. */
  current: Type.Optional(
    Type.Object({
      collection: Type.String(),
      /** n of `total`. */
      number: Type.Integer({ minimum: 0 }),
      /** Backup by node: the node whose snapshot is uploaded, n of `nodes`. */
      node: Type.Optional(Type.Integer({ minimum: 0 })),
      nodes: Type.Optional(Type.Integer({ minimum: 0 })),
      /** Backup by shard: the shards that are complete in the bucket, of all. */
      shardsDone: Type.Optional(Type.Integer({ minimum: 0 })),
      shards: Type.Optional(Type.Integer({ minimum: 0 })),
      /** Bytes of the current snapshot, or of all shards; a total of 0 means not known yet. */
      bytes: Type.Integer({ minimum: 0 }),
      bytesTotal: Type.Integer({ minimum: 0 }),
      bytesPerSecond: Type.Optional(Type.Integer({ minimum: 0 })),
      secondsLeft: Type.Optional(Type.Integer({ minimum: 0 })),
    }),
  ),
})
export type BackupResult = Static<typeof BackupResult>

/** A name, a uid or a hash. Limited, because every client that may patch the resource can write the report, and the service holds it in memory. */
function ShortString() {
  return Type.String({ maxLength: 253 })
}

/** The report of a Job. A resource has one report at a time: that of its newest Job. */
export const Progress = Type.Object({
  /** uid of the resource; a report with another uid belongs to an earlier resource of the same name and is ignored. */
  uid: ShortString(),
  verb: ShortString(),
  run: Type.Integer({ minimum: 1 }),
  /** uid of the Job. */
  job: ShortString(),
  /** uid of the running pod; another pod that reads it stops. */
  runner: ShortString(),
  /** Hash of the plan. */
  plan: ShortString(),
  state: Enum(['Started', 'Done', 'Failed', 'Refused']),
  at: Timestamp(),
  startedAt: Timestamp(),
  /** Reason of the state Failed or Refused, such as HelmFailed or ShardsWouldBeLost. */
  reason: Type.Optional(ShortString()),
  message: Type.Optional(Type.String({ maxLength: MAX_REPORT_MESSAGE })),
  /** VecCluster: carried over from report to report. */
  applied: Type.Optional(AppliedRelease),
  /** VecCluster: carried over from report to report. */
  shards: Type.Optional(ShardsResult),
  /** VecBackup. */
  backup: Type.Optional(BackupResult),
  /** VecRestore; carried over from report to report. */
  restore: Type.Optional(RestoreResult),
  /** VecMigration; carried over from report to report. */
  migration: Type.Optional(MigrationResult),
})
export type Progress = Static<typeof Progress>

/** Compiled, because every sync of every resource reads a report. */
const progressValidator = TypeCompiler.Compile(Progress)

/** Encodes a plan for the environment variable. Throws `Rejected` naming the field when the plan is too large. */
export function encodePlan(plan: object, field: string): string {
  const text = gzipSync(JSON.stringify(plan), { level: 9 }).toString('base64')
  if (text.length > MAX_PLAN_BYTES) {
    throw new Rejected(
      `${field} is too large: ${text.length} of ${MAX_PLAN_BYTES} bytes compressed`,
    )
  }
  return text
}

/** Decodes the plan of a Job. */
export function decodePlan<Schema extends TSchema>(schema: Schema, text: string): Static<Schema> {
  return Value.Parse(
    ['Assert'],
    schema,
    JSON.parse(gunzipSync(Buffer.from(text, 'base64')).toString()),
  )
}

/** The report in a resource's annotation; undefined without a valid report of this resource. */
export function parseProgress(text: string | undefined, uid: string): Progress | undefined {
  const progress = parseReport(text)
  return progress?.uid === uid ? progress : undefined
}

/** The report in an annotation, of any resource. */
export function parseReport(text: string | undefined): Progress | undefined {
  if (text === undefined) return undefined
  try {
    const progress: unknown = JSON.parse(text)
    return progressValidator.Check(progress) ? progress : undefined
  } catch {
    // Every client that may patch the resource can write this annotation; ignore an invalid one.
    return undefined
  }
}
