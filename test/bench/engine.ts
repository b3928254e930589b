/** What an engine answers of collections that are as they should be, from memory: its time is not measured. */
import { createBody } from '../../crds/engine/collections.ts'
import type { CollectionSpec } from '../../crds/collection.ts'
import { FakeEngine } from '../hooks/collection/engine.ts'
import { collectionSpec } from '../hooks/collection/stage.ts'

/** Of an everyday collection. Its factor makes the copies be looked at too: both calls of a pass. */
export const SPEC: CollectionSpec = collectionSpec({
  vectors: [{ size: 768, distance: 'Cosine', hnsw: { m: 32 }, quantization: {} }],
  replicationFactor: 1,
  hnsw: { ef_construct: 200 },
  optimizers: { default_segment_number: 4 },
  payloadIndexes: ['tenant', 'title', 'made_at'].map((field) => ({
    ...{ field, type: 'keyword' as const, params: {} },
  })),
})

const VERSION = '1.18.3'

/** Response bodies by path; undefined for a path that should not be requested. */
export async function greenEngine(): Promise<(path: string) => string | undefined> {
  const engine = new FakeEngine()
  await engine.createCollection('docs', createBody(SPEC, VERSION))
  for (const { field } of SPEC.payloadIndexes ?? []) {
    await engine.putIndex('docs', { field_name: field, field_schema: 'keyword' })
  }
  const result = (value: unknown) => JSON.stringify({ status: 'ok', time: 0.0001, result: value })
  const info = result(await engine.collectionInfo('docs'))
  const copies = result({
    ...{ peer_id: 1, shard_count: 1, remote_shards: [], shard_transfers: [] },
    local_shards: [{ shard_id: 0, points_count: 0, state: 'Active' }],
  })
  const answers: Record<string, string> = {
    '/readyz': 'all shards are ready',
    '/': JSON.stringify({ title: 'engine', version: VERSION, commit: 'none' }),
    '/aliases': result({ aliases: [] }),
    '/cluster': CONSENSUS,
  }
  return (path) =>
    answers[path] ??
    (/^\/collections\/[^/]+$/.test(path)
      ? info
      : /^\/collections\/[^/]+\/cluster$/.test(path)
        ? copies
        : undefined)
}

const CONSENSUS = JSON.stringify({
  status: 'ok',
  time: 0.0001,
  result: {
    status: 'enabled',
    peer_id: 1,
    peers: { 1: { uri: 'http://vec-a-0.vec-a-headless:6335/' } },
    raft_info: { leader: 1, term: 1, commit: 9, pending_operations: 0, role: 'Leader' },
    consensus_thread_status: {
      consensus_thread_status: 'working',
      last_update: '2026-03-01T12:00:00Z',
    },
  },
})
