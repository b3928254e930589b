/** The engine double without its server, for calls that need no socket. */
import type { EngineCluster } from '../doubles/engine/cluster.ts'
import { answerAs } from '../doubles/engine/node.ts'
import { serviceRoutes } from '../doubles/engine/routes/service.ts'
import type { AskEngine } from './plain-kubernetes.ts'

/** Every pod is a node of this engine. */
export function engineOf(cluster: EngineCluster): AskEngine {
  cluster.join(0)
  return async ({ method, path, body }) => {
    const { pathname, searchParams } = new URL(path, 'http://engine')
    const request = {
      method,
      path: pathname.slice(1).split('/').map(decodeURIComponent),
      query: Object.fromEntries(searchParams),
      body: body ?? {},
    }
    const state = { ready: true, version: cluster.version }
    const answer = serviceRoutes(request, state) ?? (await answerAs(cluster, 0, request))
    const { status, body: said } = answer
    return { status, text: typeof said === 'string' ? said : JSON.stringify(said) }
  }
}
