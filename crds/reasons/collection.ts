/** Reasons of a VecCollection's conditions and Events. */
import { NOTHING_TO_DO, NOT_WATCHED, type Reason } from './reason.ts'

const NOT_READY = { type: 'Ready', status: 'False' } as const

export const COLLECTION_REASONS: readonly Reason[] = [
  {
    reason: 'CollectionReady',
    condition: { type: 'Ready', status: 'True' },
    event: 'Normal',
    messages: ['collection, indexes and aliases match spec'],
    cause: 'The live collection matches the spec.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'Reconciling',
    condition: NOT_READY,
    messages: ['waiting for the first response from the engine'],
    cause: 'The engine takes more than a second to respond.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'ClusterNotFound',
    condition: NOT_READY,
    messages: ['cluster <namespace>/<name> not found'],
    cause: 'There is no VecCluster that spec.clusterRef names.',
    fix: 'Create the VecCluster. spec.clusterRef is immutable: a wrong name requires a new VecCollection.',
  },
  {
    reason: 'ClusterNotServed',
    condition: NOT_READY,
    messages: [NOT_WATCHED],
    cause:
      'The operator watches only some namespaces, and the namespace of the cluster is not one of them.',
    fix: 'Add the namespace to the chart value operator.namespaces. To delete only the resource, set spec.deletionPolicy to Retain.',
  },
  {
    reason: 'RefNotPermitted',
    condition: NOT_READY,
    event: 'Warning',
    messages: [
      'cluster <namespace>/<name> does not allow namespace <namespace>: add it to the annotation vec-operator.dev/allowed-namespaces of the cluster',
      'cluster <namespace>/<name> does not allow namespace <namespace>: add it to the annotation vec-operator.dev/allowed-namespaces of the cluster, or set the chart value crossNamespace to open',
    ],
    cause: 'The cluster is in another namespace and does not allow this one to use it.',
    fix: 'Add this namespace to the annotation vec-operator.dev/allowed-namespaces of the VecCluster, or install with crossNamespace: open.',
  },
  {
    reason: 'ClusterNotReady',
    condition: NOT_READY,
    messages: [
      'cluster <namespace>/<name> not ready: <response or error>',
      'cluster <namespace>/<name> not ready: a recent call got no answer: <error>',
    ],
    cause:
      'The engine does not report that it is ready, or did not respond to a recent call. The message says what the operator received.',
    fix: 'Check the VecCluster. If the certificate of the engine is not trusted, put its authority into ca.crt of the TLS Secret. The reconcile continues automatically.',
  },
  {
    reason: 'ClusterHibernated',
    condition: NOT_READY,
    messages: [
      'cluster <namespace>/<name> is hibernated: no pods run until its spec.hibernate is false',
    ],
    cause: 'spec.hibernate of the VecCluster is true. The data is in the volumes of its nodes.',
    fix: 'Set spec.hibernate: false in the VecCluster. The reconcile continues automatically.',
  },
  {
    reason: 'ImmutableFieldMismatch',
    condition: NOT_READY,
    event: 'Warning',
    messages: ['<path>: desired <value>, live <value>'],
    cause:
      'The live collection differs in a field that cannot be changed after its creation. Nothing was changed.',
    fix: 'Revert the spec; or create a collection with another name, write the points into it and move the alias. A VecMigration copies them if only the number of shards differs.',
  },
  {
    reason: 'UnsupportedFields',
    condition: NOT_READY,
    event: 'Warning',
    messages: ['engine <version> ignores <paths>'],
    cause:
      'The engine accepts these fields but does not store them: a misspelled name, or a field that this version does not support.',
    fix: 'Correct or remove the fields. They are retried when the spec or the engine version changes.',
  },
  {
    reason: 'EngineRefused',
    condition: NOT_READY,
    event: 'Warning',
    messages: [
      '<method> <path> on <node> answered <status>: <message of the engine>',
      'payloadIndexes[<field>]: <message of the engine>',
    ],
    cause:
      'The engine rejects a value of the spec, or its consensus has stopped ("Channel closed").',
    fix: 'Change the field that the message names. For "Channel closed" see ConsensusStopped of the VecCluster.',
  },
  {
    reason: 'EngineNotAnswering',
    condition: NOT_READY,
    messages: [
      '<method> <path> got no answer: <error>',
      '<method> <path> on <node> answered <status>: <message of the engine>',
    ],
    cause: 'The engine did not respond, or was too busy (408, 429, 5xx).',
    fix: 'Nothing if it is temporary: the call is retried after 30 s, or after the time that the engine specifies.',
  },
  {
    reason: 'KubernetesNotAnswering',
    condition: NOT_READY,
    messages: [
      '<method> <path> got no answer: <error>',
      '<method> <path> answered <status>: <message of the API>',
    ],
    cause: 'The service could not read a Secret or a Lease from the Kubernetes API.',
    fix: 'Nothing if it is temporary. Otherwise check the permissions of the service account of the operator.',
  },
  {
    reason: 'Waiting',
    condition: NOT_READY,
    messages: [
      'waiting for <kind> <namespace>/<name>, which holds the write Lease of the cluster',
      'the pods have the versions <versions>: waiting until they have the same minor version to write <paths>',
      'collection <name> was created but is not visible yet',
      'collection <name> was deleted during the reconcile',
    ],
    cause:
      'A restore holds the write Lease of the cluster, so nothing is written; or an update of the cluster has reached only some pods, and an older engine may not know these values; or a change is not visible in the engine yet.',
    fix: 'Nothing; the reconcile continues automatically. If an update of the cluster does not continue, do what the condition Progressing of the VecCluster says.',
  },
  {
    reason: 'CollectionMissing',
    condition: NOT_READY,
    event: 'Warning',
    messages: [
      'collection <name> is missing from the engine; it had <n> points. Restore a backup, or set the annotation vec-operator.dev/accept-risk to empty-collection to create it empty',
    ],
    cause:
      'A collection that had points was deleted in the engine, or the node that responds lost its volume. The operator does not replace it with an empty collection.',
    fix: 'Check the condition Consensus of the VecCluster first. Restore a backup with a VecRestore, or set the annotation if the points are not needed, and remove it once the collection exists.',
  },
  {
    reason: 'CollectionRecreated',
    event: 'Warning',
    messages: ['collection <name> was missing from the engine and was recreated empty'],
    cause:
      'The collection was deleted in the engine. It had no points at the last reconcile, or the annotation vec-operator.dev/accept-risk accepts the loss.',
    fix: 'Find out which client deleted it.',
  },
  {
    reason: 'IndexesPending',
    condition: NOT_READY,
    messages: [
      '<n> payload indexes are about to be created',
      'payload indexes in progress: <fields>',
    ],
    cause: 'Payload indexes are being created or built.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'AliasClaimed',
    condition: NOT_READY,
    event: 'Warning',
    messages: [
      'alias <alias> is claimed by <kind> <namespace>/<name>',
      'alias <alias> is claimed by <kind> <namespace>/<name> and points at collection <name>',
      'alias <alias> is the collection of <kind> <namespace>/<name>',
    ],
    cause:
      'Two VecCollections declare the same alias. The one that it points at keeps it, or else the older one.',
    fix: 'Remove the alias from one of them.',
  },
  {
    reason: 'Conflict',
    condition: NOT_READY,
    event: 'Warning',
    messages: [
      'collection <name> belongs to <kind> <namespace>/<name>',
      '<name> is an alias of collection <name>',
      'payloadIndexes: <field> and <field> are the same field',
    ],
    cause: 'The name belongs to an older resource or to an alias, or the spec contradicts itself.',
    fix: 'Delete one of the two resources, or create a new one with another spec.collectionName.',
  },
  {
    reason: 'InternalError',
    condition: NOT_READY,
    messages: ['collection <name>: internal error: <error>; see the log of the service'],
    cause: 'A defect of the operator; the log of the service has its stack.',
    fix: 'Report it together with the log of the service. The reconcile is retried after 30 s.',
  },
  {
    reason: 'Deleting',
    condition: NOT_READY,
    messages: [
      'collection <name> is being deleted',
      'collection <name> cannot be deleted yet: <why>',
    ],
    cause:
      'The resource is being deleted with deletionPolicy Delete, and the collection still exists in the engine.',
    fix: 'Fix the cause in the message, or set spec.deletionPolicy to Retain to keep the collection.',
  },
  {
    reason: 'AllReplicasActive',
    condition: { type: 'Replicated', status: 'True' },
    messages: ['<n> of <n> replicas are Active'],
    cause: 'Each shard has as many Active replicas as spec.replicationFactor specifies.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'ReplicasMissing',
    condition: { type: 'Replicated', status: 'False' },
    messages: ['<n> of <n> replicas are Active'],
    cause:
      'A node is down, or the factor was raised. A Job of the VecCluster creates missing replicas, unless its spec.healing.replicas is false.',
    fix: 'Nothing while the condition ShardsPlaced of the VecCluster reports progress; otherwise do what its message says. With spec.healing.replicas: false, replicate the shards with the API of the engine (`POST /collections/<name>/cluster`).',
  },
  {
    reason: 'Resharding',
    condition: { type: 'Resharding', status: 'True' },
    messages: [
      'shard <n> is being added, stage <stage>; desired are <n> shards; setting spec.shardNumber to <n> aborts it',
      'shard <n> is being added, stage <stage>, about <n> of <n> points are copied: <step>; desired are <n> shards; setting spec.shardNumber to <n> aborts it',
      'shard <n> is being added, stage <stage>: <step>; desired are <n> shards; it can only be completed: reads use the new number of shards',
      'shard <n> is being removed, stage <stage>; desired are <n> shards; setting spec.shardNumber to <n> aborts it',
      'shard <n> is being removed, stage <stage>, about <n> of <n> points are copied: <step>; desired are <n> shards; setting spec.shardNumber to <n> aborts it',
      'shard <n> is being removed, stage <stage>: <step>; desired are <n> shards; it can only be completed: reads use the new number of shards',
      'shard <n> is being <added or removed>, stage <stage>: <step>; desired are <n> shards; it is aborted, because spec.shardNumber was set back',
      'shard <n> is being <added or removed>, stage <stage>; desired are <n> shards; it is aborted, if that is still possible: its record is lost',
    ],
    cause: 'The cluster changes the number of shards to spec.shardNumber, one after the other.',
    fix: 'Nothing. Setting spec.shardNumber to the former number aborts it while its stage is migrate. From the stage commit on it is completed first; the former number is reached afterwards.',
  },
  {
    reason: 'ReshardingPending',
    condition: { type: 'Resharding', status: 'False' },
    messages: [
      '<n> shards, desired <n>',
      '<n> shards, desired <n>: the cluster has <reason>: <message>',
      '<n> shards, desired <n>: the cluster has <reason>; the condition ShardsPlaced of the VecCluster, in namespace <namespace>, has the details',
    ],
    cause:
      'The number of shards differs from spec.shardNumber, and the cluster has not begun to change it.',
    fix: 'Nothing, or what the condition ShardsPlaced of the VecCluster says.',
  },
  {
    reason: 'ShardNumberReached',
    condition: { type: 'Resharding', status: 'False' },
    messages: ['<n> shards, as in spec.shardNumber'],
    cause: 'The collection has the number of shards that the spec asks for.',
    fix: NOTHING_TO_DO,
  },
]
