/** What is known about the shards of a cluster, for tests of decisions. */
import type { ShardsQuery, ShardsSummary } from '../../../hooks/cluster/shards-summary.ts'
import { NOW } from '../../builders.ts'

/** Every node is a member, every shard is placed, and nothing is due. */
export function placedShards(
  { connection, targets }: Pick<ShardsQuery, 'connection' | 'targets'>,
  overrides: Partial<ShardsSummary> = {},
): ShardsSummary {
  const ordinals = Array.from({ length: connection.replicas }, (_, ordinal) => ordinal)
  const nodes = ordinals.map((ordinal) => ({ ordinal, volume: `volume-${ordinal}` }))
  const peers = ordinals.map((ordinal) => ({ id: 100 + ordinal, ordinal, isMember: true }))
  const facts = { nodes, peers, ...overrides }
  const asked = targets(facts)
  return {
    at: NOW.toISOString(),
    collections: 1,
    ...{ replicas: 12, activeReplicas: 12 },
    targets: asked,
    plans: {
      repair: { is: 'done' },
      ...(asked.drain && { drain: { is: 'step', purpose: 'scale-in' } }),
      ...(asked.balance && { balance: { is: 'done' } }),
    },
    onlyOn: [],
    backups: [],
    ...facts,
  }
}
