/** Reasons of a VecCluster's conditions and Events. */
import { NOTHING_TO_DO, type Reason } from './reason.ts'

const NOT_APPLIED = { type: 'Applied', status: 'False' } as const

export const CLUSTER_REASONS: readonly Reason[] = [
  {
    reason: 'UpToDate',
    condition: { type: 'Applied', status: 'True' },
    messages: ['generation <n> is applied'],
    cause: 'The last helm run applied the current spec.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'HelmStarting',
    condition: NOT_APPLIED,
    messages: [
      'creating ServiceAccount, Role and RoleBinding of the helm Job',
      'acquiring the Lease of the cluster',
    ],
    cause:
      'A helm run is due. Its ServiceAccount, Role and RoleBinding are created and the Lease of the cluster is acquired before its Job starts.',
    fix: 'Nothing. If it lasts for minutes, check that Metacontroller may create Roles and RoleBindings in this namespace and that the service may write Leases.',
  },
  {
    reason: 'HelmRunning',
    condition: NOT_APPLIED,
    event: 'Normal',
    messages: ['helm run <n> is in progress'],
    cause: 'The Job of the helm run is running. It waits up to ten minutes for the engine.',
    fix: 'Nothing; `kubectl logs job/<name>` shows the output of helm.',
  },
  {
    reason: 'HelmConcurrencyLimit',
    condition: NOT_APPLIED,
    messages: ['<n> helm Jobs are running'],
    cause: 'The number of running helm Jobs has reached the chart value jobs.maxHelm.',
    fix: 'Nothing; the helm run starts when another helm Job finishes. Raise jobs.maxHelm to run more of them in parallel.',
  },
  {
    reason: 'ClusterBusy',
    condition: NOT_APPLIED,
    messages: ['waiting for <kind> <namespace>/<name>'],
    cause:
      'A backup or a restore is running on the cluster; pods must not be restarted while it runs.',
    fix: 'Wait until the named resource finishes. To run helm before a long backup, delete that VecBackup.',
  },
  {
    reason: 'InvalidSpec',
    condition: NOT_APPLIED,
    event: 'Warning',
    messages: [
      'spec.config.<entry> is <value>, but <field> has <value>: remove the entry',
      'spec.config.<entry> would store a key in a ConfigMap: use <field>',
      'spec.config.<entry> must be a map',
      'spec.replicas is <n>, but spec.cluster.enabled is not applied yet: set spec.replicas to 1 until the cluster is Running with it',
      'spec.replicas is <n>, but the cluster without pods has <n> nodes: set spec.replicas to <n>, and lower it once the cluster is Running; or accept the risk with the annotation vec-operator.dev/accept-risk: shard-loss',
      'spec.<field>.size can be changed only while pods run: set it to <size> until the cluster is Running',
      'spec.maintenanceWindows[<n>].<field>: <error>',
      'spec.<field> contains "{{", which the chart would evaluate as a template: remove it',
      'spec.image.repository must be a registry and path without a tag: the chart would parse other text as YAML',
      'spec.snapshotPersistence.<field> is fixed at creation: StatefulSet <name> has <value>',
      'spec.<field>.size cannot be lowered: StatefulSet <name> has <size>',
      '<field> is too large: <n> of <n> bytes compressed',
    ],
    cause: 'Applying this spec would cause damage or fail halfway, so helm is not run.',
    fix: 'Change the field that the message names. The new spec is checked immediately.',
  },
  {
    reason: 'InvalidSecret',
    condition: NOT_APPLIED,
    event: 'Warning',
    messages: [
      '<field>: Secret <name> does not exist',
      '<field>: Secret <name> is of type <type>, not kubernetes.io/tls',
      '<field>: Secret <name> has no key <key>',
      '<field>: Secret <name> has an empty key <key>',
      '<field>: Secret <name> has a key <key> of more than 4096 bytes',
      '<field>: Secret <name> has a key <key> that contains a line break',
      '<field>: Secret <name> has a key <key> that YAML does not parse as the same text: use letters and digits',
    ],
    cause:
      'A Secret that the spec names is missing, empty or unusable. The engine would start without authentication, or with a key that the operator does not have.',
    fix: 'Correct the Secret. It is read again within 90 seconds.',
  },
  {
    reason: 'HelmFailed',
    condition: NOT_APPLIED,
    event: 'Warning',
    messages: ['<what helm printed>', 'the helm run failed'],
    cause:
      'helm failed: the chart repository or the API server returned an error, or the pods did not become ready within ten minutes.',
    fix: 'Read `kubectl logs job/<name>`. The run is retried after 30 s, and immediately after a change of the spec.',
  },
  {
    reason: 'EngineNotReady',
    condition: NOT_APPLIED,
    event: 'Warning',
    messages: [
      'spec.replicas: <n> -> <n> requires every remaining node to report its shards: <error>',
      '<node> has distributed mode disabled: it cannot report the shards of other nodes',
    ],
    cause:
      'spec.replicas would remove nodes, and a remaining node does not report the shards that it knows.',
    fix: 'Repair that pod, or revert the change of spec.replicas. The check is repeated every 30 s.',
  },
  {
    reason: 'ShardsWouldBeLost',
    condition: NOT_APPLIED,
    event: 'Warning',
    messages: [
      'spec.replicas: <n> -> <n> removes nodes that hold shards: <shards>; move them to the remaining nodes, or accept the risk with the annotation vec-operator.dev/accept-risk: shard-loss',
    ],
    cause: 'The engine does not move shards off a removed node: they would be lost.',
    fix: 'Move the shards with the API of the engine, or accept the loss with the annotation. The check is repeated after ten minutes, and when the spec or the annotation changes.',
  },
  {
    reason: 'VersionDowngraded',
    condition: NOT_APPLIED,
    event: 'Warning',
    messages: [
      'spec.version: <version> -> <version> downgrades to an earlier minor version, which the engine does not support; accept the risk with the annotation vec-operator.dev/accept-risk: downgrade',
    ],
    cause: 'An older engine may be unable to read data that a newer one has written.',
    fix: 'Revert spec.version, or restore a backup into a new cluster. The annotation accepts the risk.',
  },
  {
    reason: 'VersionSkipped',
    condition: NOT_APPLIED,
    event: 'Warning',
    messages: [
      'spec.version: <version> -> <version> skips a minor version, which the engine does not support: go one minor version at a time; accept the risk with the annotation vec-operator.dev/accept-risk: version-skip',
    ],
    cause: 'The engine migrates its files from one minor version to the next only.',
    fix: 'Set the next minor version, wait for Running, then the one after it.',
  },
  {
    reason: 'JobSilent',
    condition: NOT_APPLIED,
    event: 'Warning',
    messages: [
      'Job <name> has not reported for more than 10 minutes: check its pods and their nodes',
    ],
    cause:
      'A Job repeats its report every minute. Its pod hangs, cannot reach the API server, or is on a lost node.',
    fix: 'Check the pods of the Job. If the node is lost for good, delete its Node object (or the pod with --force once you know that it no longer runs): another pod continues.',
  },
  {
    reason: 'JobNotStarted',
    condition: NOT_APPLIED,
    event: 'Warning',
    messages: [
      'Job <name> has an outdated image; recreating it',
      'Job <name> lost its Lease; recreating it',
      'Job <name> has an outdated plan; recreating it',
      'Job <name> has not reported for 600 s; recreating it',
    ],
    cause:
      'The Job has no running pod after ten minutes (wrong image, quota, no node with free capacity), or its plan or image is out of date.',
    fix: 'Check the pods and Events of the Job and fix the cause. The Job is recreated automatically.',
  },
  {
    reason: 'JobCrashed',
    condition: NOT_APPLIED,
    event: 'Warning',
    messages: ['Job crashed <n> times'],
    cause:
      'The pods of the Job ended without a report, for example because they ran out of memory.',
    fix: 'Read the log and the state of its pods. If they ran out of memory, raise the chart value jobs.resources.helm. The run is retried after 30 s.',
  },
  {
    reason: 'Uninstalling',
    condition: NOT_APPLIED,
    messages: [
      'waiting for the helm run to stop',
      'waiting for the work on the shards to stop',
      'helm uninstall is running',
      'helm uninstall has finished; waiting for its report',
      'creating ServiceAccount, Role and RoleBinding of the uninstall Job',
      'helm uninstall started',
    ],
    cause: 'The VecCluster is being deleted. Its Helm release is uninstalled first.',
    fix: 'Nothing; the volumes are retained.',
  },
  {
    reason: 'Uninstalled',
    condition: NOT_APPLIED,
    messages: ['no release exists'],
    cause: 'The release was uninstalled, or the cluster was never installed.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'HelmReleaseApplied',
    condition: { type: 'Progressing', status: 'True' },
    event: 'Normal',
    messages: ['run <n> of <release> was applied'],
    cause: 'Pods are being created or replaced.',
    fix: 'Nothing. If it lasts, `kubectl get pods` shows the pod that does not become ready.',
  },
  {
    reason: 'RolloutComplete',
    condition: { type: 'Progressing', status: 'False' },
    event: 'Normal',
    messages: ['run <n> of <release> is rolled out'],
    cause: 'Every pod is ready and has the latest revision.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'Hibernated',
    condition: { type: 'Ready', status: 'False' },
    event: 'Normal',
    messages: [
      'spec.hibernate is true: no pods run, and the volumes stay',
      'no pods run until the next helm run has started them',
    ],
    cause:
      'spec.hibernate is true, or a helm run that starts the pods again is due. The conditions Progressing (False), Consensus and ShardsPlaced (Unknown) have the same reason.',
    fix: 'Set spec.hibernate: false to start all nodes again. If they do not start, the condition Applied says why helm has not run.',
  },
  {
    reason: 'LastCopy',
    condition: { type: 'Progressing', status: 'False' },
    event: 'Warning',
    messages: [
      '<shards> is Active only on <node>, which is updated next: repair the other replicas, or accept the risk with the annotation vec-operator.dev/accept-risk: last-copy',
      '<shards> are Active only on <node>, which is updated next: repair the other replicas, or accept the risk with the annotation vec-operator.dev/accept-risk: last-copy',
    ],
    cause:
      'The next node of an update has the last Active replica of a shard. The node keeps its pod, so that the shard stays available.',
    fix: 'Nothing while the operator repairs the replicas (spec.healing.replicas); the update then continues. Otherwise repair them with the API of the engine, or set the annotation: the shard is not available while the node restarts.',
  },
  {
    reason: 'SingleCopies',
    condition: { type: 'Progressing', status: 'False' },
    event: 'Warning',
    messages: [
      '<collections> has single replicas on <node>, which is updated next: raise the replication factor, set spec.update.singleCopies: Restart, or accept the risk with the annotation vec-operator.dev/accept-risk: last-copy',
      '<collections> have single replicas on <node>, which is updated next: raise the replication factor, set spec.update.singleCopies: Restart, or accept the risk with the annotation vec-operator.dev/accept-risk: last-copy',
    ],
    cause:
      'spec.update.singleCopies is Refuse, and the next node of an update has shards of collections with replication factor 1.',
    fix: 'Do what the message says. With the factor raised, the operator creates the second replicas before it continues.',
  },
  {
    reason: 'NodeMissing',
    condition: { type: 'Progressing', status: 'False' },
    event: 'Warning',
    messages: [
      '<node> does not answer; <node> is updated while all others are ready: repair that node, or accept the risk with the annotation vec-operator.dev/accept-risk: last-copy',
      '<node> is not ready; <node> is updated while all others are ready: repair that node, or accept the risk with the annotation vec-operator.dev/accept-risk: last-copy',
    ],
    cause:
      'A node has been down or not ready for ten minutes, and another one would restart. Both would be missing for a while.',
    fix: 'Repair the node. A change of the spec that repairs it is applied by helm at once; it reaches the node after the nodes with higher numbers, which needs the annotation.',
  },
  {
    reason: 'NoQuorum',
    condition: { type: 'Progressing', status: 'False' },
    event: 'Warning',
    messages: [
      'without <node>, <n> of <n> peers answer, which is no majority: remove the peers without a pod, or accept the risk with the annotation vec-operator.dev/accept-risk: last-copy',
    ],
    cause:
      'Peers of former pods count towards the majority of the consensus. While the next node restarts, the others would have none.',
    fix: 'Remove these peers with the API of the engine (DELETE /cluster/peer/<id>), or set the annotation: collections cannot be changed while the node restarts.',
  },
  {
    reason: 'AllReplicasReady',
    condition: { type: 'Ready', status: 'True' },
    event: 'Normal',
    messages: ['<n>/<n> replicas ready'],
    cause: 'As many pods are ready as spec.replicas specifies.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'ReplicasNotReady',
    condition: { type: 'Ready', status: 'False' },
    event: 'Warning',
    messages: ['<n>/<n> replicas ready', '<n>/<n> replicas ready: <cause>'],
    cause:
      'A pod is starting, cannot start, or was lost. The cause is reported by the scheduler, the kubelet or the container.',
    fix: 'Fix the cause in the message. If there is none, check the pods of StatefulSet vec-<name>.',
  },
  {
    reason: 'ShardsRunning',
    condition: NOT_APPLIED,
    messages: ['helm runs once the work on the shards has ended'],
    cause: 'A helm run is due, and a Job repairs replicas or balances shards first.',
    fix: 'Nothing; the Job ends after ten minutes at the latest, and helm runs next.',
  },
  {
    reason: 'VolumeNotExpandable',
    condition: NOT_APPLIED,
    event: 'Warning',
    messages: [
      'spec.<field>.size: <size> -> <size>: PersistentVolumeClaim <name> with <StorageClass> cannot grow: <what the API server answered>; set allowVolumeExpansion: true on the StorageClass if its driver can expand volumes, or <way back>',
      'spec.<field>.size: <size> -> <size>: a volume cannot be made smaller: set spec.<field>.size to <size>',
    ],
    cause:
      'The API server refuses to grow a volume of the cluster, in a dry run before anything is changed: its StorageClass does not allow it, or a quota is used up.',
    fix: 'Do what the message says. The check is repeated after ten minutes, and immediately after a change of the spec.',
  },
  {
    reason: 'VolumesNotGrown',
    condition: NOT_APPLIED,
    event: 'Warning',
    messages: [
      'spec.<field>.size: <size> -> <size>: PersistentVolumeClaim <name> does not exist; the volumes grow once every pod has its volume',
      'spec.<field>.size: <size> -> <size>: PersistentVolumeClaim <name> is not bound to a volume; the volumes grow once every pod has its volume',
      'spec.<field>.size: <size> -> <size>: PersistentVolumeClaim <name> still has <size> after 10 minutes<conditions>; check the storage driver',
      'StatefulSet <name> is still being deleted after 2 minutes',
      'the StatefulSet controller has not adopted the pods of StatefulSet <name> after 2 minutes',
      'Secret <name> already exists and is not a record of this operator: delete it',
      'StatefulSet <name> has no uid',
    ],
    cause:
      'The volumes are being enlarged, and the storage driver or the controllers of Kubernetes have not finished. The pods keep running.',
    fix: 'Look at the events of the named object with `kubectl describe`. The attempt is repeated every 30 s and continues where it stopped.',
  },
  {
    reason: 'MaintenanceWindow',
    condition: NOT_APPLIED,
    messages: [
      'waits for the maintenance window that begins at <time>',
      'waits for a valid maintenance window',
      'spec.replicas: <n> -> <n> waits for the maintenance window that begins at <time>',
    ],
    cause:
      'The spec has maintenanceWindows, and the change may restart pods or removes nodes. An earlier failure stays the reason, and its message ends with the window of the next attempt.',
    fix: 'Nothing; it begins with the window. To apply it now, set the annotation vec-operator.dev/maintenance: now on the VecCluster, and remove it afterwards.',
  },
  {
    reason: 'VolumeKept',
    condition: NOT_APPLIED,
    event: 'Warning',
    messages: [
      'spec.replicas would start a node with the volume of a removed one: delete PersistentVolumeClaim <name>, and the node starts empty',
    ],
    cause:
      'The volume of a node that was removed was kept (spec.persistence.onScaleIn: Keep). It has the identity and the old data of the removed node, which the cluster does not accept back.',
    fix: 'Save what you need from the volume, then delete its PersistentVolumeClaim. helm runs within 30 s.',
  },
  {
    reason: 'Placed',
    condition: { type: 'ShardsPlaced', status: 'True' },
    event: 'Normal',
    messages: [
      '<n> of <n> replicas are Active',
      '<n> of <n> replicas are Active; balance <what it waits for>',
    ],
    cause: 'Every shard has the replicas that it should have on the present nodes.',
    fix: NOTHING_TO_DO,
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
    ],
    cause: 'A Job creates missing replicas and copies Active ones over defective ones.',
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
    ],
    cause:
      'spec.replicas was lowered. A Job moves the shards of the last node to others, removes the node, and continues with the next one. The condition Applied has the same reason meanwhile.',
    fix: 'Nothing; status.shards has the current step and the time left. Raising spec.replicas again stops it after the current step.',
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
    reason: 'ShardStep',
    event: 'Normal',
    messages: [
      '<collection>/<shard>: replicating from <node> to <node>',
      '<collection>/<shard>: repairing the replica on <node> from <node>',
      'updating <node>',
      'updating <node>; shards of <collections> are not available until it is ready',
    ],
    cause: 'The Job on the shards has begun to copy a replica or to update a node.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'LostNode',
    condition: { type: 'ShardsPlaced', status: 'False' },
    event: 'Warning',
    messages: [
      'node <n> has lost its data (<evidence>): every shard on it has an Active replica on another node, so it can be replaced: annotate the VecCluster with vec-operator.dev/replace="<n>"',
      'node <n> has lost its data (<evidence>): no other node has an Active replica of <shards>: restore them from a backup (a VecRestore with spec.shards), or delete their collections; the newest Completed backups: <backups>',
      'node <n> has lost its data (<evidence>): no other node has an Active replica of <shards>: restore them from a backup (a VecRestore with spec.shards), or delete their collections; no Completed VecBackup of the cluster exists',
    ],
    cause:
      'The volume of the node was deleted or replaced, or its Kubernetes node with a local volume is gone. The engine does not let an empty node take the place of one that still has shards, so the pod restarts again and again.',
    fix: 'Set the annotation that the message names, or spec.healing.lostNodes: WhenSafe to have it done without asking. Shards without another replica come back only from a backup.',
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
    fix: 'Restore the collections with a VecRestore (spec.collections), or delete them. The node is replaced within a minute after that.',
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
    fix: 'Bring the missing nodes back. If there are none, restore the collection with a VecRestore.',
  },
  {
    reason: 'NoCapacity',
    condition: { type: 'ShardsPlaced', status: 'False' },
    event: 'Warning',
    messages: [
      'no node has space for another replica of <shard>, about <n> bytes: enlarge the volumes or delete data',
      'every node that answers has a replica of <shard> already: another one needs another node',
    ],
    cause: 'A replica has to be created, and no node can hold it.',
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
    messages: ['<transfer> failed <n> times: <error>', 'the work on the shards failed'],
    cause: 'The engine did not complete the copy of a shard.',
    fix: 'Read the logs of the two nodes and of the Job. Nothing was dropped: the source keeps its replica. The work is tried again after five minutes.',
  },
  {
    reason: 'ShardsUnknown',
    condition: { type: 'ShardsPlaced', status: 'Unknown' },
    messages: ['querying the shards failed: <error>', '<what the condition Consensus explains>'],
    cause: 'The nodes could not be asked for their shards, or they do not form one cluster.',
    fix: 'Check the condition Consensus and the pods. Nothing is moved until the nodes answer.',
  },
  {
    reason: 'ConsensusWorking',
    condition: { type: 'Consensus', status: 'True' },
    messages: [
      'consensus works on <n> nodes',
      'consensus works on <n> nodes; peers without a pod: <peer ids>',
    ],
    cause:
      'Every pod answers, knows every other pod, and knows a leader. A peer without a pod still counts towards every majority.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'SpaceAvailable',
    condition: { type: 'Capacity', status: 'True' },
    event: 'Normal',
    messages: ['the data take at most <n> % of a volume', 'there are no volumes'],
    cause:
      'The data of every node, as estimated from the telemetry of the engine, take less than 70 % of its volume.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'VolumeLow',
    condition: { type: 'Capacity', status: 'False' },
    event: 'Warning',
    messages: [
      'node <n> has about <n> % of its volume of <size> in use: raise spec.persistence.size',
      'node <n> has about <n> % of its volume of <size> in use: spec.persistence.autoGrow enlarges the volumes',
      'node <n> has about <n> % of its volume of <size> in use: raise spec.persistence.autoGrow.max',
    ],
    cause:
      'Data and write-ahead log take 70 % of the volume or more. The optimizer needs free space of twice the size of the segments that it rewrites; without it the collection becomes red.',
    fix: 'Raise spec.persistence.size: volumes grow while the pods run. Or add nodes, which takes shards from the others.',
  },
  {
    reason: 'VolumeFull',
    condition: { type: 'Capacity', status: 'False' },
    event: 'Warning',
    messages: [
      'node <n> has about <n> % of its volume of <size> in use: raise spec.persistence.size',
      'node <n> has about <n> % of its volume of <size> in use: spec.persistence.autoGrow enlarges the volumes',
      'node <n> has about <n> % of its volume of <size> in use: raise spec.persistence.autoGrow.max',
    ],
    cause:
      'Data and write-ahead log take 90 % of the volume or more. The engine refuses writes when it cannot extend the log, and other nodes mark the replicas as Dead.',
    fix: 'Raise spec.persistence.size now: volumes grow while the pods run. Deleting points needs space first.',
  },
  {
    reason: 'CapacityUnknown',
    condition: { type: 'Capacity', status: 'Unknown' },
    messages: ['<nodes> did not report the size of the data, or the volume has no capacity'],
    cause:
      'A node does not answer, its version of the engine reports no sizes, or its claim is not bound to a volume.',
    fix: 'See the conditions Ready and Consensus. With an old engine, watch the volumes with the metrics of the kubelet.',
  },
  {
    reason: 'PodsNotAnswering',
    condition: { type: 'Consensus', status: 'Unknown' },
    messages: ['no answer from <pods>', 'no pod is ready', 'querying the pods failed: <error>'],
    cause:
      'These pods, or all of them, did not return the state of their consensus thread, or the operator could not query them, for example because their API key is missing.',
    fix: 'Check the pods. Network policies must allow the operator to reach port 6333.',
  },
  {
    reason: 'ConsensusStopped',
    condition: { type: 'Consensus', status: 'False' },
    event: 'Warning',
    messages: ['<pod>: stopped', '<pod>: <error>'],
    cause:
      'The consensus thread of a pod has stopped: the pod serves requests but accepts no changes of collections.',
    fix: 'Read the log of that pod. Do not restart pods at random: that can make it worse. If the pod does not recover, restore a backup into a new cluster.',
  },
  {
    reason: 'SplitBrain',
    condition: { type: 'Consensus', status: 'False' },
    event: 'Warning',
    messages: [
      'the pods form <n> separate clusters: <pods>; backups, restores and migrations wait until they form one cluster',
    ],
    cause:
      'Pods behind one Service belong to different clusters of the engine. Usually pod 0 lost its volume, started empty and bootstrapped a new cluster. A request reaches either cluster.',
    fix: 'Stop writers. Compare the collections of each group (GET /cluster and /collections on each pod). Keep the group that has the data and delete the pods and volumes of the others, the pod that bootstrapped the new cluster last; or restore a backup into a new cluster.',
  },
  {
    reason: 'PeersMissing',
    condition: { type: 'Consensus', status: 'False' },
    event: 'Warning',
    messages: ['<pod> does not know <pods>'],
    cause: 'A pod that should be in the cluster has not joined it, or was removed from it.',
    fix: 'Read the log of the unknown pod. It must reach the others on the p2p port (6335 by default).',
  },
  {
    reason: 'NoLeader',
    condition: { type: 'Consensus', status: 'False' },
    event: 'Warning',
    messages: ['no leader is known to <pods>'],
    cause: 'Most nodes know no leader: nodes are down or cannot reach each other.',
    fix: 'Repair the missing pods, and check the network policies for the p2p port (6335 by default).',
  },
]
