/**
 * As much of an API server as a service with settled clusters asks for: its CRDs, Secrets, and the
 * engines behind the pod proxy. It answers at once, so that the service is what is measured.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { definitionOf } from '../../crds/definition.ts'
import type { Secret } from '../../crds/kubernetes.ts'
import { RESOURCES } from '../../crds/resources.ts'
import { settledEngine } from './engine.ts'

export interface SettledApi {
  url: string
  /** Calls so far that would have written something. */
  writes: string[]
  /** Calls of engines so far. */
  engineCalls: () => number
  close(): void
}

const KEY = Buffer.from('a-key-of-thirty-two-letters-long').toString('base64')

/** The Secret of that name in every namespace. */
export function secretOf(namespace: string, name: string): Secret {
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace },
    type: 'Opaque',
    data: { api: KEY, 'api-key': KEY },
  }
}

export async function startSettledApi(version: string): Promise<SettledApi> {
  const writes: string[] = []
  const engine = await settledEngine()
  let engineCalls = 0
  const server = createServer((request, response) => {
    const { method = '', url = '' } = request
    request.resume()
    // A settled cluster gives no cause to write anything.
    if (method !== 'GET') writes.push(`${method} ${url}`)
    const [path = ''] = url.split('?')
    const [, proxied] = path.split('/proxy')
    if (proxied !== undefined) engineCalls += 1
    const found = proxied === undefined ? answerTo(path, version) : engine(proxied)
    const answer = method === 'GET' ? found : undefined
    response.writeHead(answer === undefined ? 404 : 200, { 'content-type': 'application/json' })
    response.end(answer ?? '{"message":"not found"}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    writes,
    engineCalls: () => engineCalls,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

function answerTo(path: string, version: string): string | undefined {
  const [, namespace, secret] =
    /^\/api\/v1\/namespaces\/([^/]+)\/secrets\/([^/]+)$/.exec(path) ?? []
  if (namespace !== undefined && secret !== undefined) {
    return JSON.stringify(secretOf(namespace, secret))
  }
  const resource = RESOURCES.find(({ plural }) => path.includes(`/${plural}.`))
  if (resource !== undefined) return JSON.stringify(definitionOf(resource, version))
  if (path.endsWith('/vecclusters')) return '{"kind":"VecClusterList","items":[]}'
  if (path.endsWith('/veccollections')) return '{"kind":"VecCollectionList","items":[]}'
  return undefined
}
