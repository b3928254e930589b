/** Reasons that a VecCluster has because of its nodes: what holds an update back, consensus and capacity. */
import { NOTHING_TO_DO, type Reason } from './reason.ts'

export const UPDATE_GATE_REASONS: readonly Reason[] = [
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
    reason: 'ReplicasDiffer',
    condition: { type: 'Progressing', status: 'False' },
    event: 'Warning',
    messages: [
      'the replicas of <shard> have different numbers of points: <numbers by node>, and <node> is updated next: if clients add or delete points all the time, pause them for a minute; otherwise drop the replica with missing points, which is created again, or accept the risk with the annotation vec-operator.dev/accept-risk: last-copy',
    ],
    cause:
      'The replicas of a shard on the node that is updated next were not equal in any observation for five minutes. While the node restarts, reads would use the others. The operator does not repair this: the numbers do not prove which replica is right, because points may be missing on one, and another one may still have deleted ones.',
    fix: 'It is enough that they are equal once: pause clients that write all the time. If they stay different without writes, compare the replicas: POST /collections/<collection>/shards/<shard>/points/scroll on each of the nodes answers from its own replica. Drop the wrong one through any node, POST /collections/<collection>/cluster with {"drop_replica":{"shard_id":<shard>,"peer_id":<peer>}}, with the peer from status.nodes; it is created again from the other one (spec.healing.replicas). Or set the annotation.',
  },
  {
    reason: 'ReplicasNotCounted',
    condition: { type: 'Progressing', status: 'False' },
    event: 'Warning',
    messages: [
      'the points of <shard> are not counted: no answer from <nodes>, and <node> is updated next: look at the log and the load of that node, or accept the risk with the annotation vec-operator.dev/accept-risk: last-copy',
    ],
    cause:
      'A node has not counted the points of its replica within ten seconds, or answered with an error, in any observation for five minutes. Whether it has the points of the node that is updated next is not known.',
    fix: 'Look at the log and the load of the node. It is counted again every minute, and the update then continues. Or set the annotation.',
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
]

const GROWTH_DELAYS = [
  'node <n> has about <n> % of its volume of <size> in use: spec.persistence.autoGrow enlarges the volumes with the next helm run, which <waits for the maintenance window that begins at a time>: to start it now, set the annotation vec-operator.dev/maintenance: now',
  'node <n> has about <n> % of its volume of <size> in use: spec.persistence.autoGrow enlarges the volumes with the next helm run, once it can start (<reason>): see the condition Applied',
]

export const CONSENSUS_AND_CAPACITY_REASONS: readonly Reason[] = [
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
      ...GROWTH_DELAYS,
      'node <n> has about <n> % of its volume of <size> in use: raise spec.persistence.autoGrow.max',
    ],
    cause:
      'Data and write-ahead log take 70 % of the volume or more. The optimizer needs free space of twice the size of the segments that it rewrites; without it the collection becomes red.',
    fix: 'Raise spec.persistence.size: volumes grow while the pods run. Or add nodes, which takes shards from the others. If the growth waits for a helm run that cannot start, remove what that run waits for: one run applies everything that is due.',
  },
  {
    reason: 'VolumeFull',
    condition: { type: 'Capacity', status: 'False' },
    event: 'Warning',
    messages: [
      'node <n> has about <n> % of its volume of <size> in use: raise spec.persistence.size',
      'node <n> has about <n> % of its volume of <size> in use: spec.persistence.autoGrow enlarges the volumes',
      ...GROWTH_DELAYS,
      'node <n> has about <n> % of its volume of <size> in use: raise spec.persistence.autoGrow.max',
    ],
    cause:
      'Data and write-ahead log take 90 % of the volume or more. The engine refuses writes when it cannot extend the log, and other nodes mark the replicas as Dead.',
    fix: 'Raise spec.persistence.size now: volumes grow while the pods run. Deleting points needs space first. If the growth waits for a maintenance window, set the annotation vec-operator.dev/maintenance: now.',
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
    messages: [
      'no answer from <pods>: <error of the first one>',
      'the API key in Secret <secret> is refused (<status>) by <pods>, which use another key',
      'no pod is ready',
      'querying the pods failed: <error>',
    ],
    cause:
      'These pods, or all of them, did not return the state of their consensus thread, or the operator could not query them, for example because their API key is missing, or because that Secret was changed after they started.',
    fix: 'Check the pods. Network policies must allow the operator to reach port 6333. If the certificate of the pods is not trusted, put its authority into ca.crt of the TLS Secret. If the key is refused, check who wrote Secret vec-<name>-apikey; another value of the annotation vec-operator.dev/restart makes the nodes read it again.',
  },
  {
    reason: 'ConsensusStopped',
    condition: { type: 'Consensus', status: 'False' },
    event: 'Warning',
    messages: [
      '<pod>: stopped',
      '<pod>: <error>',
      '<pod>: its consensus thread has done nothing since <time>, although the engine reports that it works',
    ],
    cause:
      'The consensus thread of a pod has stopped: the pod serves requests but accepts no changes of collections. A thread that has panicked, or waits for a lock, reports that it works. Engine 1.19 starts a thread that has failed again, at intervals of up to five minutes.',
    fix: 'Read the log of that pod. Do not restart pods at random: that can make it worse. A thread that has done nothing since a time is repaired by deleting this pod; if it panics again, delete the pod of the leader. If the pod does not recover, restore a backup into a new cluster.',
  },
  {
    reason: 'SplitBrain',
    condition: { type: 'Consensus', status: 'False' },
    event: 'Warning',
    messages: [
      'the pods form <n> separate clusters: <pods>; backups, restores, migrations and helm runs wait until they form one cluster',
      'the pods form <n> separate clusters: <pods>; repair the cluster first, or accept the risk with the annotation vec-operator.dev/accept-risk: split-brain',
    ],
    cause:
      'Pods behind one Service belong to different clusters of the engine. Usually pod 0 lost its volume, started empty and bootstrapped a new cluster. A request reaches either cluster. The condition Applied has this reason too while a helm run is due: a node that it adds or restarts would join the cluster of pod 0, which may be the one without data.',
    fix: 'Stop writers. Compare the collections of each group (GET /cluster and /collections on each pod). Keep the group that has the data and delete the pods and volumes of the others, the pod that bootstrapped the new cluster last; or restore a backup into a new cluster. If an earlier release installed the cluster, pod 0 may have no guard yet and bootstrap a cluster again: accept the risk, and the helm run adds the guard.',
  },
  {
    reason: 'PeersMissing',
    condition: { type: 'Consensus', status: 'False' },
    event: 'Warning',
    messages: [
      '<pod> does not know <pods>',
      'the other nodes have removed <pods>, which cannot join again with the same volume',
    ],
    cause: 'A pod that should be in the cluster has not joined it, or was removed from it.',
    fix: 'Read the log of the unknown pod. It must reach the others on the p2p port (6335 by default). One that another client has removed (DELETE /cluster/peer) never joins again with its volume: if no data on it is needed, delete its PersistentVolumeClaim and the pod.',
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
