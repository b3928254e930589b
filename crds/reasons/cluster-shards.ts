/** Reasons of the condition ShardsPlaced of a VecCluster: repair, removal and balance of shards and nodes. */
import { NOTHING_TO_DO, type Reason } from './reason.ts'

export const SHARDS_PLACED_REASONS: readonly Reason[] = [
  {
    reason: 'Placed',
    condition: { type: 'ShardsPlaced', status: 'True' },
    event: 'Normal',
    messages: [
      '<n> of <n> replicas are Active',
      '<n> of <n> replicas are Active; balance <what it waits for>',
      '<n> of <n> replicas are Active; resharding <what it waits for>',
      '<n> of <n> replicas are Active; the annotation vec-operator.dev/replace has no effect on <nodes>: it was set while the node was running',
    ],
    cause: 'Every shard has the replicas that it should have on the present nodes.',
    fix: 'Nothing. Remove an annotation that has no effect; a node that runs is not replaced.',
  },
  {
    reason: 'ReplicasNotActive',
    condition: { type: 'ShardsPlaced', status: 'False' },
    event: 'Warning',
    messages: [
      '<n> of <n> replicas are Active',
      '<n> of <n> replicas are Active: <what is waited for>',
      '<n> of <n> replicas are Active; spec.healing.replicas is false, so they are not repaired',
    ],
    cause:
      'Replicas are missing, or their nodes do not answer or report them in another state. The engine repairs most of them by itself; the operator repairs the rest after at most ten minutes.',
    fix: 'If it lasts, check the pods that are not ready. With spec.healing.replicas false, repair the replicas with the API of the engine.',
  },
  {
    reason: 'Repairing',
    condition: { type: 'ShardsPlaced', status: 'False' },
    event: 'Normal',
    messages: [
      'Job <name> is in progress',
      'creating ServiceAccount, Role and RoleBindings of the Job',
      'acquiring the Leases of the cluster',
      'the Leases of the cluster are acquired; checking once more for other work on it',
      'waiting for <kind> <namespace>/<name>',
      'creating Job <name>',
    ],
    cause:
      'A Job creates missing replicas and copies Active ones over defective ones, or waits for a copy that an earlier Job has left.',
    fix: 'Nothing; status.shards has the current step, and `kubectl logs job/<name>` all of them.',
  },
  {
    reason: 'ReplacingNode',
    condition: { type: 'ShardsPlaced', status: 'False' },
    event: 'Normal',
    messages: ['Job <name> is in progress'],
    cause:
      'A node has lost its data. A Job drops its replicas, of which others are Active, so that its pod joins as a new node, and then creates the replicas again.',
    fix: 'Nothing; status.shards has the current step.',
  },
  {
    reason: 'Draining',
    condition: { type: 'ShardsPlaced', status: 'False' },
    event: 'Normal',
    messages: [
      'Job <name> is in progress',
      'spec.replicas: <n> -> <n> is applied node by node, once the shards of each removed node are on other nodes',
      'spec.replicas: <n> -> <n> waits until the nodes report their shards',
      'spec.replicas: <n> -> <n> waits until the nodes report their shards: <error>',
      'spec.replicas: <n> -> <n> waits until consensus works',
      'spec.replicas: <n> -> <n> waits: <what is waited for>',
      'node <n> was removed from the cluster: its pod is removed before spec.replicas is applied',
      'the removal of node <n> waits: <what is waited for>',
      'the removal of node <n> waits until the nodes report their shards',
    ],
    cause:
      'spec.replicas was lowered. A Job moves the shards of the last node to others, removes the node, and continues with the next one. The condition Applied has the same reason meanwhile.',
    fix: 'Nothing; status.shards has the current step and the time left. Raising spec.replicas again stops it after the current step; a node that the others have removed already is removed first, and joins again as a new one.',
  },
  {
    reason: 'Updating',
    condition: { type: 'ShardsPlaced', status: 'False' },
    event: 'Normal',
    messages: ['Job <name> is in progress'],
    cause:
      'A Job updates the pods one by one, from the highest number down, and checks the replicas of each node before and after.',
    fix: 'Nothing; status.shards has the current step.',
  },
  {
    reason: 'Balancing',
    condition: { type: 'ShardsPlaced', status: 'False' },
    event: 'Normal',
    messages: ['Job <name> is in progress'],
    cause:
      'A Job moves shards to nodes with less data, after the number of nodes has changed (spec.shards.balance).',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'Resharding',
    condition: { type: 'ShardsPlaced', status: 'False' },
    event: 'Normal',
    messages: ['Job <name> is in progress'],
    cause:
      'A Job changes the number of shards of a collection to spec.shardNumber of its VecCollection.',
    fix: 'Nothing; status.shards.resharding has the stage. Setting spec.shardNumber to the former number aborts it while its stage is migrate. From the stage commit on it is completed first.',
  },
  {
    reason: 'ShardStep',
    event: 'Normal',
    messages: [
      '<collection>/<shard>: replicating from <node> to <node>',
      '<collection>/<shard>: repairing the replica on <node> from <node>',
      'updating <node>',
      'updating <node>; shards of <collections> are not available until it is ready',
      '<collection>/<shard>: dropping the replica on <node>',
      '<collection>/<shard>: dropping the replica on <node>; <n> more since the last Event',
      'removing <node> from the cluster',
      'lowering the StatefulSet to <n> pods',
      'deleting the volume of <node>',
    ],
    cause:
      'The Job on the shards has begun to copy a replica or to update a node; or it has dropped a replica, removed a node from the cluster, removed its pod or deleted its volume. Replicas that are dropped within a minute are one Event.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'ReshardingStarted',
    event: 'Normal',
    messages: [
      '<collection>: adding shard <n> has begun; setting spec.shardNumber to <n> aborts it',
      '<collection>: removing shard <n> has begun; setting spec.shardNumber to <n> aborts it',
    ],
    cause: 'The Job has begun to change the number of shards of a collection, and copies points.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'ReshardingCommitted',
    event: 'Normal',
    messages: [
      '<collection>: adding shard <n> can only be completed from here on: reads use the new number of shards',
      '<collection>: removing shard <n> can only be completed from here on: reads use the new number of shards',
    ],
    cause: 'All points are copied, and reads use the new number of shards: the stage commit.',
    fix: 'Nothing. If spec.shardNumber is set back now, the former number is reached by another change after this one.',
  },
  {
    reason: 'ReshardingCompleted',
    event: 'Normal',
    messages: [
      '<collection>: adding shard <n> is complete',
      '<collection>: removing shard <n> is complete',
    ],
    cause:
      'The collection has one shard more or less, and each replica has points of its own shard only.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'ReshardingIncomplete',
    event: 'Warning',
    messages: [
      '<collection>: adding shard <n> was ended by another client before all points were known to be copied: some may be missing',
      '<collection>: removing shard <n> was ended by another client before all points were known to be copied: some may be missing',
    ],
    cause:
      'commit_read_hash_ring, commit_write_hash_ring and finish_resharding were called by hand while the operator copied points. The former shards still have the points that were not copied to an added shard, and reads do not find them; the points of a removed shard that were not copied are lost.',
    fix: 'Compare the collection with its source, and write the missing points again or restore it from a backup that was made before.',
  },
  {
    reason: 'ReshardingAborted',
    event: 'Normal',
    messages: [
      '<collection>: adding shard <n> was aborted; it has <n> shards',
      '<collection>: removing shard <n> was aborted; it has <n> shards',
      '<collection>: adding shard <n> has ended, because the collection was deleted',
      '<collection>: removing shard <n> has ended, because the collection was deleted',
    ],
    cause:
      'spec.shardNumber was set back, a node or a transfer failed before reads used the new number of shards, or the collection was deleted. No point is lost.',
    fix: 'While spec.shardNumber asks for another number, it is started again.',
  },
  {
    reason: 'LostNode',
    condition: { type: 'ShardsPlaced', status: 'False' },
    event: 'Warning',
    messages: [
      'node <n> has lost its data (<evidence>): every shard on it has an Active replica on another node, so it can be replaced: annotate the VecCluster with vec-operator.dev/replace="<n>"',
      'node <n> has lost its data (<evidence>): every shard on it has an Active replica on another node, so it can be replaced: remove the annotation vec-operator.dev/replace, which gave up the earlier peer <peer>, and set vec-operator.dev/replace="<n>" again',
      'node <n> has lost its data (<evidence>): every shard on it has an Active replica on another node, so it can be replaced: remove the annotation vec-operator.dev/replace, which was set while the node was running, and set vec-operator.dev/replace="<n>" again',
      'node <n> has lost its data (<evidence>): every shard on it has an Active replica on another node, so it is replaced once this has lasted for ten minutes; to have it done at once, annotate the VecCluster with vec-operator.dev/replace="<n>"',
      'node <n> has lost its data (<evidence>): no other node has an Active replica of <shards>: restore them from a backup (a VecRestore with spec.shards), or delete their collections; the newest Completed backups: <backups>',
      'node <n> has lost its data (<evidence>): no other node has an Active replica of <shards>: restore them from a backup (a VecRestore with spec.shards), or delete their collections; no Completed VecBackup of the cluster exists',
      'node <n> has lost its data (<evidence>): no majority is left (<n> of <n> nodes), so no node can be replaced: restore a backup into a new cluster; the newest Completed backups: <backups>',
      'node <n> has lost its data (<evidence>): no majority is left (<n> of <n> nodes), so no node can be replaced: restore a backup into a new cluster; no Completed VecBackup of the cluster exists',
    ],
    cause:
      'The volume of the node was deleted or replaced, or its Kubernetes node with a local volume is gone. The engine does not let an empty node take the place of one that still has shards, so the pod restarts again and again. If half of the nodes or more are lost, the others can agree on nothing, also not on a replacement.',
    fix: 'Set the annotation that the message names, or spec.healing.lostNodes: WhenSafe to have it done without asking. Shards without another replica come back only from a backup. Without a majority, restore a backup into a new cluster; the nodes that are left still answer reads of what they have.',
  },
  {
    reason: 'VolumeIntact',
    condition: { type: 'ShardsPlaced', status: 'False' },
    event: 'Warning',
    messages: [
      'node <n>, which the annotation vec-operator.dev/replace names, is not replaced while its volume exists, with which its pod could not join as a new node: repair the pod, or delete PersistentVolumeClaim <claim> and pod <pod>, and the node is replaced; every shard on it has an Active replica on another node',
      'node <n>, which the annotation vec-operator.dev/replace names, is not replaced while its volume exists, with which its pod could not join as a new node: repair the pod, or delete PersistentVolumeClaim <claim> and pod <pod>, and the node is replaced; no other node has an Active replica of <shards>, which would be lost',
    ],
    cause:
      'The annotation was set for a node whose pod is not a member of the cluster, and its volume is the one that status.nodes records. The volume names a peer: once the others have removed that peer, the pod never joins again with it. The operator does not delete a volume that may have data.',
    fix: 'If the pod can be repaired, repair it and remove the annotation. If its data is damaged, or its Kubernetes node does not come back, delete the claim and the pod: the node is replaced within a minute after that, without another annotation.',
  },
  {
    reason: 'LastReplicaLost',
    condition: { type: 'ShardsPlaced', status: 'False' },
    event: 'Warning',
    messages: [
      'no other node has an Active replica of <shards>: restore these shards from a backup, or delete their collections; the newest Completed backups: <backups>',
      'no other node has an Active replica of <shards>: restore these shards from a backup, or delete their collections; no Completed VecBackup of the cluster exists',
    ],
    cause:
      'A node is to be replaced, and it had the only Active replica of a shard. Dropping it would drop the shard.',
    fix: 'Restore the shards with a VecRestore with spec.shards, from a backup with spec.method Shard; the node is replaced within a minute after that. From a backup with spec.method Node: delete the collections, and restore them once the node is replaced, because such a restore needs every node.',
  },
  {
    reason: 'NodeReturned',
    condition: { type: 'ShardsPlaced', status: 'False' },
    event: 'Warning',
    messages: [
      'node <n> is not replaced, because it may have its data: its volume exists, and pod <name> is on Kubernetes node <node>',
      'node <n> is not replaced, because it may have its data: its volume exists, and pod <name> is not known to be unschedulable',
    ],
    cause:
      'A node counted as lost because its Kubernetes node was gone. When the Job was about to drop its replicas or to remove its peer, the pod was scheduled again, or did not exist for a moment.',
    fix: 'Nothing, if the pod becomes ready. If its Kubernetes node is still gone, the node is replaced after ten minutes.',
  },
  {
    reason: 'PointsMissing',
    condition: { type: 'ShardsPlaced', status: 'False' },
    event: 'Warning',
    messages: [
      '<shard> on <node> is kept: it has <n> points, and those that would take its place have fewer: <numbers by node>',
      '<shard> on <node> is kept: its points or those of the replicas that would take its place are not counted',
    ],
    cause:
      'A replica of a node that is removed was to be dropped. In every count of five minutes, no other one had as many points, or they were not counted. Acknowledged writes that only this one has would be lost: the engine calls a replica Active that misses writes of clients that did not wait for them (wait=false). A move after which the new replica has fewer points is undone instead (TransferFailed).',
    fix: 'If clients write all the time with wait=false, pause them for a minute. Otherwise compare the replicas: POST /collections/<collection>/shards/<shard>/points/scroll on each of the nodes answers from its own replica. Write the points that are missing again. If this one has points that were deleted, delete them again. If points are not counted, look at the log and the load of the nodes. It is tried again every ten minutes.',
  },
  {
    reason: 'NoActiveReplica',
    condition: { type: 'ShardsPlaced', status: 'False' },
    event: 'Warning',
    messages: [
      '<shard> has no Active replica to repair that on <node> from: restore the collection from a backup',
      '<shard> has no Active replica on a node that answers',
    ],
    cause: 'All replicas of a shard are defective, or on nodes that do not answer.',
    fix: 'Bring the missing nodes back. If they have lost their data, restore the shards with a VecRestore with spec.shards. If all nodes answer, restore the collection with a VecRestore.',
  },
  {
    reason: 'NoCapacity',
    condition: { type: 'ShardsPlaced', status: 'False' },
    event: 'Warning',
    messages: [
      'no node has space for another replica of <shard>, about <n> bytes: enlarge the volumes or delete data',
      'every node that answers has a replica of <shard> already: another one needs another node',
      'another number of shards of <collection> needs about <n> bytes on <node>, which has <n> free: enlarge the volumes or delete data',
    ],
    cause: 'A replica or a shard has to be created, and no node can hold it.',
    fix: 'Add nodes or space, bring missing nodes back, or lower the replication factor of the collection. When nodes are removed, the condition Applied has this reason too.',
  },
  {
    reason: 'NotEnoughNodes',
    condition: { type: 'ShardsPlaced', status: 'False' },
    event: 'Warning',
    messages: [
      'spec.replicas: <n> -> <n>: <collections>; lower the factor of the collections, keep more nodes, or accept fewer replicas with the annotation vec-operator.dev/accept-risk: fewer-replicas',
    ],
    cause:
      'Fewer nodes would remain than a collection has replicas of each shard. No node is removed, and the condition Applied has this reason too.',
    fix: 'Do what the message says. The plan is computed again every minute.',
  },
  {
    reason: 'TransferFailed',
    condition: { type: 'ShardsPlaced', status: 'False' },
    event: 'Warning',
    messages: [
      'the move of <shard> was undone: <shard> on <node> is kept: it has <n> points, and those that would take its place have fewer: <numbers by node>',
      'the move of <shard> was undone: <shard> on <node> is kept: its points or those of the replicas that would take its place are not counted',
      '<transfer> failed <n> times: <error>',
      '<step> failed: <error>',
      'the work on the shards failed',
    ],
    cause:
      'The engine did not complete the copy of a shard, or answered a step after it with errors until the Job ended.',
    fix: 'Read the logs of the two nodes and of the Job, and look at the free space of the target. The source keeps its replica. The work is tried again after five minutes, and the engine itself repeats the copy of a replica that exists every few seconds. The replica that a move has begun is dropped, and other nodes get the shard if they can.',
  },
  {
    reason: 'TransferStalled',
    condition: { type: 'ShardsPlaced', status: 'False' },
    event: 'Warning',
    messages: [
      '<shard> is copied from <node> to <node> without progress since <time>, and no Job of the operator has started that. To abort it: POST /collections/<collection>/cluster with {"abort_transfer":{"shard_id":<shard>,"from_peer_id":<peer>,"to_peer_id":<peer>}}',
      '<shard> is copied from <node> to <node> without progress since <time>, and no Job of the operator has started that. To abort it: POST /collections/<collection>/cluster with {"abort_transfer":{"shard_id":<shard>,"from_peer_id":<peer>,"to_peer_id":<peer>,"to_shard_id":<shard>}}',
    ],
    cause:
      'The engine itself or another client has started to copy a shard, and what the nodes report about that has not changed for half an hour, or longer for a large shard. While it is in progress, nodes are not updated, and nodes with this shard are not removed; other shards are copied only if spec.shards.maxTransfers is higher than the number of transfers. The condition Progressing has this reason too during an update, and Applied when nodes are removed. The operator aborts only transfers that its own Jobs have started.',
    fix: 'Read the logs of the two nodes. If the copy does not continue, send the call of the message with the API key of the cluster. The replica on the target is then Dead, and the engine or the operator copies it again; a transfer of a move or of another number of shards is undone. The message disappears once the transfer makes progress or has ended.',
  },
  {
    reason: 'ReshardingFailed',
    condition: { type: 'ShardsPlaced', status: 'False' },
    event: 'Warning',
    messages: [
      '<step> failed <n> times: <error>',
      '<step> failed: <error>',
      '<collection> is not resharded, because <n> points were copied instead of <n>',
      '<collection>: another client has committed the resharding, but <n> points were copied instead of <n>: copy the others with replicate_shard',
      '<shard> on <node> has <n> points of shard <n> after it was cleaned: restart this node',
      '<shard> on <node> has <n> points, of which <n> belong to it',
    ],
    cause:
      'A step of the change of the number of shards did not have the effect that it should have, or failed for ten minutes. Before reads use the new shards it is aborted, and nothing has changed. If another client has called commit_read_hash_ring before all points were copied, the engine refuses that, reads do not find the others, and the former shards keep them.',
    fix: 'Read the logs of the node and of the Job. The work is tried again after five minutes. If another client has committed it, copy the points with replicate_shard, to_shard_id and the method resharding_stream_records from each former shard to the new one, and call finish_migrating_points; the next Job completes it.',
  },
  {
    reason: 'ForeignResharding',
    condition: { type: 'ShardsPlaced', status: 'False' },
    event: 'Warning',
    messages: [
      '<collection> is being resharded by another client, which has to complete or abort it. If no client does: POST /collections/<collection>/cluster with {"abort_resharding":{}}',
    ],
    cause:
      'A user or a program has started to change the number of shards, or a VecCluster that was deleted since. Replicas are repaired; nothing else is moved, updated or removed until it has ended. When nodes are removed, the condition Applied has this reason too.',
    fix: 'Let that client complete it. If it does not exist any more, send the call of the message with the API key of the cluster. From the stage commit on the engine refuses that: it can only be completed.',
  },
  {
    reason: 'PlanTooLarge',
    condition: { type: 'ShardsPlaced', status: 'False' },
    event: 'Warning',
    messages: ['<what> is too large: <n> of <n> bytes compressed'],
    cause:
      'The zones of the nodes and the collections whose number of shards is to change do not fit in the specification of a Job.',
    fix: 'Set spec.shardNumber of fewer VecCollections at a time. Other work on the cluster continues.',
  },
  {
    reason: 'ReshardingUnsupported',
    condition: { type: 'ShardsPlaced', status: 'False' },
    event: 'Warning',
    messages: [
      'the number of shards of <collection> cannot be changed: its shards belong to shard keys',
    ],
    cause: 'spec.shardNumber of a VecCollection differs from a collection with custom sharding.',
    fix: 'Set spec.shardNumber of the VecCollection to the number of shards of the collection.',
  },
  {
    reason: 'ShardsUnknown',
    condition: { type: 'ShardsPlaced', status: 'Unknown' },
    messages: [
      'querying the shards failed: <error>',
      '<what the condition Consensus explains>',
      'the nodes do not agree about the shards: <difference>',
    ],
    cause:
      'The nodes could not be asked for their shards, they do not form one cluster, or they have reported different states for ten minutes.',
    fix: 'Check the condition Consensus and the pods. Nothing is moved or repaired until the nodes answer and agree. A replica that only some nodes list is dropped through a node that lists it: POST /collections/<collection>/cluster with {"drop_replica":{"shard_id":<shard>,"peer_id":<peer>}}, while another node has an Active one.',
  },
]
