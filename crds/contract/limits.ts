/** Every number the specification sets (chapter Limits): sizes, intervals and time-outs, in the unit of the name. */

export const MAX_VECTORS = 64
export const MAX_SPARSE_VECTORS = 64
export const MAX_PAYLOAD_INDEXES = 256
export const MAX_ALIASES = 64
export const MAX_KEY_COLLECTIONS = 256
export const MAX_VALUE_MATCHES = 32
export const MAX_BATCH_SIZE = 10_000
export const DEFAULT_BATCH_SIZE = 256
export const RECENT_BACKUPS = 10
/** Shards of a backup that are streamed at once. */
export const DEFAULT_PARALLELISM = 2
/** As many fit the memory of a Job in parts of 8 MiB (crds/contract/limits.ts); of large shards, fewer are streamed. */
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
/** A child was just made or stopped, or a report is on its way: look again soon. */
export const REQUEUE_SOON_SECONDS = 2
/** What an engine asks for in Retry-After is heeded between these: a thousand collections may ask it. */
export const MIN_RETRY_AFTER_SECONDS = 5
export const MAX_RETRY_AFTER_SECONDS = 300

export const HELM_TIMEOUT_SECONDS = 600
export const LONG_CALL_TIMEOUT_SECONDS = 3600
export const SHORT_CALL_TIMEOUT_SECONDS = 30
/** How long the engine itself waits: for the replicas of a new collection, and for any other metadata write. */
export const CREATE_TIMEOUT_SECONDS = 60
/** Short: a write that is sent while a leader is replaced is lost, and takes all of it. */
export const WRITE_TIMEOUT_SECONDS = 15
/** Connections to one host, however many resources ask it. */
export const ENGINE_CONNECTIONS = 10
export const PRESIGNED_URL_SECONDS = 3600
export const GREEN_POLL_SECONDS = 5
export const GREEN_TIMEOUT_SECONDS = 3600
export const PROGRESS_EVERY_BATCHES = 20
/** Up to here points are counted exactly: the engine holds about 260 MB of ids for so many. */
export const MAX_EXACT_POINTS = 5_000_000
/** So long a count may take; what it then has not counted is not known. */
export const COUNT_TIMEOUT_SECONDS = 30
/** The engine's own limit for reads that name none. */
export const ENGINE_TIMEOUT_SECONDS = 60

/** A Job that has reported nothing for so long is deleted and made again (design: a plan is frozen). */
export const FIRST_REPORT_TIMEOUT_SECONDS = 600
/** A Job that has reported repeats its report every minute; without any for so long it is said to be silent. */
export const STALE_REPORT_SECONDS = 600
/** A Job that Metacontroller's cache does not show by then has lost its label. */
export const JOB_CACHE_TIMEOUT_SECONDS = 120
/** Past a Job's end, so long is waited for the report that tells how it ended. */
export const FINAL_REPORT_TIMEOUT_SECONDS = 30
/** A refusal by the engine's state is asked again after so long. */
export const REFUSED_RETRY_SECONDS = 600
/** A Job gives up reporting, and its attempt, after being refused for so long. */
export const REPORT_TIMEOUT_SECONDS = 600

/** A Job that is being deleted in a namespace that may not use a cluster holds that up for so long. */
export const JOB_STOP_TIMEOUT_SECONDS = 120

/** Who took a Lease holds it for so long without a Job. */
export const LEASE_DURATION_SECONDS = 300
/** What is left of that time when a Job is made: past it, the Job may appear too late. */
export const LEASE_MARGIN_SECONDS = 60
/** Who waits for a Lease looks every RETRY_SECONDS; after so long without a look it waits no more. */
export const LEASE_WAITER_TIMEOUT_SECONDS = 180
/** A restore that holds the Leases looks once more, after so long, who is at work on the cluster. */
export const LEASE_RECHECK_SECONDS = 15
/** A restore that records in the bucket that it reads a backup renews that so often. */
export const READER_RENEWAL_SECONDS = 300
/** A purge waits for such a restore for so long after its last renewal. */
export const READER_TIMEOUT_SECONDS = 1800
/**
 * From the deletion of a backup on, its purge waits for so long for restores of namespaces that it does not
 * allow and that name its place in the bucket; longer only for those that record themselves there.
 */
export const FOREIGN_READER_TIMEOUT_SECONDS = 21_600
/** A finished backup of a schedule names its snapshots in its status for so long. */
export const BACKUP_DETAILS_SECONDS = 86_400
/** What a hook accepts of one request. */
export const MAX_REQUEST_BYTES = 16 * 1024 * 1024
/** A schedule whose backups fill a request so far says so, and past the second creates no more. */
export const LARGE_HISTORY_BYTES = 4 * 1024 * 1024
export const MAX_HISTORY_BYTES = 8 * 1024 * 1024
/** In a namespace that ends, a purge gives up after so long. */
export const PURGE_TIMEOUT_SECONDS = 600

/** A plan travels in an environment variable; above this it is refused, in bytes of base64. */
export const MAX_PLAN_BYTES = 96 * 1024
/** The progress annotation is a summary: all annotations together may have 256 KiB. */
export const MAX_PROGRESS_BYTES = 64 * 1024
/** Characters of the message in it. */
export const MAX_REPORT_MESSAGE = 2048

/** Names in a list of collections; with 255 characters each they fit an object of etcd. */
export const MAX_COLLECTIONS = 1000
/** Collections one VecMigration copies: its report has room for a few bytes of each. */
export const MAX_MIGRATED_COLLECTIONS = 5000
/** Dimensions the engine allows for a dense vector. */
export const MAX_VECTOR_SIZE = 65_536

const MIB = 2 ** 20

/** Size of parts for as long as an object of 10,000 of them is large enough. */
export const DEFAULT_PART_BYTES = 8 * MIB
export const MAX_PARTS = 10_000
/** What stores take as one object. */
export const MAX_OBJECT_BYTES = 5 * 2 ** 40
/** While one part is sent, the next is filled. */
export const MIN_PART_BUFFERS = 2
/** What a Job needs besides the parts it holds: measured at 110 to 140 MiB, and some for what is still to be freed. */
export const JOB_BASE_BYTES = 200 * MIB

/** Every part of an upload but the last has this size: some stores take no others. */
export function uploadPartBytes(sizeBytes: number): number {
  return Math.max(DEFAULT_PART_BYTES, Math.ceil(sizeBytes / MAX_PARTS / MIB) * MIB)
}

/** Memory of a Job that uploads objects of up to this size, one at a time. */
export function uploadJobBytes(sizeBytes: number): number {
  return JOB_BASE_BYTES + MIN_PART_BUFFERS * uploadPartBytes(Math.min(sizeBytes, MAX_OBJECT_BYTES))
}
