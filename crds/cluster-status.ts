/** The status of a VecCluster. */
import { Type, type Static } from '@sinclair/typebox'
import { Enum, Timestamp, JobName, statusFields } from './schema.ts'

/** What identifies a node: a new peer or volume means that its data is lost. */
export const NodeStatus = Type.Object({
  ordinal: Type.Integer({ description: 'Number of the pod.' }),
  peer: Type.Integer({ format: 'int64', description: 'Id of the peer in the consensus.' }),
  volume: Type.Optional(Type.String({ description: 'uid of the PersistentVolumeClaim.' })),
  zone: Type.Optional(Type.String({ description: 'Topology zone of its Kubernetes node.' })),
  node: Type.Optional(Type.String({ description: 'Kubernetes node.' })),
  used: Type.Optional(
    Type.Integer({
      format: 'int64',
      description: 'Estimated bytes of its data, rounded to a hundredth of the volume.',
    }),
  ),
  capacity: Type.Optional(
    Type.Integer({ format: 'int64', description: 'Capacity of its data volume in bytes.' }),
  ),
})

export type NodeStatus = Static<typeof NodeStatus>

export const ReplacedPeer = Type.Object({
  ordinal: Type.Integer({ description: 'Number of the pod.' }),
  peer: Type.Integer({ format: 'int64', description: 'Id of the peer in the consensus.' }),
  isIgnored: Type.Optional(
    Type.Literal(true, {
      description:
        'The peer was a member when the annotation was first seen: it is not given up, also when it restarts later.',
    }),
  ),
})

export type ReplacedPeer = Static<typeof ReplacedPeer>

function AcceptingNodes(key: string) {
  return Type.Optional(
    Type.Array(Type.Integer(), {
      maxItems: 1000,
      description: `Numbers of the nodes that accept ${key}.`,
    }),
  )
}

