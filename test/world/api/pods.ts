/** What the API server passes on to the node of a pod: its log, and calls through the proxies of pods and Services. */
import { request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { ApiObject } from '../client.ts'
import { valueAt } from './json.ts'
import { notFound, ApiFailure } from './failure.ts'
import type { Resources } from './resources.ts'
import { matches } from './selectors.ts'

/** What the node knows of the pods that run on it. */
export interface PodNode {
  log(namespace: string, pod: string): string | undefined
  /** Where a port of a pod is reached from this process; undefined when nothing listens there. */
  port(namespace: string, pod: string, port: number): number | undefined
}

/** Text of a pod's log; of several containers one must be named. */
export function podLog(
  resources: Resources,
  node: PodNode,
  { namespace, name, container }: { namespace: string; name: string; container: string | null },
): string {
  const pod = resources.get(resources.kinds.of('v1', 'Pod'), namespace, name)
  const named = (field: string) => (valueAt(pod, field) as { name: string }[] | undefined) ?? []
  const containers = named('spec.containers').map((one) => one.name)
  const initial = named('spec.initContainers').map((one) => one.name)
  if (container === null && containers.length > 1) {
    const choice = `choose one of: [${containers.join(' ')}]`
    const message = `a container name must be specified for pod ${name}, ${choice}`
    throw new ApiFailure(400, 'BadRequest', message)
  }
  if (container !== null && ![...initial, ...containers].includes(container)) {
    throw new ApiFailure(400, 'BadRequest', `container ${container} is not valid for pod ${name}`)
  }
  const log = node.log(namespace, name)
  if (log !== undefined) return log
  throw new ApiFailure(400, 'BadRequest', `container in pod "${name}" is waiting to start`)
}

/** `[scheme:]pod[:port]` of a proxy path. */
export function proxyTarget(text: string): { tls: boolean; name: string; port: number } {
  const parts = text.split(':')
  const tls = parts[0] === 'https'
  if (tls || parts[0] === 'http') parts.shift()
  return { tls, name: parts[0] ?? '', port: Number(parts[1] ?? 80) }
}

/** A proxy path of a Service, as that of a ready pod behind it. */
export function behindService(resources: Resources, namespace: string, target: string): string {
  const { tls, name, port } = proxyTarget(target)
  const { spec } = resources.get(resources.kinds.of('v1', 'Service'), namespace, name) as Service
  const pods = resources.store.list(resources.kinds.of('v1', 'Pod'), namespace)
  const pod = pods.find((one) => matches(one.metadata.labels, spec.selector) && isReady(one))
  if (pod === undefined) {
    throw new ApiFailure(
      503,
      'ServiceUnavailable',
      `no endpoints available for service "${target}"`,
    )
  }
  const { targetPort = port } = spec.ports.find((one) => one.port === port) ?? {}
  const reached = typeof targetPort === 'number' ? targetPort : port
  return `${tls ? 'https' : 'http'}:${pod.metadata.name}:${reached}`
}

interface Service extends ApiObject {
  spec: {
    selector?: Record<string, string>
    ports: { port: number; targetPort?: number | string }[]
  }
}

type Conditions = { type: string; status: string }[]

function isReady(pod: ApiObject): boolean {
  const conditions = valueAt(pod, 'status.conditions') as Conditions | undefined
  return (conditions ?? []).some(({ type, status }) => type === 'Ready' && status === 'True')
}

/** Passes a call on to a port of a pod, body and answer streamed. */
export function proxy(
  resources: Resources,
  node: PodNode,
  { namespace, target, path }: { namespace: string; target: string; path: string },
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { tls, name, port } = proxyTarget(target)
  const kind = resources.kinds.of('v1', 'Pod')
  if (resources.find(kind, namespace, name) === undefined) throw notFound(kind, name)
  const reached = node.port(namespace, name, port)
  if (reached === undefined) throw unreachable(`dial tcp: connect: connection refused`)
  // The caller's own credential is for the API server, not for the pod.
  const headers = { ...request.headers }
  delete headers.authorization
  delete headers.host
  // The caller has gone already: its connection closes only once.
  if (response.destroyed) return Promise.resolve()
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port: reached, path, method: request.method, headers }
    // The API server cannot verify a pod's certificate.
    const onward = tls
      ? httpsRequest({ ...options, rejectUnauthorized: false })
      : httpRequest(options)
    onward.on('response', (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
      answer.on('error', () => response.destroy())
      response.on('close', resolve)
    })
    onward.on('error', ({ message }) => reject(unreachable(message)))
    response.on('close', () => onward.destroy())
    request.pipe(onward)
  })
}

function unreachable(why: string): ApiFailure {
  return new ApiFailure(503, 'ServiceUnavailable', `error trying to reach service: ${why}`)
}
