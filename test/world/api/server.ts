/**
 * The embedded API server: Kubernetes' HTTP interface on a loopback port, in front of objects in
 * memory. It does what our service, Jobs, loop, doubles and kubectl ask of an API server.
 */
import { randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Clock } from '../clock.ts'
import { json, send, serve } from './calls.ts'
import { discovery } from './discovery.ts'
import { hinder, type Hindrance } from './hindrance.ts'
import type { Json } from './json.ts'
import { behindService, podLog, proxy, type PodNode } from './pods.ts'
import { ApiFailure, unknownPath } from './failure.ts'
import { Resources } from './resources.ts'
import { authorize, checkEscalation, type Account } from './rbac.ts'
import { writeOf } from './writes.ts'
import { CREATE_REVIEW, REVIEWS, reviewed } from './reviews.ts'
import { routeOf } from './routes.ts'

export interface EmbeddedApi {
  url: string
  /** Address with the credential in its path, for kubectl, which sends none over plain HTTP. */
  openUrl: string
  /** For all clients but pods; it may do anything. */
  token: string
  /** For pods; it may do anything but write namespaces, and shows that a pod calls. */
  podToken: string
  /** For the hook service. */
  serviceToken: string
  /** For Metacontroller, or its replacement. */
  loopToken: string
  /** From now on, service, Metacontroller and the accounts of pods may do only what Roles in this API permit. */
  enforceRbac(accounts: { service: Account; loop: Account }): void
  /** For pods with this ServiceAccount. */
  accountToken(account: Account): string
  /** What calls of the service meet from now on, and those of the loop if it is slow; without it all is well. */
  hinder(hindrance?: Hindrance): void
  /** When a pod called last, in milliseconds since 1970 by the machine's clock; 0 for never. */
  podCallAt(): number
  resources: Resources
  /** Writes of all clients in a namespace so far, a line each. */
  writes(namespace: string): string[]
  /** Rights that a SelfSubjectAccessReview denies, such as `get secrets`. */
  refused: Set<string>
  /** Namespaces in which the service has no RoleBinding (any more): its calls there are forbidden. */
  unbound: Set<string>
  /** A token whose permissions end at this namespace; which kinds it may use there is not checked. */
  admit(namespace: string): string
  /** Pods can be reached and have logs once a node is there. */
  attach(node: PodNode): void
  /** Fields that clients sent and Kubernetes does not have: a real API server drops them with a warning. */
  readonly warnings: readonly string[]
  /** Calls that have not been answered; watches do not count. */
  inFlight(): number
  close(): Promise<void>
}

const NO_NODE: PodNode = { log: () => undefined, port: () => undefined }