export const status = Type.Object({
  phase: Type.Optional(
    Enum(['Pending', 'Upgrading', 'Draining', 'Running', 'Hibernated'], {
      description: 'State of the rollout.',
    }),
  ),
  replicas: Type.Optional(Type.Integer({ description: 'Desired number of nodes.' })),
  readyReplicas: Type.Optional(
    Type.Integer({ description: 'Nodes that the StatefulSet reports as ready.' }),
  ),
  version: Type.Optional(Type.String({ description: 'Version as last applied.' })),
  versionPlan: Type.Optional(
    Type.Array(Type.String(), {
      maxItems: 100,
      description:
        'Versions that are left on the way to spec.version, the present one first; absent if it is the next minor version.',
    }),
  ),
  podVersions: Type.Optional(
    Type.Array(Type.String(), {
      maxItems: 1000,
      description: 'Versions of the pods, the oldest first; only while they differ.',
    }),
  ),
  helmRelease: Type.Optional(Type.String({ description: 'vec-<name>' })),
  endpoint: Type.Optional(Type.String({ description: 'HTTP address of the client Service.' })),
  appliedGeneration: Type.Optional(
    Type.Integer({ format: 'int64', description: 'Generation that the last helm run applied.' }),
  ),
  appliedRun: Type.Optional(
    Type.Integer({ description: 'Number of the helm run whose rollout this status shows.' }),
  ),
  failedRun: Type.Optional(
    Type.Object(
      {
        reason: Type.String({ description: 'Why it failed.' }),
        message: Type.String({ description: 'As helm or its Job reported it.' }),
      },
      {
        description:
          'How the last helm run failed; only while the condition Applied also says what the next one waits for.',
      },
    ),
  ),
  formedNodes: Type.Optional(
    Type.Integer({
      description:
        'Number of nodes of the formed cluster, as last observed. From 2 on, node 0 joins the other nodes after it has lost its volume.',
    }),
  ),
  nodes: Type.Optional(
    Type.Array(NodeStatus, {
      maxItems: 1000,
      description: 'The nodes as last observed while all of them were members of the cluster.',
    }),
  ),
  replacedPeers: Type.Optional(
    Type.Array(ReplacedPeer, {
      maxItems: 1000,
      description:
        'Peers that the annotation vec-operator.dev/replace gave up. It has no effect on later peers of the same nodes.',
    }),
  ),
  pendingCertificate: Type.Optional(
    Type.Object(
      {
        hash: Type.String({ description: 'Of the certificate and its authorities.' }),
        revision: Type.Optional(
          Type.String({
            description:
              'Revision of the pods when it was first seen; absent once all pods were started after that.',
          }),
        ),
      },
      {
        description: 'A renewed certificate that the nodes are not restarted for.',
      },
    ),
  ),
  balancedNodes: Type.Optional(
    Type.Integer({
      description:
        'Number of nodes over which the shards were balanced last; 0 after a collection got another number of shards, and once shards are moved off a node to remove it.',
    }),
  ),
  shards: Type.Optional(
    Type.Object(
      {
        replicas: Type.Optional(Type.Integer({ description: 'Desired number of replicas.' })),
        activeReplicas: Type.Optional(
          Type.Integer({ description: 'Replicas that all nodes report as Active.' }),
        ),
        step: Type.Optional(Type.String({ description: 'Current step.' })),
        stepsDone: Type.Optional(Type.Integer({ description: 'Completed steps of this Job.' })),
        stepsLeft: Type.Optional(Type.Integer({ description: 'Steps that are left.' })),
        bytesMoved: Type.Optional(
          Type.Integer({ format: 'int64', description: 'Bytes that this Job has copied.' }),
        ),
        bytesLeft: Type.Optional(
          Type.Integer({ format: 'int64', description: 'Bytes that are left to copy.' }),
        ),
        bytesPerSecond: Type.Optional(
          Type.Integer({ format: 'int64', description: 'Current throughput.' }),
        ),
        secondsLeft: Type.Optional(Type.Integer({ description: 'Estimated time left.' })),
        resharding: Type.Optional(
          Type.Object(
            {
              collection: Type.String({ description: 'Name of the collection in the engine.' }),
              direction: Enum(['up', 'down'], {
                description: 'Whether a shard is added or removed.',
              }),
              shard: Type.Integer({ description: 'The shard that is added or removed.' }),
              stage: Enum(['unknown', 'migrate', 'commit', 'check'], {
                description:
                  'It can be aborted in migrate only, by setting spec.shardNumber back. From commit on it can only be completed.',
              }),
              points: Type.Optional(
                Type.Object(
                  {
                    copied: Type.Integer({ format: 'int64', description: 'Copied points.' }),
                    total: Type.Integer({ format: 'int64', description: 'Points to copy.' }),
                  },
                  {
                    description:
                      'Progress in migrate, from the numbers of points that the engine reports; approximate.',
                  },
                ),
              ),
            },
            { description: 'The change of the number of shards that is in progress.' },
          ),
        ),
        reshardings: Type.Optional(
          Type.Array(
            Type.Object({
              id: Type.String({ description: 'Its id in the engine.' }),
              collection: Type.String({ description: 'Name of the collection in the engine.' }),
              direction: Enum(['up', 'down'], {
                description: 'Whether a shard was added or removed.',
              }),
              shard: Type.Integer({ description: 'The shard that was added or removed.' }),
              stage: Enum(['migrate', 'commit', 'completed', 'incomplete', 'aborted', 'gone'], {
                description:
                  'The stage that it has reached, or how it has ended; gone if its collection was deleted meanwhile, incomplete if another client ended it before all points were known to be copied.',
              }),
            }),
            { description: 'The latest changes of a number of shards. Each stage was an Event.' },
          ),
        ),
        stepEvents: Type.Optional(
          Type.Object(
            {
              startTime: Timestamp({ description: 'When the Job began.' }),
              dropTime: Type.Optional(
                Timestamp({ description: 'Of the last Event about dropped replicas.' }),
              ),
              drop: Type.Integer({ description: 'Dropped replicas.' }),
              removePeer: Type.Integer({ description: 'Removed peers.' }),
              scaleDown: Type.Integer({ description: 'Removed pods.' }),
              deleteVolume: Type.Integer({ description: 'Deleted volumes.' }),
            },
            { description: 'Steps of the last Job that were Events.' },
          ),
        ),
      },
      { description: 'Replicas of shards, and the work on them.' },
    ),
  ),
  hibernationBackup: Type.Optional(
    Type.Object(
      {
        scheduleName: Type.String({ description: 'The VecBackupSchedule that creates it.' }),
        name: Type.String({ description: 'Name of the VecBackup.' }),
        requestTime: Timestamp({ description: 'When it was requested.' }),
        afterRun: Type.Integer({
          description:
            'Number of the helm run before it: pods that a later one started need another backup.',
        }),
        completionTime: Type.Optional(
          Timestamp({ description: 'When it was completed; the pods may be stopped then.' }),
        ),
      },
      { description: 'The backup of spec.hibernation; absent unless spec.hibernate is true.' },
    ),
  ),
  keyRotation: Type.Optional(
    Type.Object(
      {
        step: Enum(['Adding', 'Publishing', 'Overlap', 'Removing', 'NoSecondKey'], {
          description: 'What happens now.',
        }),
        publishedKey: Type.String({
          description:
            'The key in the Secret vec-<name>-apikey, as the first sixteen hex digits of its SHA-256.',
        }),
        formerKey: Type.Optional(
          Type.String({ description: 'The key that was published before, in the same form.' }),
        ),
        nextKey: Type.Optional(
          Type.String({ description: 'The key that is published next, in the same form.' }),
        ),
        overlapTime: Type.Optional(
          Timestamp({
            description:
              'Since when all nodes accept the former key in addition to the published one.',
          }),
        ),
        publishedVersion: Type.Optional(
          Type.String({
            description:
              'metadata.resourceVersion of the Secret vec-<name>-apikey since overlapTime. With another one, the overlap begins again.',
          }),
        ),
        acceptedBy: Type.Optional(
          Type.Object(
            {
              published: AcceptingNodes('the published key'),
              former: AcceptingNodes('the former key'),
              next: AcceptingNodes('the next key'),
            },
            { description: 'Nodes that have accepted a key when they were asked with it.' },
          ),
        ),
      },
      { description: 'The keys of spec.apiKey.rotation while there is more than one.' },
    ),
  ),
  volumeSize: Type.Optional(
    Type.String({
      description:
        'Size that the data volumes have by spec.persistence.autoGrow, or get by the next helm run, if it is larger.',
    }),
  ),
  selector: Type.Optional(
    Type.String({ description: 'Label selector of the pods, for the scale subresource.' }),
  ),
  jobName: JobName(),
  ...statusFields,
})
