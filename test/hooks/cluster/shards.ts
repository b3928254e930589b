/** What is known about the shards of a cluster, for tests of decisions. */
import type { NodeStatus } from '../../../crds/cluster-status.ts'
import type { VecCluster } from '../../../crds/cluster.ts'
import type { Observed } from '../../../hooks/cluster/ports.ts'
import { shardTargets } from '../../../hooks/cluster/shards/next-step.ts'
import { shardsRbac } from '../../../hooks/cluster/shards/job.ts'
import type { ShardsQuery, ShardsSummary } from '../../../hooks/cluster/shards/summary.ts'
import type { LeaseKind, ObservedLease } from '../../../hooks/lease.ts'
import { ANNOTATIONS, REVISION_LABEL } from '../../../crds/contract/names.ts'
import type { Pod } from '../../../crds/kubernetes.ts'
import { cluster, NOW, statefulSet, type ClusterOverrides } from '../../builders.ts'
import { leaseOf } from '../data-job/fixtures.ts'
import { rbac, running } from './decisions.ts'

type PlacedQuery = { connection: Pick<ShardsQuery['connection'], 'replicas'> } & Pick<
  ShardsQuery,
  'targets'
>

/** Every node is a member, every shard is placed, and nothing is due, except a drain that is asked for. */
export function placedShards(
  { connection, targets }: PlacedQuery,
  { plans, ...overrides }: Partial<ShardsSummary> = {},
): ShardsSummary {
  const facts = {
    nodes: ordinals(connection.replicas).map((ordinal) => ({
      ordinal,
      volume: `volume-${ordinal}`,
    })),
    peers: ordinals(connection.replicas).map((ordinal) => member(ordinal)),
    ...overrides,
  }
  const asked = targets(facts)
  return {
    at: NOW.toISOString(),
    collections: 1,
    ...{ replicas: 12, activeReplicas: 12 },
    targets: asked,
    defects: {},
    plans: {
      repair: { is: 'done' },
      ...(asked.drain && { drain: { is: 'step', purpose: 'scale-in' } }),
      ...(asked.balance && { balance: { is: 'done' } }),
      ...plans,
    },
    onlyOn: [],
    backups: [],
    ...facts,
  }
}

export function member(ordinal: number) {
  return { id: 100 + ordinal, ordinal, isMember: true }
}

/** The nodes as they are recorded while all of them are members. */
export function recordedNodes(count: number): NodeStatus[] {
  return ordinals(count).map((ordinal) => ({
    ordinal,
    peer: 100 + ordinal,
    volume: `volume-${ordinal}`,
  }))
}

/** A cluster of three nodes that runs and is balanced. */
export function threeNodes({ status, ...overrides }: ClusterOverrides = {}): VecCluster {
  return cluster({
    ...overrides,
    spec: { replicas: 3, ...overrides.spec },
    status: {
      ...{ phase: 'Running', appliedRun: 1, balancedNodes: 3, nodes: recordedNodes(3) },
      ...status,
    },
  })
}

/**
 * A cluster of three nodes, applied and rolled out, with this summary of its shards, and everything
 * that a Job needs.
 */
export function observedShards(
  { cluster: observed = threeNodes(), ...overrides }: Partial<Observed> = {},
  summary: Partial<ShardsSummary> = {},
): Observed {
  const known = running({
    statefulSet: statefulSet(3),
    ...{ children: [...rbac, ...shardsRbac(observed)], liveJobs: [] },
    leases: heldLeases(2),
    ...overrides,
    cluster: observed,
  })
  const replicas = known.statefulSet?.spec.replicas ?? 1
  const shards = placedShards(
    { connection: { replicas }, targets: (facts) => shardTargets(known, facts) },
    summary,
  )
  return { shards, ...known }
}

/** The pods with the revisions of their templates, by ordinal. */
export function podsOf(revisions: string[]): Pod[] {
  return revisions.map((revision, ordinal) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: `vec-a-${ordinal}`, namespace: 'ns', labels: { [REVISION_LABEL]: revision } },
  }))
}

/** Both Leases, held by the cluster itself for this run and for long enough. */
export function heldLeases(run: number): { write: ObservedLease; backup: ObservedLease } {
  return { write: heldLease('write', run), backup: heldLease('backup', run) }
}

function heldLease(kind: LeaseKind, run: number): ObservedLease {
  const lease = leaseOf(kind, 'VecCluster/ns/a/uid-a', 20)
  const annotations = { [ANNOTATIONS.run]: String(run) }
  return { kind, lease: { ...lease, metadata: { ...lease.metadata, annotations } }, jobs: [] }
}

function ordinals(count: number): number[] {
  return Array.from({ length: count }, (_, ordinal) => ordinal)
}
