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
  cause: 'pods of the Job died, by memory or by the node',
  fix: '`kubectl describe` and `kubectl logs` of its pods',
}

export const FAILURES: Readonly<Partial<Record<Resource['kind'], readonly KnownFailure[]>>> = {
  VecBackup: [
    {
      patterns: ['403 ...', 'check the credentials, the bucket policy, ...'],
      cause: 'the store does not know the key, or forbids it',
      fix: 'write the right keys into the Secret; allow list, read, write and delete below the prefix',
    },
    {
      patterns: ['NoSuchBucket'],
      cause: 'no bucket of that name at this endpoint',
      fix: 'make the bucket; look at `endpoint` and `forcePathStyle`',
    },
    {
      patterns: ['the bucket is in region ...', 'AuthorizationHeaderMalformed'],
      cause: '`region` is another than that of the bucket',
      fix: 'name the right one',
    },
    { patterns: ['the store is full'], cause: 'the store has no room', fix: 'make room' },
    {
      patterns: ['got no answer'],
      cause: 'no way to the store, or its certificate is not trusted',
      fix: 'look at network policies; put its authority into the key `ca.crt` of the Secret',
    },
    {
      patterns: ['prefix holds another backup'],
      cause: "somebody else's objects are under that prefix",
      fix: 'another name or prefix',
    },
    {
      patterns: ['is inside the folder of', 'contains the folder of another backup'],
      cause: 'the prefix of one backup is the folder of another',
      fix: 'another name or prefix',
    },
    {
      patterns: ['there is no collection ...'],
      cause: '`collections` names one that is missing, or an alias',
      fix: 'name the collection itself',
    },
    {
      patterns: ['shard ... on node ... is Dead', 'is on its way'],
      cause: 'a copy did not become whole in time',
      fix: 'mend the cluster first: a restore would bring back the broken copy',
    },
    {
      patterns: ['needs parts of ...', 'stores take 5 TiB as one object'],
      cause: 'the snapshot is larger than the Job, or any store, takes',
      fix: 'as it says',
    },
    {
      patterns: ['no space left', 'enable snapshotPersistence or grow the data volume'],
      cause: 'the snapshot does not fit on the node',
      fix: 'as it says',
    },
    {
      patterns: ['has the SHA-256 ..., but the engine said ...'],
      cause: 'the bytes changed on the way',
      fix: "look at the node's disk and memory",
    },
    {
      patterns: ['stream of shard ... ended early', 'broke off'],
      cause: 'three more tries did not bring it to its end',
      fix: 'look at the log of that pod; with `took nothing for ... s`, at the speed of the store',
    },
    {
      patterns: ['did not stay Active until the end of its stream'],
      cause: 'writes failed on that copy meanwhile',
      fix: 'mend the cluster first',
    },
    {
      patterns: ['the nodes do not see one cluster', 'do not list the same collections'],
      cause: 'a node lost its volume or its way to the others, and is a cluster of its own',
      fix: 'repair the cluster first: a backup of one part would lack what the others hold',
    },
    {
      patterns: ['knows of no leader', 'follow different leaders', 'consensus is ... on node'],
      cause: 'the nodes have lost consensus',
      fix: 'look at the logs of the pods and at the network between them; restart the pod named',
    },
    {
      patterns: ['the nodes do not hold the same collection'],
      cause: 'a node missed that the collection was dropped and created again',
      fix: 'repair that node, as after the loss of its volume',
    },
    {
      patterns: ['the nodes run different versions'],
      cause: 'an upgrade was still rolling after ten minutes',
      fix: 'wait for the upgrade, then make another VecBackup',
    },
    {
      patterns: ['made no snapshot of ...: its log says why'],
      cause: 'the engine accepted the snapshot and could not write it',
      fix: 'look at the log of that pod, and at the space on its data volume',
    },
    {
      patterns: ['has not made the snapshot of ... in', 'other snapshots of'],
      cause: 'the node writes less than 1 MiB/s, or is making snapshots for others',
      fix: 'look at its disk; delete the snapshots that nobody needs',
    },
    {
      patterns: ['does not count: ...'],
      cause: 'a copy did not stay Active while its snapshot was made, four times',
      fix: 'repair the cluster first: a restore would bring back the incomplete copy',
    },
    {
      patterns: ['changed 3 times while it was backed up'],
      cause:
        'the collection was created again or changed, its shards moved, or nodes were upgraded',
      fix: 'back it up while nobody changes it',
    },
    JOB_CRASHED,
  ],
  VecRestore: [
    {
      patterns: ['Backup was taken from n nodes but target cluster has m; ...'],
      cause: 'each node gets the snapshot of the node with its ordinal',
      fix: 'a cluster of n replicas, or a backup by shard',
    },
    {
      patterns: ['manifest.json: collection ... shard ...'],
      cause: "a shard is missing, doubled, or under another's key",
      fix: 'look into `manifest.json`; another backup',
    },
    {
      patterns: ['shard n of ... has m points on node i, but its snapshot holds k'],
      cause: 'points are missing, or clients deleted some at the target; the rest is there',
      fix: 'stop clients, and restore again; another backup',
    },
    {
      patterns: ['shard n of ... has m points on node i, but k on node j'],
      cause: 'its copies differ; the data is there',
      fix: 'stop clients, and restore again',
    },
    {
      patterns: ['shard n of ... is on no node'],
      cause: 'another client removed it during the restore',
      fix: 'restore again while nobody changes the collection',
    },
    {
      patterns: ['... came back empty, but n points were counted ...'],
      cause: 'the backup holds none of its points',
      fix: 'another backup',
    },
    {
      patterns: ['the points are back, but not all of the aliases ...'],
      cause: 'the engine refused them; its words are at the end',
      fix: 'create the aliases yourself',
    },
    {
      patterns: ['shard n of ... is no longer on node m'],
      cause: 'somebody moved it while it was restored',
      fix: 'let the cluster rest, and restore again',
    },
    {
      patterns: ['node n has disks of ..., but ... to go there'],
      cause: 'it cannot fit',
      fix: 'more nodes, or larger volumes',
    },
    {
      patterns: ['Collections not present in backup: ...'],
      cause: 'they failed in the backup, or never were there',
      fix: 'look into `manifest.json`',
    },
    {
      patterns: ['collectionMapping ...'],
      cause: 'a name that is not restored, or two sources for one target',
      fix: 'mend the mapping',
    },
    {
      patterns: ['Backup was taken by engine ... but the target runs ...'],
      cause: 'a snapshot is read by the same minor version or the next one',
      fix: 'a cluster of that version, then upgrade',
    },
    {
      patterns: ['... is at the target with other ... than in the backup'],
      cause: 'vectors, shards or shard keys differ',
      fix: '`collectionMapping`, or drop it',
    },
    {
      patterns: ['n shard ids of ... are no longer in use ...'],
      cause: 'by node every id has to be equal, and old ones are too many to be skipped',
      fix: 'a backup with `method: Shard`; keys with several shards: a VecMigration',
    },
    {
      patterns: ['shards ... of shard key ... are not consecutive'],
      cause: 'the key was resharded: the engine creates no such ids',
      fix: 'restore over a collection that has them, or a VecMigration',
    },
    {
      patterns: ['... is an alias of collection ... at the target'],
      cause: 'a collection cannot have the name of an alias',
      fix: '`collectionMapping`, or drop the alias',
    },
    {
      patterns: ['priority ... is refused'],
      cause: 'it would stop consensus for good, or leave copies that differ',
      fix: '`priority: snapshot`',
    },
    {
      patterns: ['manifest.json has no manifestVersion: ...'],
      cause: 'another program wrote it into the folder of a VecBackup',
      fix: 'name the folder as `spec.source`',
    },
    {
      patterns: [
        'shard n of ... was Dead on node m when ...',
        'no node has a snapshot of shard ...',
        '... have different configurations ...',
      ],
      cause:
        'the other program backed up a collection that was not whole, or was changed meanwhile',
      fix: 'another backup',
    },
    {
      patterns: [
        '... it is no snapshot of a collection ...',
        'has no tar header ...',
        'ends at byte ...',
      ],
      cause: 'the object is not a whole snapshot of a node',
      fix: 'another backup',
    },
    {
      patterns: ['s3://... is missing', 'has n bytes, not the m of the manifest'],
      cause: 'the object was deleted or cut',
      fix: 'another backup',
    },
    {
      patterns: [
        'the nodes do not see one cluster',
        'do not list the same collections',
        'the nodes know of n peers, ...',
      ],
      cause:
        'a node lost its volume or its way to the others, or one that was removed is still a peer; waited for, for ten minutes',
      fix: 'repair the cluster; remove peers that have no pod',
    },
    {
      patterns: ['a restore into several nodes needs 1.17.1'],
      cause: 'the target runs an older engine',
      fix: 'upgrade it',
    },
    {
      patterns: ['consensus is ... on node n'],
      cause: 'the cluster takes no change any more',
      fix: 'its condition Consensus; restore into a new cluster',
    },
    {
      patterns: ['... is red: ...'],
      cause: 'an optimiser of the engine failed, often for want of space',
      fix: 'grow the volume; the data is there',
    },
    {
      patterns: ['Collection did not turn green in time'],
      cause: 'indexing took over an hour; the data is there',
      fix: 'wait, or `waitForIndexing: false`',
    },
    {
      patterns: [
        'no answer came from node n whether ...',
        'node n has been recovering ...',
        'an earlier release of the operator began ...',
      ],
      cause: 'a node may still be at a recovery whose client has gone',
      fix: 'restart the pod, which ends it, and restore again',
    },
    JOB_CRASHED,
  ],
  VecMigration: [
    {
      patterns: ['Collections not present in source: ...'],
      cause: '`collections` names what the source does not list, or an alias',
      fix: 'name the collection itself',
    },
    {
      patterns: ['Collection missing on target and createMissing is false'],
      cause: 'as it says, or a shard key of it is missing',
      fix: 'make it, or let it be made',
    },
    {
      patterns: ['answered 401', 'answered 403'],
      cause: 'wrong or missing key, or a token without read access',
      fix: 'write the right key into the Secret',
    },
    {
      patterns: ['got no answer', 'certificate'],
      cause: 'no way to the source, or its authority is not trusted',
      fix: 'look at network policies; name `caSecretRef`',
    },
    {
      patterns: ['does not fit: dimension error: ...'],
      cause: 'the target collection has another vector size',
      fix: '`collectionMapping`, or drop it',
    },
    {
      patterns: ['does not fit: ...'],
      cause: 'names of vectors, distance, datatype or sharding differ',
      fix: 'likewise',
    },
    {
      patterns: ['... is an alias of ... on the target'],
      cause: 'points would go into another collection',
      fix: '`collectionMapping`',
    },
    {
      patterns: ['both ... and ... would be copied to ...'],
      cause: 'two collections under one name',
      fix: '`collectionMapping`',
    },
    {
      patterns: ['n missing on the target', 'n different on the target'],
      cause: 'they were written faster than they could be copied again',
      fix: 'stop writing, and make another VecMigration',
    },
    {
      patterns: ['n on the target only', 'shard keys on the target only'],
      cause: 'deleted on the source meanwhile, or written to the target',
      fix: 'delete them on the target',
    },
    {
      patterns: ['shard keys not compared: ...'],
      cause: 'the source creates shard keys all the time',
      fix: 'make another VecMigration',
    },
    {
      patterns: ['n of about m points of ... cannot be read'],
      cause: 'deferred until they are indexed (`prevent_unoptimized`)',
      fix: 'pause writing until the collection is green',
    },
    {
      patterns: ['the source counts about n points and shows m'],
      cause: 'hidden until they are indexed, or being resharded',
      fix: 'wait until it is green and resharding has ended',
    },
    {
      patterns: ['... was created on the source while others ...'],
      cause: 'the source creates collections all the time',
      fix: 'make another VecMigration',
    },
    {
      patterns: ['the source has n collections, and one VecMigration copies ...'],
      cause: 'its report has no room for more',
      fix: 'name them in `spec.collections` of several',
    },
    {
      patterns: ['indexing_threshold of ... 0 on the target: set it to n'],
      cause: 'no pod could put it back: the target did not answer, or pods died',
      fix: 'as it says, by a PATCH of the collection',
    },
    {
      patterns: ['collection ... was deleted at the ...'],
      cause: 'as it says; the other collections are copied',
      fix: 'make another VecMigration',
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
