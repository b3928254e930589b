/** Limits shared by the service and the Jobs: sizes, intervals and timeouts, each in the unit of its name. Also the part sizes of uploads. */

export const MAX_VECTORS = 64
export const MAX_SPARSE_VECTORS = 64
export const MAX_PAYLOAD_INDEXES = 256
export const MAX_ALIASES = 64
export const MAX_KEY_COLLECTIONS = 256
export const MAX_VALUE_MATCHES = 32
export const MAX_BATCH_SIZE = 10_000
export const DEFAULT_BATCH_SIZE = 256
export const RECENT_BACKUPS = 10
/** Number of shards that a backup streams concurrently. */
export const DEFAULT_PARALLELISM = 2
/** The most that fit in the memory of a Job with parts of 8 MiB; fewer large shards are streamed concurrently. */
export const MAX_PARALLELISM = 8
export const DELETE_BATCH_KEYS = 1000

/** `vec-<name>-<i>` and the StatefulSet's revision label must fit 63 characters. */
export const MAX_CLUSTER_NAME = 48
/** `<schedule>-<YYYYmmdd-HHMMSS>` must fit 63 characters. */
export const MAX_SCHEDULE_NAME = 47

export const READINESS_CHECK_SECONDS = 30
export const FIRST_READINESS_CHECK_SECONDS = 10
export const COLLECTION_RECONCILE_SECONDS = 60
export const KEY_RENEWAL_SECONDS = 60
export const SCHEDULE_TICK_SECONDS = 60
export const EXPIRY_CHECK_SECONDS = 300
export const RETRY_SECONDS = 30
/** A child was just created or stopped, or a report is in transit: check again soon. */
export const REQUEUE_SOON_SECONDS = 2
/** Bounds of the Retry-After of an engine that is honored: a thousand collections may query one engine. */
export const MIN_RETRY_AFTER_SECONDS = 5
export const MAX_RETRY_AFTER_SECONDS = 300

export const HELM_TIMEOUT_SECONDS = 600
export const LONG_CALL_TIMEOUT_SECONDS = 3600
export const SHORT_CALL_TIMEOUT_SECONDS = 30
/** How long the engine itself waits for the replicas of a new collection and for any other metadata write. */
export const CREATE_TIMEOUT_SECONDS = 60
/**
 * How long the engine waits until a change that work on shards asks for is agreed on. Short: if the collection is deleted
 * meanwhile, the asked node applies no other change for that time (docs/engine-notes.md).
 */
export const SHARD_CHANGE_TIMEOUT_SECONDS = 5
/** Short: a write that is sent during a change of leader is lost and takes the whole timeout. */
export const WRITE_TIMEOUT_SECONDS = 15
/** Connections to one host, independent of the number of resources that use it. */
export const ENGINE_CONNECTIONS = 10
export const PRESIGNED_URL_SECONDS = 3600
export const GREEN_POLL_SECONDS = 5
export const GREEN_TIMEOUT_SECONDS = 3600
export const PROGRESS_EVERY_BATCHES = 20
/** Up to this number points are counted exactly: the engine then holds about 260 MB of ids. */
export const MAX_EXACT_POINTS = 5_000_000
/** Timeout of a count; a count that has not finished by then is unknown. */
export const COUNT_TIMEOUT_SECONDS = 30
/** The engine's own limit for reads that name none. */
export const ENGINE_TIMEOUT_SECONDS = 60

/** A Job that has reported nothing for this long is deleted and recreated. */
export const FIRST_REPORT_TIMEOUT_SECONDS = 600
/** A Job without a running pod for longer than this is said to have none. */
export const JOB_START_SECONDS = 60
/** A Job repeats its report every minute; without a report for this long its status says so. */
export const STALE_REPORT_SECONDS = 600
/** A Job that is not in Metacontroller's cache after this time has lost its label. */
export const JOB_CACHE_TIMEOUT_SECONDS = 120
/** How long to wait after a Job's end for its final report. */
export const FINAL_REPORT_TIMEOUT_SECONDS = 30
/** Delay before the work on shards is tried again after a failure. */
export const SHARDS_RETRY_SECONDS = 300
/** The least time between two Jobs on shards with the same plan, unless the first ended early for others. */
export const SHARDS_REPEAT_SECONDS = 60
/** The nodes are asked for their shards at most this often, and less often if there are many collections. */
export const SHARDS_CHECK_SECONDS = 60
export const MAX_SHARDS_CHECK_SECONDS = 600
/** Delay before a Job is retried that refused because of the engine's state. */
export const REFUSED_RETRY_SECONDS = 600
/** A Job gives up reporting, and its attempt, after its reports are refused for this long. */
export const REPORT_TIMEOUT_SECONDS = 600

