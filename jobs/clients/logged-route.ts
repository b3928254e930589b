/** Every request to an engine in the log at level DEBUG, also one that gets no answer. */
import type { Logger } from 'pino'
import { wordsOf } from './call.ts'
import type { Route } from './engine-route.ts'

export function loggedRoute(route: Route, log: Logger): Route {
  const { node } = route
  const logged = async <T extends { status: number }>(
    { method, path }: { method: string; path: string },
    send: () => Promise<T>,
  ): Promise<T> => {
    const call = `${method} ${path}`
    try {
      const answer = await send()
      log.debug({ node, call, status: answer.status }, 'engine call')
      return answer
    } catch (error) {
      log.debug({ node, call, reason: wordsOf(error) }, 'engine call failed')
      throw error
    }
  }
  return {
    node,
    send: (call, ca) => logged(call, () => route.send(call, ca)),
    open: (call, ca) => logged(call, () => route.open(call, ca)),
  }
}
