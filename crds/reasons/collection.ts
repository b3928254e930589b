/** Reasons of a VecCollection's conditions and Events. */
import { NOTHING_TO_DO, NOT_WATCHED, type Reason } from './reason.ts'

const NOT_READY = { type: 'Ready', status: 'False' } as const

export const COLLECTION_REASONS: readonly Reason[] = [
  {
    reason: 'CollectionReady',
    condition: { type: 'Ready', status: 'True' },
    event: 'Normal',
    messages: ['collection, indexes and aliases match spec'],
    cause: 'What the engine shows is what the spec declares.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'Reconciling',
    condition: NOT_READY,
    messages: ['the first look at the engine is under way'],
    cause: 'The engine takes more than a second to answer.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'ClusterNotFound',
    condition: NOT_READY,
    messages: ['cluster <namespace>/<name> not found'],
    cause: 'There is no VecCluster that spec.clusterRef names.',
    fix: 'Make the cluster; spec.clusterRef is immutable, so a wrong name needs a new resource.',
  },
  {
    reason: 'ClusterNotServed',
    condition: NOT_READY,
    messages: [NOT_WATCHED],
    cause:
      'The operator was told to serve some namespaces only, and that of the cluster is not one.',
    fix: 'Add it to the chart value operator.namespaces; to delete the resource alone, set spec.deletionPolicy to Retain.',
  },
  {
    reason: 'RefNotPermitted',
    condition: NOT_READY,
    event: 'Warning',
    messages: [
      'cluster <namespace>/<name> does not allow namespace <namespace>: add it to the annotation vec-operator.dev/allow-from of the cluster',
      'cluster <namespace>/<name> does not allow namespace <namespace>: add it to the annotation vec-operator.dev/allow-from of the cluster, or set the chart value crossNamespace to open',
    ],
    cause: 'The cluster is in another namespace and does not allow this one to use it.',
    fix: 'Add this namespace to the annotation vec-operator.dev/allow-from of the VecCluster, or install with crossNamespace: open.',
  },
  {
    reason: 'ClusterNotReady',
    condition: NOT_READY,
    messages: ['cluster <namespace>/<name> not ready'],
    cause: 'The engine does not say that it is ready, or did not answer a moment ago.',
    fix: 'Look at the VecCluster; it goes on by itself.',
  },
  {
    reason: 'ImmutableFieldMismatch',
    condition: NOT_READY,
    event: 'Warning',
    messages: ['<path>: wanted <value>, live <value>'],
    cause: 'The live collection differs in what is fixed when it is made. Nothing was touched.',
    fix: 'Set the spec back; or make a collection of another name, copy the points and move the alias.',
  },
  {
    reason: 'UnsupportedFields',
    condition: NOT_READY,
    event: 'Warning',
    messages: ['engine <version> ignores <paths>'],
    cause:
      'The engine takes these fields and does not keep them: a typing error, or an engine too old to know them.',
    fix: 'Put the names right or leave them out; they are tried again when spec or engine version changes.',
  },
  {
    reason: 'EngineRefused',
    condition: NOT_READY,
    event: 'Warning',
    messages: [
      '<method> <path> on <node> answered <status>: <words of the engine>',
      'payloadIndexes[<field>]: <words of the engine>',
    ],
    cause:
      'The engine does not accept what the spec declares, or its consensus is dead ("Channel closed").',
    fix: 'Change the field its words name; for "Channel closed" see ConsensusStopped of the VecCluster.',
  },
  {
    reason: 'EngineNotAnswering',
    condition: NOT_READY,
    messages: [
      '<method> <path> got no answer: <error>',
      '<method> <path> on <node> answered <status>: <words of the engine>',
    ],
    cause: 'The engine did not answer, or was too busy (408, 429, 5xx).',
    fix: 'Nothing, if it passes: it is tried again after 30 s, or when the engine says so.',
  },
  {
    reason: 'KubernetesNotAnswering',
    condition: NOT_READY,
    messages: [
      '<method> <path> got no answer: <error>',
      '<method> <path> answered <status>: <words of the API>',
    ],
    cause: 'The service could not read a Secret or a Lease from the Kubernetes API.',
    fix: 'Nothing, if it passes; else look at the rights of the service account of the operator.',
  },
  {
    reason: 'Waiting',
    condition: NOT_READY,
    messages: [
      'waits for <kind> <namespace>/<name>, which holds the cluster',
      'collection <name> was made and is not visible yet',
      'collection <name> was deleted meanwhile',
    ],
    cause: 'A restore holds the cluster, so nothing is written; or the engine has not settled.',
    fix: 'Nothing; it goes on once what it names has ended.',
  },
  {
    reason: 'CollectionMissing',
    condition: NOT_READY,
    event: 'Warning',
    messages: [
      'collection <name> is gone from the engine; it had <n> points. Restore a backup, or set the annotation vec-operator.dev/accept-risk to empty-collection to have it created empty',
    ],
    cause:
      'A collection that had points was deleted in the engine, or the node that answers lost its volume. It is not replaced by an empty one.',
    fix: 'Look at the condition Consensus of the VecCluster first. Restore a backup with a VecRestore; where the points are not needed, set the annotation.',
  },
  {
    reason: 'CollectionRecreated',
    event: 'Warning',
    messages: ['collection <name> was gone from the engine and was created again, empty'],
    cause:
      'The collection was deleted in the engine. It had no points when it was last looked at, or the annotation vec-operator.dev/accept-risk allows it.',
    fix: 'Find out who deleted it.',
  },
  {
    reason: 'IndexesPending',
    condition: NOT_READY,
    messages: [
      '<n> payload indexes are about to be made',
      'payload indexes not settled yet: <fields>',
    ],
    cause: 'Payload indexes are being made or built.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'AliasClaimed',
    condition: NOT_READY,
    event: 'Warning',
    messages: [
      'alias <alias> is claimed by <kind> <namespace>/<name>',
      'alias <alias> is claimed by <kind> <namespace>/<name> and points at collection <name>',
    ],
    cause:
      'Two VecCollections declare the same alias; the one it points at, or the older, keeps it.',
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
    cause: 'The name is taken by an older resource or by an alias, or the spec contradicts itself.',
    fix: 'Delete one of the two resources, or choose another spec.collectionName in a new one.',
  },
  {
    reason: 'InternalError',
    condition: NOT_READY,
    messages: ['collection <name>: internal error: <error>; the log of the service has it'],
    cause: 'A defect of the operator; the log of the service has its stack.',
    fix: 'Report it with the log of the service; it is tried again after 30 s.',
  },
  {
    reason: 'Deleting',
    condition: NOT_READY,
    messages: [
      'collection <name> is being deleted',
      'collection <name> cannot be deleted yet: <why>',
    ],
    cause:
      'The resource is deleted with policy Delete, and the engine has not let the collection go.',
    fix: 'Mend what it names; or set spec.deletionPolicy to Retain, and the collection stays.',
  },
  {
    reason: 'AllReplicasActive',
    condition: { type: 'Replicated', status: 'True' },
    messages: ['<n> of <n> replicas are Active'],
    cause: 'Each shard has as many Active copies as spec.replicationFactor asks for.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'ReplicasMissing',
    condition: { type: 'Replicated', status: 'False' },
    messages: ['<n> of <n> replicas are Active'],
    cause: 'A node is down, or the factor was raised: the engine makes no copies by itself.',
    fix: 'Bring the node back, or replicate the shards with the engine (`POST /collections/<name>/cluster`).',
  },
]