/** A backup that spec.hibernate has caused counts for this long: pods that are stopped later need another one. */
export const HIBERNATION_BACKUP_SECONDS = 3600

/** How long a Job that is being deleted blocks a cluster that its namespace may not use. */
export const JOB_STOP_TIMEOUT_SECONDS = 120

/** How long a holder keeps a Lease without a Job. */
export const LEASE_DURATION_SECONDS = 300
/** The least remaining time of a Lease when a Job is created: with less, the Job may appear too late. */
export const LEASE_MARGIN_SECONDS = 60
/** A waiting resource checks a Lease every RETRY_SECONDS; after this long without a check it leaves the queue. */
export const LEASE_WAITER_TIMEOUT_SECONDS = 180
/** Delay after which a restore that holds the Leases checks once more for other running work on the cluster. */
export const LEASE_RECHECK_SECONDS = 15
/** How often a restore renews its record in the bucket that it reads a backup. */
export const READER_RENEWAL_SECONDS = 300
/** How long after the last renewal a purge waits for such a restore. */
export const READER_TIMEOUT_SECONDS = 1800
/**
 * How long, from the deletion of a backup, its purge waits for restores in namespaces that it does not allow
 * and that name its location in the bucket; it waits longer only for restores that have a record there.
 */
export const FOREIGN_READER_TIMEOUT_SECONDS = 21_600
/** How long a finished backup of a schedule lists its snapshots in its status. */
export const BACKUP_DETAILS_SECONDS = 86_400
/** Maximum body size of a hook request. */
export const MAX_REQUEST_BYTES = 10 * 1024 * 1024
/** Size of a schedule's backups in a request: above the first value the schedule warns, above the second it creates no more. */
export const LARGE_HISTORY_BYTES = 4 * 1024 * 1024
export const MAX_HISTORY_BYTES = 8 * 1024 * 1024
/** How long a purge retries in a terminating namespace. */
export const PURGE_TIMEOUT_SECONDS = 600
/** Pause after a failed purge Job. */
export const PURGE_JOB_RETRY_SECONDS = 300

/** Maximum size of a plan, which an environment variable contains, in bytes of base64. */
export const MAX_PLAN_BYTES = 96 * 1024
/** Maximum size of the progress annotation: the limit of all annotations together is 256 KiB. */
export const MAX_PROGRESS_BYTES = 64 * 1024
/** Characters of the message in the progress annotation. */
export const MAX_REPORT_MESSAGE = 2048

/** Names in a list of collections; with 255 characters each they fit in an object of etcd. */
export const MAX_COLLECTIONS = 1000
/** Collections that one VecMigration copies: its report has capacity for a few bytes of each. */
export const MAX_MIGRATED_COLLECTIONS = 5000
/** A Job reads a manifest of this size in its 512 MiB of memory: that of about 150,000 shards. */
export const MAX_MANIFEST_BYTES = 64 * 1024 * 1024
/** Dimensions the engine allows for a dense vector. */
export const MAX_VECTOR_SIZE = 65_536

const MIB = 2 ** 20

/** Part size while 10,000 parts are enough for the object. */
export const DEFAULT_PART_BYTES = 8 * MIB
export const MAX_PARTS = 10_000
/** Maximum size of an object in a store. */
export const MAX_OBJECT_BYTES = 5 * 2 ** 40
/** The next part is filled while one part is sent. */
export const MIN_PART_BUFFERS = 2
/** Memory of a Job without its parts: measured at 110 to 140 MiB, plus a margin for memory that is not freed yet. */
export const JOB_BASE_BYTES = 200 * MIB

/** Every part of an upload except the last has this size: some stores accept no other parts. */
export function uploadPartBytes(sizeBytes: number): number {
  return Math.max(DEFAULT_PART_BYTES, Math.ceil(sizeBytes / MAX_PARTS / MIB) * MIB)
}

/** Memory of a Job that uploads objects of up to this size one at a time. */
export function uploadJobBytes(sizeBytes: number): number {
  return JOB_BASE_BYTES + MIN_PART_BUFFERS * uploadPartBytes(Math.min(sizeBytes, MAX_OBJECT_BYTES))
}
