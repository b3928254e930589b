/**
 * The texts of `status.error` of a Failed backup, restore or migration, with their causes and fixes. The page
 * of each kind has the same table; `vec-operator explain` finds the row by its patterns.
 */
import type { Resource } from '../crd.ts'

export interface KnownFailure {
  /** Fixed parts of the text; `...`, and a single letter instead of a number, are variable parts. */
  patterns: readonly string[]
  cause: string
  fix: string
}

const JOB_CRASHED: KnownFailure = {
  patterns: ['Job crashed n times'],
  cause: 'pods of the Job crashed: out of memory, or a lost node',
  fix: 'check `kubectl describe` and `kubectl logs` of its pods',
}

export const FAILURES: Readonly<Partial<Record<Resource['kind'], readonly KnownFailure[]>>> = {
  VecBackup: [
    {
      patterns: ['403 ...', 'check the credentials, the bucket policy, ...'],
      cause: 'the store does not know the key, or denies access',
      fix: 'correct the keys in the Secret; allow list, read, write and delete below the prefix',
    },
    {
      patterns: ['NoSuchBucket'],
      cause: 'the endpoint has no bucket with this name',
      fix: 'create the bucket, or correct `endpoint` and `forcePathStyle`',
    },
    {
      patterns: ['the bucket is in region ...', 'AuthorizationHeaderMalformed'],
      cause: '`region` is not the region of the bucket',
      fix: 'correct `region`',
    },
    {
      patterns: ['the store is full'],
      cause: 'the storage of the bucket is full',
      fix: 'free space or raise the quota',
    },
    {
      patterns: ['got no answer'],
      cause: 'the store is unreachable, or its certificate is not trusted',
      fix: 'check network policies; put the CA certificate into the key `ca.crt` of the Secret',
    },
    {
      patterns: ['prefix holds another backup'],
      cause: 'the prefix has objects of another client',
      fix: 'use another name or prefix',
    },
    {
      patterns: ['is inside the folder of', 'contains the folder of another backup'],
      cause: 'the prefix of one backup is the folder of another',
      fix: 'use another name or prefix',
    },
    {
      patterns: ['there is no collection ...'],
      cause: '`collections` names a missing collection, or an alias',
      fix: 'name the collection itself',
    },
    {
      patterns: ['shard ... on node ... is Dead', 'is being transferred'],
      cause: 'a replica did not become Active in time',
      fix: 'repair the cluster first: a restore would recover the broken replica',
    },
    {
      patterns: ['needs parts of ...', 'stores take 5 TiB as one object'],
      cause: 'the snapshot is larger than the Job, or any store, can handle',
      fix: 'follow the message',
    },
    {
      patterns: ['no space left', 'enable snapshotPersistence or grow the data volume'],
      cause: 'the snapshot does not fit on the node',
      fix: 'enable `snapshotPersistence` or use a larger data volume',
    },
    {
      patterns: ['has the SHA-256 ..., but the engine reported ...'],
      cause: 'the data was corrupted in transit',
      fix: 'check the disk and memory of the node',
    },
    {
      patterns: ['stream of shard ... ended early', 'broke off'],
      cause: 'three retries failed as well',
      fix: 'check the log of that pod; for `took nothing for ... s`, the speed of the store',
    },
    {
      patterns: ['did not stay Active until the end of its stream'],
      cause: 'writes to that replica failed during the stream',
      fix: 'repair the cluster first',
    },
    {
      patterns: ['the nodes do not see one cluster', 'do not list the same collections'],
      cause: 'a node lost its volume or its connection to the others, and forms a separate cluster',
      fix: 'repair the cluster first: a backup of one part would not contain the data of the others',
    },
    {
      patterns: ['knows of no leader', 'follow different leaders', 'consensus is ... on node'],
      cause: 'the nodes have lost consensus',
      fix: 'check the logs of the pods and the network between them; restart the named pod',
    },
    {
      patterns: ['the nodes do not hold the same collection'],
      cause: 'a node did not apply that the collection was deleted and recreated',
      fix: 'repair that node, as after the loss of its volume',
    },
    {
      patterns: ['the nodes run different versions'],
      cause: 'an upgrade was still in progress after ten minutes',
      fix: 'wait for the upgrade, then create another VecBackup',
    },
    {
      patterns: ['created no snapshot of ...: see its log'],
      cause: 'the engine accepted the snapshot and could not write it',
      fix: 'check the log of that pod, and the free space on its data volume',
    },
    {
      patterns: ['did not complete the snapshot of ... in', 'other snapshots of'],
      cause: 'the node writes less than 1 MiB/s, or creates snapshots for other clients',
      fix: 'check its disk; delete unused snapshots',
    },
    {
      patterns: ['was discarded: ...'],
      cause: 'a replica did not stay Active during its snapshot, four times',
      fix: 'repair the cluster first: a restore would recover the incomplete replica',
    },
    {
      patterns: ['changed 3 times while it was backed up'],
      cause:
        'the collection was recreated or changed, its shards were moved, or nodes were upgraded',
      fix: 'back it up while no client changes it',
    },
    JOB_CRASHED,
  ],
  VecRestore: [
    {
      patterns: ['Backup was taken from n nodes but target cluster has m; ...'],
      cause: 'each node gets the snapshot of the node with its ordinal',
      fix: 'use a cluster of n replicas, or a backup by shard',
    },
    {
      patterns: ['manifest.json: collection ... shard ...'],
      cause: 'a shard is missing, listed twice, or has the key of another one',
      fix: 'check `manifest.json`; use another backup',
    },
    {
      patterns: ['shard n of ... has m points on node i, but its snapshot holds k'],
      cause: 'points are missing, or clients deleted some at the target; the rest is there',
      fix: 'stop clients and restore again, or use another backup',
    },
    {
      patterns: ['shard n of ... has m points on node i, but k on node j'],
      cause: 'its replicas differ; the data is restored',
      fix: 'stop clients and restore again',
    },
    {
      patterns: ['shard n of ... is on no node'],
      cause: 'another client removed it during the restore',
      fix: 'restore again while no client changes the collection',
    },
    {
      patterns: ['... is empty after the restore, but n points were counted ...'],
      cause: 'the backup contains none of its points',
      fix: 'use another backup',
    },
    {
      patterns: ['the points are restored, but not all of the aliases ...'],
      cause: 'the engine rejected them; its message is at the end',
      fix: 'create the aliases yourself',
    },
    {
      patterns: ['shard n of ... is no longer on node m'],
      cause: 'another client moved it during the restore',
      fix: 'restore again while no client moves shards',
    },
    {
      patterns: ['node n has disks of ..., but ... to go there'],
      cause: 'the data does not fit',
      fix: 'add nodes, or use larger volumes',
    },
    {
      patterns: ['Collections not present in backup: ...'],
      cause: 'they failed in the backup, or never existed',
      fix: 'check `manifest.json`',
    },
    {
      patterns: ['collectionMapping ...'],
      cause: 'a name that is not restored, or two sources for one target',
      fix: 'correct the mapping',
    },
    {
      patterns: ['Backup was taken by engine ... but the target runs ...'],
      cause: 'only the same minor version and the next one can read a snapshot',
      fix: 'restore into a cluster of that version, then upgrade it',
    },
    {
      patterns: ['... is at the target with other ... than in the backup'],
      cause: 'vectors, shards or shard keys differ',
      fix: 'use `collectionMapping`, or delete the collection',
    },
    {
      patterns: ['n shard ids of ... are no longer in use ...'],
      cause: 'by node every id must be equal, and there are too many old ids to skip',
      fix: 'use a backup with `method: Shard`; for keys with several shards, a VecMigration',
    },
    {
      patterns: ['shards ... of shard key ... are not consecutive'],
      cause: 'the key was resharded: the engine cannot create these ids',
      fix: 'restore over a collection that has them, or use a VecMigration',
    },
    {
      patterns: ['... is an alias of collection ... at the target'],
      cause: 'a collection cannot have the name of an alias',
      fix: 'use `collectionMapping`, or delete the alias',
    },
    {
      patterns: ['priority ... is refused'],
      cause: 'it would stop consensus for good, or leave replicas that differ',
      fix: 'use `priority: snapshot`',
    },
    {
      patterns: ['manifest.json has no manifestVersion: ...'],
      cause: 'another program wrote it to the folder of a VecBackup',
      fix: 'set the folder as `spec.source`',
    },
    {
      patterns: [
        'shard n of ... was Dead on node m when ...',
        'no node has a snapshot of shard ...',
        '... have different configurations ...',
      ],
      cause:
        'the other program backed up a collection that was incomplete, or changed during the backup',
      fix: 'use another backup',
    },
    {
      patterns: [
        '... it is no snapshot of a collection ...',
        'has no tar header ...',
        'ends at byte ...',
      ],
      cause: 'the object is not a complete snapshot of a node',
      fix: 'use another backup',
    },
    {
      patterns: ['s3://... is missing', 'has n bytes, not the m of the manifest'],
      cause: 'the object was deleted or truncated',
      fix: 'use another backup',
    },
    {
      patterns: [
        'the nodes do not see one cluster',
        'do not list the same collections',
        'the nodes know of n peers, ...',
      ],
      cause:
        'a node lost its volume or its connection to the others, or a removed node is still a peer, after a wait of ten minutes',
      fix: 'repair the cluster; remove peers that have no pod',
    },
    {
      patterns: ['a restore into several nodes needs 1.17.1'],
      cause: 'the target runs an older engine',
      fix: 'upgrade the target',
    },
    {
      patterns: ['consensus is ... on node n'],
      cause: 'the cluster accepts no changes any more',
      fix: 'check its condition Consensus; restore into a new cluster',
    },
    {
      patterns: ['... is red: ...'],
      cause: 'an optimizer of the engine failed, often because the disk is full',
      fix: 'use a larger volume; the data is restored',
    },
    {
      patterns: ['Collection did not turn green in time'],
      cause: 'indexing took more than an hour; the data is restored',
      fix: 'wait, or set `waitForIndexing: false`',
    },
    {
      patterns: [
        'node n did not respond whether ...',
        'node n has been recovering ...',
        'an earlier release of the operator started ...',
      ],
      cause: 'a node may still run a recovery whose client has disconnected',
      fix: 'restart the pod, which ends the recovery, and restore again',
    },
    JOB_CRASHED,
  ],
  VecMigration: [
    {
      patterns: ['Collections not present in source: ...'],
      cause: '`collections` names a collection that the source does not have, or an alias',
      fix: 'name the collection itself',
    },
    {
      patterns: ['Collection missing on target and createMissing is false'],
      cause: 'the collection or one of its shard keys is missing on the target',
      fix: 'create it, or set `createMissing: true`',
    },
    {
      patterns: ['answered 401', 'answered 403'],
      cause: 'wrong or missing key, or a token without read access',
      fix: 'correct the key in the Secret',
    },
    {
      patterns: ['got no answer', 'certificate'],
      cause: 'the source is unreachable, or its certificate is not trusted',
      fix: 'check network policies; set `caSecretRef`',
    },
    {
      patterns: ['does not fit: dimension error: ...'],
      cause: 'the target collection has another vector size',
      fix: 'use `collectionMapping`, or delete the collection',
    },
    {
      patterns: ['does not fit: ...'],
      cause: 'names of vectors, distance, datatype or sharding differ',
      fix: 'use `collectionMapping`, or delete the collection',
    },
    {
      patterns: ['... is an alias of ... on the target'],
      cause: 'points would go into another collection',
      fix: 'use `collectionMapping`',
    },
    {
      patterns: ['both ... and ... would be copied to ...'],
      cause: 'two collections under one name',
      fix: 'use `collectionMapping`',
    },
    {
      patterns: ['n missing on the target', 'n different on the target'],
      cause: 'clients wrote points faster than the migration could copy them again',
      fix: 'stop writing, and create another VecMigration',
    },
    {
      patterns: ['n on the target only', 'shard keys on the target only'],
      cause: 'deleted on the source during the migration, or written to the target',
      fix: 'delete them on the target',
    },
    {
      patterns: ['shard keys not compared: ...'],
      cause: 'the source keeps creating shard keys',
      fix: 'create another VecMigration',
    },
    {
      patterns: ['n of about m points of ... cannot be read'],
      cause: 'deferred until they are indexed (`prevent_unoptimized`)',
      fix: 'stop writing until the collection is green',
    },
    {
      patterns: ['the source counts about n points and shows m'],
      cause: 'hidden until they are indexed, or being resharded',
      fix: 'wait until it is green and resharding has finished',
    },
    {
      patterns: ['... was created on the source while others ...'],
      cause: 'the source keeps creating collections',
      fix: 'create another VecMigration',
    },
    {
      patterns: ['the source has n collections, and one VecMigration copies ...'],
      cause: 'its report cannot hold more',
      fix: 'distribute them over the `spec.collections` of several VecMigrations',
    },
    {
      patterns: ['indexing_threshold of ... 0 on the target: set it to n'],
      cause: 'no pod could restore the setting: the target did not respond, or pods crashed',
      fix: 'set it to n with a PATCH of the collection',
    },
    {
      patterns: ['collection ... was deleted at the ...'],
      cause: 'a client deleted it; the other collections are copied',
      fix: 'create another VecMigration',
    },
    {
      patterns: ['the point ... has n bytes, more than the target takes'],
      cause: '`service.max_request_size_mb` of the target is smaller',
      fix: 'raise it in the `config` of the VecCluster',
    },
    JOB_CRASHED,
  ],
}

/** The number of letters of the fixed parts that are in the text; 0 without a match. */
export function failureMatchScore({ patterns }: KnownFailure, text: string): number {
  const matching = patterns.filter((pattern) =>
    new RegExp(toRegExpSource(pattern), 'su').test(text),
  )
  return Math.max(0, ...matching.map((pattern) => pattern.replaceAll(/\P{L}/gu, '').length))
}

function toRegExpSource(pattern: string): string {
  const parts = pattern.split(/\.\.\.|\b[nmk]\b/u)
  return parts.map((part) => part.replaceAll(/[\\^$.*+?()[\]{}|/]/g, '\\$&')).join('.+?')
}
