/** Rules of `advise` about a cluster: its nodes, volumes, memory, version and backups. */
import { compareMinors, isOlder } from '../../../crds/versions.ts'
import { formatBytes, formatNames, parseQuantity } from '../../../crds/units.ts'
import type { Advice, Facts, NodeFacts } from './facts.ts'

/** The Capacity condition warns from here on: the optimizer needs space for a second copy of a segment. */
export const DISK_PERCENT = 70
/** From here on a burst of queries or an optimization may exceed the limit. */
export const MEMORY_PERCENT = 80
/** Searches of a node share its cores. */
export const SHARDS_PER_CORE = 4
/** A majority of fewer nodes does not survive the loss of one. */
export const QUORUM_NODES = 3
/** Runs of a schedule that may pass without a completed backup. */
export const MISSED_RUNS = 2

export function nodeCount({ cluster: { spec } }: Facts): Advice[] {
  const { replicas } = spec
  if (replicas >= QUORUM_NODES) return []
  const enable = spec.cluster.enabled ? '' : 'spec.cluster.enabled: true, and once it is Running '
  const set = `${enable}spec.replicas: ${QUORUM_NODES} and replicationFactor 2 or more for each collection`
  if (replicas === 1) {
    return [
      {
        rule: 'SingleNode',
        level: 'warning',
        seen: '1 node',
        why: 'every restart of the node is an outage, and its volume holds the only copy of the data',
        set,
      },
    ]
  }
  return [
    {
      rule: 'NoQuorum',
      level: 'warning',
      seen: `${replicas} nodes`,
      why: 'consensus needs a majority: while one of two nodes is down, no collection, alias or shard can be changed',
      set,
    },
  ]
}

export function disk({ nodes, volumeBytes, cluster }: Facts): Advice[] {
  const full = nodes.filter(({ dataBytes }) => percent(dataBytes, volumeBytes) >= DISK_PERCENT)
  const [fullest] = full.toSorted((a, b) => b.dataBytes - a.dataBytes)
  if (fullest === undefined) return []
  const gib = Math.ceil((fullest.dataBytes * 2) / 2 ** 30)
  const grow =
    cluster.spec.persistence.autoGrow === undefined ? ', or spec.persistence.autoGrow' : ''
  return [
    {
      rule: 'Disk',
      level: 'warning',
      seen: `${listNodes(full, ({ dataBytes }) => `${percent(dataBytes, volumeBytes)} %`)} of ${formatBytes(volumeBytes)} in use`,
      why: 'the optimizer rewrites segments and needs space for a second copy; a full volume refuses writes',
      set: `spec.persistence.size: ${gib}Gi${grow}; the StorageClass must allow expansion`,
    },
  ]
}

/** Measured memory first; the size of the vectors says what comes once they are all read. */
export function memory({ nodes, cluster: { spec } }: Facts): Advice[] {
  const text = spec.resources.limits?.memory
  const limit = text === undefined ? Number.NaN : parseQuantity(String(text))
  if (Number.isNaN(limit)) {
    return [
      {
        rule: 'NoMemoryLimit',
        level: 'note',
        seen: 'spec.resources.limits.memory is not set',
        why: 'the engine may use all memory of a Kubernetes node; the kubelet then evicts pods, this one among them',
        set: 'spec.resources.requests.memory and limits.memory, both to the same value',
      },
    ]
  }
  const why = 'a node above its limit is killed, and started again by Kubernetes'
  const set =
    'a larger spec.resources.limits.memory; or onDisk: true for the vectors, or quantization, of the largest collections; or more nodes'
  const used = nodes.filter(
    ({ residentBytes = 0 }) => percent(residentBytes, limit) >= MEMORY_PERCENT,
  )
  if (used.length > 0) {
    const of = ({ residentBytes = 0 }: NodeFacts) => `${percent(residentBytes, limit)} %`
    const seen = `${listNodes(used, of)} of ${formatBytes(limit)} in use`
    return [{ rule: 'Memory', level: 'warning', seen, why, set }]
  }
  const large = nodes.filter(({ vectorBytes }) => percent(vectorBytes, limit) >= MEMORY_PERCENT)
  if (large.length === 0) return []
  const of = ({ vectorBytes }: NodeFacts) => formatBytes(vectorBytes)
  const seen = `vectors that are not on disk: ${listNodes(large, of)}; limit ${formatBytes(limit)}`
  const slow = 'vectors that do not fit into memory are read from the volume by searches'
  return [{ rule: 'VectorMemory', level: 'note', seen, why: slow, set }]
}

export function cores({ nodes, collections, cluster: { spec } }: Facts): Advice[] {
  const text = spec.resources.limits?.cpu
  const limit = text === undefined ? Number.NaN : parseQuantity(String(text))
  const crowded = nodes.flatMap(({ ordinal, cores: seen }) => {
    const available = Number.isNaN(limit) ? seen : limit
    const shards = collections
      .flatMap((collection) => collection.shards)
      .filter((shard) => shard.nodes.includes(ordinal)).length
    return available !== undefined && shards > available * SHARDS_PER_CORE
      ? [{ ordinal, shards, available }]
      : []
  })
  const [worst] = crowded.toSorted((a, b) => b.shards - a.shards)
  if (worst === undefined) return []
  return [
    {
      rule: 'ShardsPerCore',
      level: 'note',
      seen: `node ${worst.ordinal}: ${worst.shards} shards on ${worst.available} cores`,
      why: 'each shard has its own segments, optimizer and write-ahead log; more shards than cores do not search faster',
      set: 'more cores (spec.resources), more nodes, or fewer shards in new collections',
    },
  ]
}

