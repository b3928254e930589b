/** The engine double without its server, for calls that need no socket. */
import type { EngineCluster } from './cluster.ts'
import { answerAs } from './node.ts'
import { serviceRoutes } from './routes/service.ts'

/** A call of an engine; undefined when it gets no answer. */
export type AskEngine = (call: {
  pod: string
  method: string
  /** With its query. */
  path: string
  body: unknown
}) => Promise<{ status: number; text: string } | undefined>

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
