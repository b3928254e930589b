/** Probes and the version: what a node answers alone, and without a key. */
import { text, type EngineAnswer, type EngineRequest } from '../answers.ts'

interface NodeState {
  ready: boolean
  version: string
}

export function serviceRoutes(
  { method, path }: EngineRequest,
  { ready, version }: NodeState,
): EngineAnswer | undefined {
  if (method !== 'GET') return undefined
  switch (path.join('/')) {
    case '':
      return { status: 200, body: { title: 'qdrant - vector search engine', version } }
    case 'livez':
    case 'healthz':
      return text(200, 'healthz check passed')
    case 'readyz':
      return ready ? text(200, 'all shards are ready') : text(503, 'some shards are not ready')
    default:
      return undefined
  }
}
