/** What an engine answers of collections that are as they should be, from memory: its time is not measured. */
import { createBody } from '../../crds/engine/collections.ts'
import type { CollectionSpec } from '../../crds/collection.ts'
import { EngineCluster } from '../doubles/engine/cluster.ts'
import { engineOf } from '../doubles/engine/without-server.ts'
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

const PATHS = ['/readyz', '/', '/aliases', '/cluster']

/** Response bodies by path, from the engine double; undefined for a path that should not be requested. */
export async function greenEngine(): Promise<(path: string) => string | undefined> {
  const cluster = new EngineCluster({ staleMs: 0 })
  const engine = engineOf(cluster)
  const ask = async (method: string, path: string, body?: unknown) => {
    const answer = await engine({ pod: 'vec-a-0', method, path, body })
    if (answer?.status !== 200) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`)
    return answer.text
  }
  await ask('PUT', '/collections/docs', createBody(SPEC, cluster.version))
  for (const { field } of SPEC.payloadIndexes ?? []) {
    await ask('PUT', '/collections/docs/index', { field_name: field, field_schema: 'keyword' })
  }
  const answers = new Map<string, string>()
  for (const path of PATHS) answers.set(path, await ask('GET', path))
  const info = await ask('GET', '/collections/docs')
  const copies = await ask('GET', '/collections/docs/cluster')
  return (path) =>
    answers.get(path) ??
    (/^\/collections\/[^/]+$/.test(path)
      ? info
      : /^\/collections\/[^/]+\/cluster$/.test(path)
        ? copies
        : undefined)
}