export async function startApi(clock: Clock): Promise<EmbeddedApi> {
  const resources = new Resources(clock)
  const token = randomBytes(16).toString('hex')
  const podToken = randomBytes(16).toString('hex')
  const serviceToken = randomBytes(16).toString('hex')
  const loopToken = randomBytes(16).toString('hex')
  let podCallAt = 0
  let hindrance: Hindrance | undefined
  const writes: { namespace: string; line: string }[] = []
  const refused = new Set<string>()
  const unbound = new Set<string>()
  const warnings: string[] = []
  const tenants = new Map<string, string>()
  /** Accounts that RBAC restricts, and tokens of pods by account. */
  const accounts = new Map<string, Account>()
  const podTokens = new Map<string, string>()
  let isRbacEnforced = false
  let node = NO_NODE
  let inFlight = 0

  const server = createServer((request, response) => {
    inFlight += 1
    let isCounted = true
    const end = () => {
      if (isCounted) inFlight -= 1
      isCounted = false
    }
    // A caller that has gone does not wait for an answer.
    response.once('close', end)
    response.setHeader('date', clock.now().toUTCString())
    const open = `/as/${token}/`
    const byPath = request.url?.startsWith(open) === true
    if (byPath) request.url = request.url?.slice(open.length - 1) ?? ''
    const given = request.headers.authorization
    const byPod = given === `Bearer ${podToken}`
    const ofPod = [...podTokens.values()].some((one) => given === `Bearer ${one}`)
    const account = isRbacEnforced ? accounts.get(given ?? '') : undefined
    if (byPod || ofPod) podCallAt = Date.now()
    const byService = given === `Bearer ${serviceToken}`
    const byLoop = given === `Bearer ${loopToken}`
    const tenant = tenants.get(given ?? '')
    const authorized =
      [tenant, account].some((one) => one !== undefined) ||
      [byPath, byPod, ofPod, byService, byLoop, given === `Bearer ${token}`].includes(true)
    const write = writeOf(request)
    if (write !== undefined) writes.push(write)
    const answer = () => {
      if (byPod || (ofPod && account === undefined)) refuseNamespaces(request)
      if (byService) refuseUnbound(request, unbound)
      if (tenant !== undefined) refuseOutside(request, tenant)
      const parts = { resources, refused, account, warnings, node: () => node }
      return respond(parts, authorized, request, response)
    }
    // Priority and fairness rejects one account; a slow API is slow for all.
    const met = byService || (byLoop && hindrance !== 'busy') ? hindrance : undefined
    const answered = hinder(met, response)
    Promise.resolve(answered)
      .then((isAnswered) => (isAnswered ? undefined : answer()))
      .catch((error: unknown) => refuse(response, error))
      .finally(end)
  })
  server.keepAliveTimeout = 60_000
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url,
    openUrl: `${url}/as/${token}`,
    token,
    podToken,
    serviceToken,
    loopToken,
    enforceRbac: ({ service, loop }) => {
      accounts.set(`Bearer ${serviceToken}`, service)
      accounts.set(`Bearer ${loopToken}`, loop)
      isRbacEnforced = true
    },
    accountToken: (account) => {
      const key = `${account.namespace}/${account.name}`
      const own = podTokens.get(key) ?? randomBytes(16).toString('hex')
      podTokens.set(key, own)
      accounts.set(`Bearer ${own}`, account)
      return own
    },
    hinder: (how) => (hindrance = how),
    podCallAt: () => podCallAt,
    resources,
    refused,
    unbound,
    warnings,
    writes: (namespace) =>
      writes.filter((write) => write.namespace === namespace).map(({ line }) => line),
    admit: (namespace) => {
      const own = randomBytes(16).toString('hex')
      tenants.set(`Bearer ${own}`, namespace)
      return own
    },
    attach: (attached) => (node = attached),
    inFlight: () => inFlight,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

interface Parts {
  resources: Resources
  refused: ReadonlySet<string>
  /** An account that RBAC restricts. */
  account: Account | undefined
  warnings: string[]
  node: () => PodNode
}

async function respond(
  { resources, refused, account, warnings, node }: Parts,
  authorized: boolean,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { pathname, searchParams: query } = new URL(request.url ?? '/', 'http://api')
  if (['/healthz', '/readyz', '/livez'].includes(pathname)) {
    response.end('ok')
    return
  }
  if (!authorized) throw new ApiFailure(401, 'Unauthorized', 'Unauthorized')
  const document = request.method === 'GET' ? discovery(resources.kinds, pathname) : undefined
  if (document !== undefined) {
    send(response, 200, document)
    return
  }
  if (request.method === 'POST' && pathname === REVIEWS) {
    if (refused.has(CREATE_REVIEW)) {
      const message = 'selfsubjectaccessreviews.authorization.k8s.io is forbidden'
      throw new ApiFailure(403, 'Forbidden', message)
    }
    send(response, 201, reviewed((await json(request)) as Json, refused))
    return
  }
  const route = routeOf(resources.kinds, pathname)
  if (route === undefined) throw unknownPath()
  if (account !== undefined) authorize(resources, account, { route, query, method: request.method })
  const check = (body: unknown) => {
    if (account !== undefined) checkEscalation(resources, account, { route, body })
  }
  const onWarning = (line: string) => warnings.push(line)
  const call = { route, query, request, response, check, onWarning }
  if (route.sub === 'proxy') {
    const path = (route.rest || '/') + new URL(request.url ?? '/', 'http://api').search
    const { kind, namespace, name } = route
    const target = kind.kind === 'Pod' ? name : behindService(resources, namespace, name)
    await proxy(resources, node(), { namespace, target, path }, request, response)
  } else if (route.kind.kind === 'Pod' && route.sub === 'log') {
    const log = podLog(resources, node(), {
      ...{ namespace: route.namespace, name: route.name },
      container: query.get('container'),
    })
    response.writeHead(200, { 'content-type': 'text/plain' }).end(tail(log, query.get('tailLines')))
  } else {
    await serve(resources, call)
  }
}

/** Rights of a RoleBinding end with it; the namespace itself is readable by a right of the whole cluster. */
function refuseUnbound({ url = '', method = '' }: IncomingMessage, unbound: Set<string>): void {
  const { pathname } = new URL(url, 'http://api')
  const [, namespace] = /\/namespaces\/([^/]+)\/[^/]/.exec(pathname) ?? []
  if (namespace === undefined || !unbound.has(namespace)) return
  const who = 'system:serviceaccount:vec-operator:vec-operator'
  const message = `User "${who}" cannot ${method} ${pathname} in the namespace "${namespace}"`
  throw new ApiFailure(403, 'Forbidden', message)
}

/** Discovery is open to all; every other call must be in the namespace. */
function refuseOutside({ url = '', method = '' }: IncomingMessage, namespace: string): void {
  const { pathname } = new URL(url, 'http://api')
  const isDiscovery = /^\/(apis|(api|apis\/[^/]+)\/[^/]+)$/.test(pathname)
  const [, asked] = /\/namespaces\/([^/]+)\/[^/]/.exec(pathname) ?? []
  if (asked === namespace || (method === 'GET' && isDiscovery)) return
  const who = `system:serviceaccount:${namespace}:tenant`
  throw new ApiFailure(403, 'Forbidden', `User "${who}" cannot ${method} ${pathname}`)
}

/** No account of a Job has a right of the whole cluster (chart/templates/rbac-helm.yaml). */
function refuseNamespaces({ url = '', method = '' }: IncomingMessage): void {
  const { pathname } = new URL(url, 'http://api')
  if (method === 'GET' || !/^\/api\/v1\/namespaces(\/[^/]+)?$/.test(pathname)) return
  const verb = method === 'POST' ? 'create' : method.toLowerCase()
  const message = `namespaces is forbidden: User "system:serviceaccount:ns:helm" cannot ${verb} resource "namespaces" in API group "" at the cluster scope`
  throw new ApiFailure(403, 'Forbidden', message)
}

function refuse(response: ServerResponse, error: unknown): void {
  const failure =
    error instanceof ApiFailure
      ? error
      : new ApiFailure(
          500,
          'InternalError',
          error instanceof Error ? String(error.stack) : String(error),
        )
  if (response.headersSent) response.destroy()
  else send(response, failure.code, failure.toStatus())
}

function tail(text: string, lines: string | null): string {
  if (lines === null) return text
  const all = text.split('\n')
  return all.slice(Math.max(0, all.length - Number(lines) - 1)).join('\n')
}
