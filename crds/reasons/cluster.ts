/** Reasons of a VecCluster's conditions and Events. */
import { NOTHING_TO_DO, type Reason } from './reason.ts'

const NOT_APPLIED = { type: 'Applied', status: 'False' } as const

export const CLUSTER_REASONS: readonly Reason[] = [
  {
    reason: 'UpToDate',
    condition: { type: 'Applied', status: 'True' },
    messages: ['generation <n> is applied'],
    cause: 'The last helm run applied the spec as it is now.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'HelmStarting',
    condition: NOT_APPLIED,
    messages: [
      'the rights of the helm Job are being made',
      'the Lease of the cluster is being taken',
    ],
    cause:
      'A helm run is due; its ServiceAccount, Role and RoleBinding, and the Lease of the cluster, come first.',
    fix: 'Nothing; when it stays for minutes, look whether Metacontroller may make Roles and RoleBindings here, and the service Leases.',
  },
  {
    reason: 'HelmRunning',
    condition: NOT_APPLIED,
    event: 'Normal',
    messages: ['helm run <n> is under way'],
    cause: 'The Job of the helm run works. It waits for the engine up to ten minutes.',
    fix: 'Nothing; `kubectl logs job/<name>` shows what helm does.',
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
    messages: ['waits for <kind> <namespace>/<name>'],
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
      'spec.config.<entry> would put a key into a ConfigMap: use <field>',
      'spec.config.<entry> must be a map',
      'spec.replicas is <n>, but spec.cluster.enabled is not applied yet: set spec.replicas to 1 until the cluster is Running with it',
      'spec.<field> holds "{{", which the chart would run as a template',
      'spec.image.repository must be a registry and path without tag: the chart would read other text as YAML',
      'spec.snapshotPersistence.<field> is fixed at creation: StatefulSet <name> has <value>',
      '<field> is too large: <n> of <n> bytes compressed',
    ],
    cause: 'Applied as it is, the spec would do harm or fail half-way, so helm is not run.',
    fix: 'Change the field the message names; it is looked at again at once.',
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
      '<field>: Secret <name> has a key <key> that holds a line break',
      '<field>: Secret <name> has a key <key> that YAML would not read as the same text: use letters and digits',
    ],
    cause:
      'A Secret of the spec is missing, empty or unreadable: the engine would start open to everybody, or lock the operator out.',
    fix: 'Put the Secret right; it is read again within a minute and a half.',
  },
  {
    reason: 'HelmFailed',
    condition: NOT_APPLIED,
    event: 'Warning',
    messages: ['<what helm printed>', 'the helm run failed'],
    cause:
      'helm ended with an error: the chart repository, the API server, or pods that did not become ready in ten minutes.',
    fix: 'Read `kubectl logs job/<name>`; the run is tried again 30 s later, and at once when the spec changes.',
  },
  {
    reason: 'EngineNotReady',
    condition: NOT_APPLIED,
    event: 'Warning',
    messages: [
      'spec.replicas: <n> -> <n> needs every node that stays to say where the shards are: <error>',
      '<node> runs alone: nobody can say which shards other nodes hold',
    ],
    cause: 'Nodes are to be removed, and one that stays does not tell which shards it knows of.',
    fix: 'Bring that pod back, or undo the change of spec.replicas; it is asked again every 30 s.',
  },
  {
    reason: 'ShardsWouldBeLost',
    condition: NOT_APPLIED,
    event: 'Warning',
    messages: [
      'spec.replicas: <n> -> <n> removes nodes that hold shards: <shards>; move them to nodes that stay, or accept the risk with the annotation vec-operator.dev/accept-risk: shard-loss',
    ],
    cause: 'The engine moves nothing by itself: shards of removed nodes would be gone.',
    fix: 'Move the shards with the engine, or accept the loss by the annotation; it is asked again after ten minutes, or when spec or annotation changes.',
  },
  {
    reason: 'VersionDowngraded',
    condition: NOT_APPLIED,
    event: 'Warning',
    messages: [
      'spec.version: <version> -> <version> goes back by a minor version, which the engine does not support; accept the risk with the annotation vec-operator.dev/accept-risk: downgrade',
    ],
    cause: 'An older engine may not read what a newer one wrote.',
    fix: 'Set the version back, or restore a backup into a new cluster; the annotation takes the risk.',
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
      'Job <name> has not reported for more than 10 minutes: look at its pods and their nodes',
    ],
    cause:
      'A Job repeats its report every minute. Its pod hangs, cannot reach the API server, or is on a node that is lost.',
    fix: 'Look at the pods of the Job. Where the node is gone for good, delete the Node object (or the pod with --force once you know that it no longer runs): another pod goes on.',
  },
  {
    reason: 'JobNotStarted',
    condition: NOT_APPLIED,
    event: 'Warning',
    messages: [
      'Job <name> runs another image: it is made again',
      'Job <name> missed its turn: it is made again',
      'Job <name> has another plan than is wanted now: it is made again',
      'Job <name> reported nothing for 600 s: it is made again',
      'Job <name> is suspended: it is made again',
    ],
    cause:
      'No pod of the Job came to work in ten minutes, or another plan or image is wanted by now: a wrong image, a quota, a node that is full.',
    fix: 'Look at the pods and Events of the Job in the namespace; once mended, the next Job starts by itself.',
  },
  {
    reason: 'JobCrashed',
    condition: NOT_APPLIED,
    event: 'Warning',
    messages: ['Job crashed <n> times'],
    cause: 'The pods of the Job ended without a report, such as out of memory.',
    fix: 'Read the log and the state of its pods; raise the chart value jobs.resources.helm when they were killed. It is tried again 30 s later.',
  },
  {
    reason: 'Uninstalling',
    condition: NOT_APPLIED,
    messages: [
      'waits for the helm run to stop',
      'helm uninstall is under way',
      'helm uninstall has ended',
      'the rights of the uninstall are being made',
      'helm uninstall was started',
    ],
    cause: 'The resource is being deleted, and its release goes first.',
    fix: 'Nothing; its volumes stay.',
  },
  {
    reason: 'Uninstalled',
    condition: NOT_APPLIED,
    messages: ['the release is gone'],
    cause: 'The release was uninstalled, or there never was one.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'HelmReleaseApplied',
    condition: { type: 'Progressing', status: 'True' },
    event: 'Normal',
    messages: ['run <n> of <release> was applied'],
    cause: 'Pods are being made or replaced.',
    fix: 'Nothing; when it stays, `kubectl get pods` shows the pod that does not become ready.',
  },
  {
    reason: 'RolloutComplete',
    condition: { type: 'Progressing', status: 'False' },
    event: 'Normal',
    messages: ['run <n> of <release> is rolled out'],
    cause: 'Every pod is ready and of the newest revision.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'AllReplicasReady',
    condition: { type: 'Ready', status: 'True' },
    event: 'Normal',
    messages: ['<n>/<n> replicas ready'],
    cause: 'As many pods are ready as spec.replicas wants.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'ReplicasNotReady',
    condition: { type: 'Ready', status: 'False' },
    event: 'Warning',
    messages: ['<n>/<n> replicas ready', '<n>/<n> replicas ready: <cause>'],
    cause:
      'A pod is starting, cannot start, or was lost. The cause is that of the scheduler, the kubelet or the container.',
    fix: 'Fix what the cause names; without one, look at the pods of StatefulSet vec-<name>.',
  },
  {
    reason: 'ConsensusWorking',
    condition: { type: 'Consensus', status: 'True' },
    messages: [
      'consensus works on <n> nodes',
      'consensus works on <n> nodes; peers without a pod: <peer ids>',
    ],
    cause:
      'Every pod answers, knows every other pod, and knows a leader. A peer without a pod still counts in every majority.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'PodsNotAnswering',
    condition: { type: 'Consensus', status: 'Unknown' },
    messages: ['no answer from <pods>', 'the pods could not be asked: <error>'],
    cause:
      'These pods did not answer the question for their consensus thread, or the operator could not ask them, such as without their key.',
    fix: 'Look at the pods; network policies must let the operator reach port 6333.',
  },
  {
    reason: 'ConsensusStopped',
    condition: { type: 'Consensus', status: 'False' },
    event: 'Warning',
    messages: ['<pod>: stopped', '<pod>: <error>'],
    cause:
      'The consensus thread of a pod has ended: it serves, but takes no change of collections.',
    fix: 'Read the log of that pod. Do not restart pods at random, that can make it worse; where it does not recover, restore a backup into a new cluster.',
  },
  {
    reason: 'SplitBrain',
    condition: { type: 'Consensus', status: 'False' },
    event: 'Warning',
    messages: [
      'the pods form <n> separate clusters: <pods>; backups, restores and migrations wait until they are one',
    ],
    cause:
      'Pods behind one Service are in different clusters of the engine: usually pod 0 lost its volume, started empty and founded a cluster of its own. Requests reach either.',
    fix: 'Stop writers. Compare the collections of each group (GET /cluster and /collections on each pod). Keep the group that has the data; delete the pods and volumes of the others, the pod that founded the new cluster last, or restore a backup into a new cluster.',
  },
  {
    reason: 'PeersMissing',
    condition: { type: 'Consensus', status: 'False' },
    event: 'Warning',
    messages: ['<pod> does not know <pods>'],
    cause: 'A pod that should be in the cluster has not joined it, or was removed from it.',
    fix: 'Read the log of the pod that is not known: it must reach the others on the p2p port (6335 by default).',
  },
  {
    reason: 'NoLeader',
    condition: { type: 'Consensus', status: 'False' },
    event: 'Warning',
    messages: ['no leader is known to <pods>'],
    cause: 'The majority of the nodes knows no leader: nodes are down, or cannot reach each other.',
    fix: 'Bring the missing pods back; check network policies for the p2p port (6335 by default).',
  },
]
