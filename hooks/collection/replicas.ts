/** Whether each shard has as many Active copies as the spec asks for: PATCH changes only a number. */
import type { ShardCopies } from '../../crds/rules/answers.ts'
import type { Finding } from '../conditions.ts'

export function replicated(factor: number, { local_shards, remote_shards }: ShardCopies): Finding {
  const active = new Map<number, number>()
  for (const { shard_id, state } of [...local_shards, ...remote_shards]) {
    active.set(shard_id, (active.get(shard_id) ?? 0) + (state === 'Active' ? 1 : 0))
  }
  const wanted = active.size * factor
  // A surplus copy of one shard does not make up for a missing one of another.
  const there = [...active.values()].reduce((sum, copies) => sum + Math.min(copies, factor), 0)
  const message = `${there} of ${wanted} replicas are Active`
  return there < wanted
    ? { type: 'Replicated', status: 'False', reason: 'ReplicasMissing', message }
    : { type: 'Replicated', status: 'True', reason: 'AllReplicasActive', message }
}
