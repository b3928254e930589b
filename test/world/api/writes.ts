/** Which calls on the API server write something, and in which namespace. */
import type { IncomingMessage } from 'node:http'

/** A call that is proxied to a pod writes nothing here, whatever its method; nor does a review. */
export function writeOf({
  method = 'GET',
  url = '/',
}: IncomingMessage): { namespace: string; line: string } | undefined {
  if (method === 'GET' || url.includes('/proxy/') || url.includes('/proxy?')) return undefined
  const namespace = /\/namespaces\/([^/?]+)/.exec(url)?.[1]
  return namespace === undefined ? undefined : { namespace, line: `${method} ${url}` }
}