export function sharedKubernetesNode({ nodes, cluster: { spec } }: Facts): Advice[] {
  const byName = Map.groupBy(nodes, ({ kubernetesNode }) => kubernetesNode ?? '')
  byName.delete('')
  const shared = [...byName].find(([, together]) => together.length > 1)
  if (shared === undefined) return []
  const [name, together] = shared
  const replace = spec.affinity === undefined ? '' : ' in addition to your spec.affinity'
  return [
    {
      rule: 'SharedKubernetesNode',
      level: 'warning',
      seen: `nodes ${together.map(({ ordinal }) => ordinal).join(', ')} run on the Kubernetes node ${name}`,
      why: 'the loss of one machine takes several nodes with it',
      set: `spec.topologySpreadConstraints with topologyKey kubernetes.io/hostname${replace}`,
    },
  ]
}

export function zones({ nodes }: Facts): Advice[] {
  const known = nodes.flatMap(({ zone }) => zone ?? [])
  const [zone] = known
  const isOne = new Set(known).size === 1 && known.length === nodes.length && nodes.length > 1
  if (!isOne) return []
  return [
    {
      rule: 'SingleZone',
      level: 'note',
      seen: `all ${nodes.length} nodes are in zone ${zone}`,
      why: 'the loss of this zone is the loss of the cluster',
      set: 'spec.topologySpreadConstraints with topologyKey topology.kubernetes.io/zone, if the Kubernetes cluster has several',
    },
  ]
}

/** The operator makes one from three nodes on (hooks/cluster/values.ts). */
export function disruptionBudget({ cluster: { spec } }: Facts): Advice[] {
  const { replicas, podDisruptionBudget } = spec
  if (replicas === 1 || (podDisruptionBudget.enabled ?? replicas >= QUORUM_NODES)) return []
  return [
    {
      rule: 'NoDisruptionBudget',
      level: 'warning',
      seen: `${replicas} nodes without a PodDisruptionBudget`,
      why: 'draining Kubernetes nodes may evict all of them at the same time',
      set: 'spec.podDisruptionBudget.enabled: true',
    },
  ]
}

export function version({ cluster: { spec }, knownVersions }: Facts): Advice[] {
  const patch = knownVersions.find((known) => compareMinors(known, spec.version) === 0)
  const minors = knownVersions.filter((known) => compareMinors(spec.version, known) > 0)
  const next = minors[0]
  if (patch !== undefined && isOlder(spec.version, patch)) {
    return [
      {
        rule: 'PatchBehind',
        level: 'warning',
        seen: `version ${spec.version}; ${patch} is the latest known patch of it`,
        why: 'patches fix defects of the engine and change no format',
        set: `spec.version: ${patch}`,
      },
    ]
  }
  if (next === undefined) return []
  return [
    {
      rule: 'MinorBehind',
      level: 'note',
      seen: `version ${spec.version}; ${minors.length} later minor ${minors.length === 1 ? 'version is' : 'versions are'} known, up to ${minors.at(-1)}`,
      why: 'the engine is updated one minor version after the other, so the way becomes longer',
      set: `spec.version: ${next}, after a backup`,
    },
  ]
}

export function backups({ schedules, now }: Facts): Advice[] {
  if (schedules === undefined) return []
  const active = schedules.filter(({ spec }) => !spec.suspend)
  if (active.length === 0) {
    const seen =
      schedules.length === 0
        ? 'no VecBackupSchedule names this cluster'
        : `${schedules.length === 1 ? 'the VecBackupSchedule' : 'every VecBackupSchedule'} of this cluster is suspended`
    const why = 'replicas do not protect from a deleted collection or a lost cluster'
    const set = 'a VecBackupSchedule (docs/samples/backup-schedule.yaml), or suspend: false'
    return [{ rule: 'NoBackupSchedule', level: 'warning', seen, why, set }]
  }
  return active.flatMap(({ metadata, status }) => {
    const name = `VecBackupSchedule ${metadata.namespace}/${metadata.name}`
    const why = 'data that were written since the last completed backup exist only in the cluster'
    const set = `what vec-operator status qbs/${metadata.name} says; then vec-operator backup now ${metadata.name}`
    const item = (seen: string): Advice[] => [
      { rule: 'BackupOverdue', level: 'warning', seen, why, set },
    ]
    if (status?.lastBackupStatus === 'Failed') {
      return item(`${name}: the last backup, ${status.lastBackupName ?? ''}, Failed`)
    }
    const times = (status?.recentBackups ?? []).flatMap(({ status: phase, completionTime }) =>
      phase === 'Completed' && completionTime !== undefined ? Date.parse(completionTime) : [],
    )
    const { lastScheduleTime, nextBackupTime } = status ?? {}
    // Before its first run there is nothing to expect.
    if (lastScheduleTime === undefined || nextBackupTime === undefined) return []
    if (times.length === 0) return item(`${name}: no backup is Completed`)
    const interval = Date.parse(nextBackupTime) - Date.parse(lastScheduleTime)
    const newest = Math.max(...times)
    if (now.getTime() - newest <= MISSED_RUNS * interval) return []
    return item(`${name}: the last Completed backup is of ${new Date(newest).toISOString()}`)
  })
}

function percent(part: number, whole: number): number {
  return Math.floor((100 * part) / whole)
}

const MAX_LISTED = 3

function listNodes(nodes: NodeFacts[], describe: (node: NodeFacts) => string): string {
  const names = nodes.map((node) => `node ${node.ordinal} ${describe(node)}`)
  return formatNames(names, MAX_LISTED)
}
