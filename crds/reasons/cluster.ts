/** Reasons of a VecCluster's conditions and Events. */
import { CONSENSUS_AND_CAPACITY_REASONS, UPDATE_GATE_REASONS } from './cluster-nodes.ts'
import { KEY_REASONS } from './cluster-keys.ts'
import { SHARDS_PLACED_REASONS } from './cluster-shards.ts'
import { JOB_NOT_STARTED_MESSAGES, NOTHING_TO_DO, type Reason } from './reason.ts'

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
      'creating Job <name>',
      'waiting for the report of the last Job',
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
    cause:
      'The Job of the helm run is running. It enlarges volumes first, where the spec asks for it, and does not wait for the pods: the condition Progressing reports their rollout.',
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
      'A backup or a restore is running on the cluster; pods must not be restarted while it runs. The run that stops the pods for spec.hibernate also waits for a migration from or to the cluster.',
    fix: 'Wait until the named resource finishes. To run helm before a long backup or migration, delete that VecBackup or VecMigration.',
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
      'spec.version can be raised to another minor version only while pods run: set it to <version> until the cluster is Running',
      'spec.resharding requires spec.version <version> or a later patch of it: set spec.resharding to false for <version>',
      'spec.resharding requires spec.cluster.enabled true',
      'spec.maintenanceWindows[<n>].<field>: <error>',
      'spec.<field> contains "{{", which the chart would evaluate as a template: remove it',
      'spec.image.repository must be a registry and path without a tag: the chart would parse other text as YAML',
      'spec.image.digest must be sha256: and 64 hex digits in lower case',
      'spec.image.digest is the digest of <version>, but the spec requires <version>: set the digest of that image too, or remove spec.image.digest',
      'spec.image.digest is the image of <version>, but version <version> comes before it: set spec.version and spec.image.digest to <version> first, or remove spec.image.digest',
      'spec.<field> has "<key>", which the engine chart sets: remove it',
      'spec.<field> has "<key>", which Kubernetes sets: remove it',
      'spec.<field> has "<key>", which belongs to the operator: remove it',
      'spec.<field>: the key <key> must be a name of at most 63 letters, digits, "-", "_" and ".", with or without a DNS name and "/" before it',
      'spec.podLabels: the value of "<key>" must be empty or at most 63 letters, digits, "-", "_" and ".", with a letter or digit at both ends',
      'spec.snapshotPersistence.<field> is fixed at creation: StatefulSet <name> has <value>',
      'spec.<field>.size cannot be lowered: StatefulSet <name> has <size>',
      'spec.<field>.size must be greater than 0',
      'spec.cluster.p2p.port is <n>, where nodes listen for clients: it is immutable, so delete this VecCluster and create it with another port',
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
      '<field>: Secret <name> is of type <type>, which cannot hold credentials',
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
    messages: [
      '<what helm printed>',
      'the helm run failed',
      'release <name> was not installed for this VecCluster: uninstall it, or use another name for the VecCluster',
    ],
    cause:
      'helm failed: the chart repository or the API server returned an error, or helm did not end within eleven minutes. Or a release `vec-<name>` exists that the operator did not install: helm did not run.',
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
      'spec.version: <version> -> <version>: pod <pod> is not ready after an update that is not complete, so its files may be of an earlier minor version: set the former version and wait until it is ready; accept the risk with the annotation vec-operator.dev/accept-risk: version-skip',
    ],
    cause:
      'The engine migrates its files from one minor version to the next only. The operator applies the minor versions in between one after the other, but this release does not know one of them. Or a pod has the image of the former minor version and has not become ready with it: it has not migrated its files yet.',
    fix: 'Set the next minor version, wait for Running, then the one after it.',
  },
  {
    reason: 'VersionStep',
    condition: NOT_APPLIED,
    messages: ['version <version> is rolled out before <versions>'],
    cause:
      'spec.version is more than one minor version ahead. The latest patches of the minor versions in between are applied first, and each is rolled out before the next. status.versionPlan lists what is left.',
    fix: 'Nothing, while pods become ready. If they do not, the condition Ready says why; the update stops there.',
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
      'Job <name> is suspended; recreating it',
      ...JOB_NOT_STARTED_MESSAGES,
    ],
    cause:
      'The API server refuses the Job, or the Job has no running pod (wrong image, quota, an admission webhook, a missing PriorityClass, no node with free capacity), or its plan or image is out of date. Or it has spec.suspend true and no pods. The condition ShardsPlaced has the same reason for a Job on shards.',
    fix: 'Read the Events that the message names, and fix the cause. The Job is created again automatically.',
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
      'creating Job <name>',
    ],
    cause: 'The VecCluster is being deleted. Its Helm release is uninstalled first.',
    fix: 'Nothing; the volumes are retained, unless spec.persistence.onDelete is Delete.',
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
    reason: 'AwaitingBackup',
    condition: NOT_APPLIED,
    messages: [
      'waiting for VecBackupSchedule <name> to create VecBackup <name> before the pods are stopped',
      'waiting for VecBackupSchedule <name> to create VecBackup <name> before the pods are stopped: <why none is created>',
      'waiting for VecBackup <name> before the pods are stopped',
      'waiting for VecBackup <name> before the pods are stopped: <what the backup waits for>',
    ],
    cause:
      'spec.hibernate is true, and spec.hibernation names a VecBackupSchedule: the pods are stopped once its backup is Completed. One that was completed more than an hour before the pods can be stopped does not count, and another one is taken.',
    fix: 'Nothing. To keep the pods, set spec.hibernate: false. To stop them without the backup, set the annotation vec-operator.dev/accept-risk: no-backup.',
  },
  {
    reason: 'HibernationBackupFailed',
    condition: NOT_APPLIED,
    event: 'Warning',
    messages: [
      'VecBackup <name> failed: <error>; no pod was stopped. Delete it, and another one is created; or set spec.hibernate to false, or accept the risk with the annotation vec-operator.dev/accept-risk: no-backup',
    ],
    cause: 'The backup before spec.hibernate failed, so the pods are not stopped.',
    fix: 'Read the error of the VecBackup and fix the cause, then delete it. The schedule creates another one within a minute.',
  },
  {
    reason: 'BackupScheduleInvalid',
    condition: NOT_APPLIED,
    event: 'Warning',
    messages: [
      'VecBackupSchedule <name> of spec.hibernation does not exist; correct it, set spec.hibernate to false, or accept the risk with the annotation vec-operator.dev/accept-risk: no-backup',
      'VecBackupSchedule <name> of spec.hibernation is being deleted; correct it, set spec.hibernate to false, or accept the risk with the annotation vec-operator.dev/accept-risk: no-backup',
      'VecBackupSchedule <name> of spec.hibernation is for cluster <namespace>/<name>; correct it, set spec.hibernate to false, or accept the risk with the annotation vec-operator.dev/accept-risk: no-backup',
      'VecBackup <name> does not belong to VecBackupSchedule <name>: set spec.hibernate to false and to true again, or accept the risk with the annotation vec-operator.dev/accept-risk: no-backup',
    ],
    cause:
      'spec.hibernate is true, and the schedule that spec.hibernation names cannot create a backup of this cluster.',
    fix: 'Create the VecBackupSchedule in the namespace of the cluster, with its clusterRef, or correct spec.hibernation.backupScheduleRef.',
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
  ...UPDATE_GATE_REASONS,
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
      'A pod is starting, cannot start, or was lost. The cause is reported by the scheduler, the kubelet or the container. Why a volume cannot be attached or mounted is only in the Events of the pod.',
    fix: 'Fix the cause in the message. If there is none, check the pods of StatefulSet vec-<name>.',
  },
  {
    reason: 'ReleaseIncomplete',
    condition: { type: 'Ready', status: 'False' },
    event: 'Warning',
    messages: [
      'objects of the release do not exist: <objects>; a helm run creates them, at most once in five minutes',
    ],
    cause:
      'Another client has deleted objects of the Helm release: a Service, the ConfigMap, the ServiceAccount, the Secret with the API key or the PodDisruptionBudget. The condition Applied has the same reason until the helm run starts, and alone if only the PodDisruptionBudget is missing.',
    fix: 'Find out which client deletes them, such as a GitOps tool that prunes. The helm run waits for a backup, a restore or work on the shards to end, and for what the condition Applied says.',
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
    reason: 'VolumeNotModifiable',
    condition: NOT_APPLIED,
    event: 'Warning',
    messages: [
      'spec.<field>.volumeAttributesClassName: <class> -> <class>: <what the API server answered>; <way back>',
      'spec.<field>.volumeAttributesClassName: <class> -> <class>: the API server ignores the class of a volume: this needs Kubernetes 1.34, or 1.31 with the feature gate VolumeAttributesClass; <way back>',
    ],
    cause:
      'The API server refuses another VolumeAttributesClass for a volume of the cluster, or does not know such classes. A dry run finds this before anything is changed.',
    fix: 'Do what the message says. The check is repeated after ten minutes, and immediately after a change of the spec.',
  },
  {
    reason: 'VolumesNotGrown',
    condition: NOT_APPLIED,
    event: 'Warning',
    messages: [
      'spec.<field>.size: <size> -> <size>: PersistentVolumeClaim <name> does not exist; the volumes change once every pod has its volume',
      'spec.<field>.size: <size> -> <size>: PersistentVolumeClaim <name> is not bound to a volume; the volumes change once every pod has its volume',
      'spec.<field>.size: <size> -> <size>: PersistentVolumeClaim <name> still has <size> after 10 minutes<conditions>; check the storage driver',
      'spec.<field>.volumeAttributesClassName: <class> -> <class>: PersistentVolumeClaim <name> still has <class> after 10 minutes<conditions>; check the storage driver',
      'StatefulSet <name> is still being deleted after 2 minutes',
      'the StatefulSet controller has not adopted the pods of StatefulSet <name> after 2 minutes',
      'Secret <name> already exists and is not a record of this operator: delete it',
      'StatefulSet <name> has no uid',
    ],
    cause:
      'The volumes are being enlarged or modified, and the storage driver or the controllers of Kubernetes have not finished. The pods keep running.',
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
      'The volume of a node that was removed was kept (spec.persistence.onScaleIn: Keep, or accept-risk: shard-loss). It has the identity and the old data of the removed node, which the cluster does not accept back.',
    fix: 'Save what you need from the volume, then delete its PersistentVolumeClaim. helm runs within 30 s.',
  },
  ...SHARDS_PLACED_REASONS,
  ...CONSENSUS_AND_CAPACITY_REASONS,
  ...KEY_REASONS,
]
