/**
 * As much of an API server as a service with settled clusters asks for: its CRDs, Secrets, and the
 * engines behind the pod proxy. It answers at once, so that the service is what is measured.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { customResourceDefinition, RESOURCES } from '../../crds/crd.ts'
import type { Secret } from '../../crds/kubernetes.ts'
import { greenEngine } from './engine.ts'
import { monotonic, SENT_AT } from './instants.ts'

/** What it was asked so far. */
export interface ApiCalls {
  /** Calls that would have written something. */
  writes: string[]
  /** How many calls were for engines. */
  engine: number
}

export interface FixedApi {
  url: string
  calls(): Promise<ApiCalls>
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

/** In a separate process: its time is neither the service's nor that of who measures. */
export async function startFixedApi(version: string): Promise<FixedApi> {
  const child = fork(new URL('api-process.ts', import.meta.url), [version], { execArgv: [] })
  const answer = async <Answer>() => {
    const [message] = (await once(child, 'message')) as [Answer]
    return message
  }
  const url = await answer<string>()
  return {
    url,
    calls: () => {
      child.send('calls')
      return answer<ApiCalls>()
    },
    close: () => void child.kill('SIGTERM'),
  }
}

/** In this process, for api-process.ts. */
export async function serveFixedApi(version: string) {
  const calls: ApiCalls = { writes: [], engine: 0 }
  const engine = await greenEngine()
  const server = createServer((request, response) => {
    const { method = '', url = '' } = request
    request.resume()
    // A settled cluster gives no cause to write anything.
    if (method !== 'GET') calls.writes.push(`${method} ${url}`)
    const [path = ''] = url.split('?')
    const [, proxied] = path.split('/proxy')
    if (proxied !== undefined) calls.engine += 1
    const found = proxied === undefined ? answerTo(path, version) : engine(proxied)
    const answer = method === 'GET' ? found : undefined
    response.writeHead(answer === undefined ? 404 : 200, {
      'content-type': 'application/json',
      [SENT_AT]: monotonic(),
    })
    response.end(answer ?? '{"message":"not found"}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, calls }
}

function answerTo(path: string, version: string): string | undefined {
  const [, namespace, secret] =
    /^\/api\/v1\/namespaces\/([^/]+)\/secrets\/([^/]+)$/.exec(path) ?? []
  if (namespace !== undefined && secret !== undefined) {
    return JSON.stringify(secretOf(namespace, secret))
  }
  const resource = RESOURCES.find(({ plural }) => path.includes(`/${plural}.`))
  if (resource !== undefined) return JSON.stringify(customResourceDefinition(resource, version))
  if (path.endsWith('/vecclusters')) return '{"kind":"VecClusterList","items":[]}'
  if (path.endsWith('/veccollections')) return '{"kind":"VecCollectionList","items":[]}'
  return undefined
}
