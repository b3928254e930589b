/** Which calls of an engine through the API server's proxy are repeated, because the proxy failed and not the engine. */
import { ApiError } from '../world/client.ts'

const NOT_WRITTEN =
  /\bwrite tcp .*: (write: (broken pipe|connection reset by peer)|use of closed network connection)$/
const NOT_ANSWERED = /service: (EOF|read .*: connection reset by peer)$/

/**
 * The proxy took a connection that the engine had just closed. Where it could not write the request to its end, the
 * engine has not got it, and any call may be repeated; otherwise the engine may have it, and only a call
 * that `isRepeatable` may be.
 */
export function mayRepeat(error: unknown, method: string, path: string): boolean {
  if (!(error instanceof ApiError)) return false
  if (NOT_WRITTEN.test(error.message)) return true
  return isRepeatable(method, path) && NOT_ANSWERED.test(error.message)
}

/** A call of the engine that changes nothing, or writes the same points again under the same ids. */
function isRepeatable(method: string, path: string): boolean {
  const [resource = ''] = path.split('?')
  const isUpsert = method === 'PUT' && resource.endsWith('/points')
  return method === 'GET' || isUpsert || /\/(count|scroll|query|search)$/.test(resource)
}
