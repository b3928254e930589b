/** Reads what the rules of `advise` judge: resources through the API server, and every node of the engine. */
import { VecBackupSchedule } from '../../../crds/backup-schedule.ts'
import type { VecCluster } from '../../../crds/cluster.ts'
import { clusterConnection } from '../../../crds/contract/connection.ts'
import { EngineError, KubernetesError } from '../../../crds/contract/errors.ts'
import { releaseName } from '../../../crds/contract/names.ts'
import { StatefulSet } from '../../../crds/kubernetes.ts'
import { LATEST_PATCHES } from '../../../crds/versions.ts'
import type { Engine } from '../../clients/engine/client.ts'
import { estimateBytes } from '../../clients/engine/statistics.ts'
import {
  nodeUsage,
  unindexedFields,
  type NodeUsage,
  type ShardUsage,
  type UnindexedField,
} from '../../clients/engine/usage.ts'
import { backupSchedules, statefulSets } from '../../clients/kubernetes/api-resources.ts'
import type { Kubernetes } from '../../clients/kubernetes/client.ts'
import { engineClients, type Invocation } from '../command.ts'
import { volumeBytes } from '../plan.ts'
import type { CollectionFacts, Facts, NodeFacts } from './facts.ts'

export interface Observation {
  facts: Facts
  /** What could not be read, and why. */
  unread: string[]
}

/** What one node reported. */
interface NodeReport {
  ordinal: number
  usage: NodeUsage
  unindexed: UnindexedField[]
}

export async function observe(
  kubernetes: Kubernetes,
  cluster: VecCluster,
  call: Invocation,
): Promise<Observation> {
  const unread: string[] = []
  const schedules = await readSchedules(kubernetes, cluster, unread)
  const reports = await readNodes(kubernetes, cluster, { call, unread })
  const facts: Facts = {
    cluster,
    now: call.time.now(),
    nodes: reports.map((report) => nodeFacts(report, cluster)),
    // Shards of a node that does not answer would look like missing ones.
    collections: unread.some((text) => text.startsWith('node ')) ? [] : collectionFacts(reports),
    unindexed: reports.flatMap(({ unindexed }) => unindexed),
    schedules,
    volumeBytes: volumeBytes(cluster),
    knownVersions: LATEST_PATCHES,
  }
  return { facts, unread }
}

/** In all namespaces, or, without permission for that, in that of the cluster. */
async function readSchedules(
  kubernetes: Kubernetes,
  { metadata }: VecCluster,
  unread: string[],
): Promise<VecBackupSchedule[] | undefined> {
  const { name, namespace } = metadata
  for (const scope of [undefined, namespace]) {
    try {
      const all = await kubernetes.list(backupSchedules(scope), VecBackupSchedule.schema)
      return all.filter(({ spec: { clusterRef }, metadata: own }) => {
        const target = clusterRef.namespace ?? own.namespace
        return clusterRef.name === name && target === namespace
      })
    } catch (error) {
      if (!(error instanceof KubernetesError)) throw error
      if (error.status !== 403 || scope !== undefined) {
        unread.push(`backup schedules: ${error.message}`)
        return undefined
      }
      unread.push(`backup schedules of other namespaces: ${error.message}`)
    }
  }
  return undefined
}

async function readNodes(
  kubernetes: Kubernetes,
  cluster: VecCluster,
  { call, unread }: { call: Invocation; unread: string[] },
): Promise<NodeReport[]> {
  const { name, namespace } = cluster.metadata
  const set = await kubernetes.get(statefulSets(namespace), releaseName(name), StatefulSet)
  const count = set?.spec.replicas ?? 0
  if (count === 0) {
    unread.push('engine: no pods run')
    return []
  }
  const engineForPod = engineClients(kubernetes, clusterConnection(cluster), call)
  const answers = await Promise.all(
    Array.from({ length: count }, async (_, ordinal) => {
      try {
        return [await readNode(ordinal, engineForPod(ordinal), call.signal)]
      } catch (error) {
        if (!(error instanceof EngineError || error instanceof KubernetesError)) throw error
        unread.push(`node ${ordinal}: ${error.message}`)
        return []
      }
    }),
  )
  return answers.flat()
}

async function readNode(ordinal: number, engine: Engine, signal: AbortSignal): Promise<NodeReport> {
  const [usage, unindexed] = await Promise.all([
    nodeUsage(engine, signal),
    unindexedFields(engine, signal),
  ])
  return { ordinal, usage, unindexed }
}

function nodeFacts({ ordinal, usage }: NodeReport, { status }: VecCluster): NodeFacts {
  const recorded = status?.nodes?.find((node) => node.ordinal === ordinal)
  const { residentBytes, cores, shards, params } = usage
  const vectorBytes = shards.map(
    (shard) => shard.vectorBytes * shareInMemory(params.get(shard.collection) ?? {}),
  )
  return {
    ordinal,
    ...(recorded?.zone !== undefined && { zone: recorded.zone }),
    ...(recorded?.node !== undefined && { kubernetesNode: recorded.node }),
    dataBytes: shards.reduce((sum, shard) => sum + sizeOf(shard), 0),
    vectorBytes: vectorBytes.reduce((sum, bytes) => sum + bytes, 0),
    ...(residentBytes !== undefined && { residentBytes }),
    ...(cores !== undefined && { cores }),
  }
}

function sizeOf({ vectorBytes, payloadBytes, points }: ShardUsage): number {
  const local = {
    vectors_size_bytes: vectorBytes,
    payloads_size_bytes: payloadBytes,
    num_points: points,
  }
  return estimateBytes(local) ?? 0
}

/** Part of the dense vectors that the engine does not keep on disk, by their sizes. */
export function shareInMemory({ vectors }: Record<string, unknown>): number {
  const all = isObject(vectors)
    ? 'size' in vectors
      ? [vectors]
      : Object.values(vectors).filter(isObject)
    : []
  const sizeOfAll = (list: Record<string, unknown>[]) =>
    list.reduce((sum, { size }) => sum + Number(size), 0)
  const total = sizeOfAll(all)
  if (total === 0) return 1
  return sizeOfAll(all.filter((vector) => vector['on_disk'] !== true)) / total
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

function collectionFacts(reports: NodeReport[]): CollectionFacts[] {
  const names = new Set(reports.flatMap(({ usage }) => [...usage.params.keys()]))
  return [...names].toSorted().map((name) => {
    const params = reports.find(({ usage }) => usage.params.has(name))?.usage.params.get(name)
    const shards = new Map<number, { id: number; bytes: number; nodes: number[] }>()
    for (const { ordinal, usage } of reports) {
      for (const shard of usage.shards.filter(({ collection }) => collection === name)) {
        const entry = shards.get(shard.shard) ?? { id: shard.shard, bytes: 0, nodes: [] }
        entry.bytes = Math.max(entry.bytes, sizeOf(shard))
        entry.nodes.push(ordinal)
        shards.set(shard.shard, entry)
      }
    }
    return {
      name,
      factor: numberOr(params?.['replication_factor'], 1),
      writeFactor: numberOr(params?.['write_consistency_factor'], 1),
      shards: [...shards.values()].toSorted((a, b) => a.id - b.id),
    }
  })
}

function numberOr(value: unknown, fallback: number): number {
  return typeof value === 'number' ? value : fallback
}
