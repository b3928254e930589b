/**
 * As much of an API server as a service with settled clusters asks for: its CRDs, Secrets, and the
 * engines behind the pod proxy. It answers at once, so that the service is what is measured.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { definitionOf } from '../../crds/definition.ts'
import type { Secret } from '../../crds/kubernetes.ts'
import { RESOURCES } from '../../crds/resources.ts'

export interface SettledApi {
  url: string
  /** Calls so far that would have written something. */
  writes: string[]
  close(): void
}

const KEY = Buffer.from('a-key-of-thirty-two-letters-long').toString('base64')

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
  const server = createServer((request, response) => {
    const { method = '', url = '' } = request
    request.resume()
    // A settled cluster gives no cause to write anything.
    if (method !== 'GET') writes.push(`${method} ${url}`)
    const answer = method === 'GET' ? answerTo(url, version) : undefined
    response.writeHead(answer === undefined ? 404 : 200, { 'content-type': 'application/json' })
    response.end(answer ?? '{"message":"not found"}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    writes,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

function answerTo(url: string, version: string): string | undefined {
  const [path = ''] = url.split('?')
  if (path.includes('/proxy/')) return CONSENSUS
  const [, namespace, secret] =
    /^\/api\/v1\/namespaces\/([^/]+)\/secrets\/([^/]+)$/.exec(path) ?? []
  if (namespace !== undefined && secret !== undefined) {
    return JSON.stringify(secretOf(namespace, secret))
  }
  const resource = RESOURCES.find(({ plural }) => path.includes(`/${plural}.`))
  if (resource !== undefined) return JSON.stringify(definitionOf(resource, version))
  if (path.endsWith('/vecclusters')) return '{"kind":"VecClusterList","items":[]}'
  return undefined
}
