/**
 * A small client of the Kubernetes API for the worlds, the loop and the doubles. It speaks to the
 * embedded API and to a real API server alike, and knows kinds only by discovery.
 */
import { Readable } from 'node:stream'
import { Agent, request, type Dispatcher } from 'undici'
import { linesOf } from './lines.ts'
import type { Reference } from './world.ts'

export interface OwnerReference {
  apiVersion: string
  kind: string
  name: string
  uid: string
  controller?: boolean
  blockOwnerDeletion?: boolean
}

export interface ApiMeta {
  name: string
  namespace?: string
  uid?: string
  resourceVersion?: string
  generation?: number
  creationTimestamp?: string
  deletionTimestamp?: string
  deletionGracePeriodSeconds?: number
  generateName?: string
  labels?: Record<string, string>
  annotations?: Record<string, string>
  finalizers?: string[]
  ownerReferences?: OwnerReference[]
}

/** Any object as the API returns it. Fields beyond metadata are read by callers that know the kind. */
export interface ApiObject {
  apiVersion: string
  kind: string
  metadata: ApiMeta
  spec?: unknown
  status?: unknown
  [field: string]: unknown
}

export interface WatchEvent {
  type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK'
  object: ApiObject
}

export type Propagation = 'Background' | 'Foreground' | 'Orphan'

/** The API refused a call; `reason` is the word of its Status object, such as Conflict. */
export class ApiError extends Error {
  readonly status: number
  readonly reason: string

  constructor(status: number, reason: string, message: string) {
    super(message)
    this.status = status
    this.reason = reason
  }
}

export interface Connection {
  server: string
  token?: string
  /** Certificate authority, PEM. */
  ca?: string
}

/** The calls on single objects, which are all that a pass of the loop needs. */
export type ObjectApi = Pick<ApiClient, 'get' | 'create' | 'replace' | 'replaceStatus' | 'delete'>

interface Kind {
  plural: string
  namespaced: boolean
}

interface Selection {
  namespace?: string
  labelSelector?: string
  fieldSelector?: string
}

const MERGE_PATCH = 'application/merge-patch+json'

export class ApiClient {
  readonly server: string
  readonly #headers: Record<string, string>
  readonly #options: Agent.Options
  readonly #agent: Agent
  /** Kinds by apiVersion, from the last discovery. */
  readonly #kinds = new Map<string, Map<string, Kind>>()

  constructor({ server, token, ca }: Connection) {
    this.server = server.replace(/\/$/, '')
    this.#headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
    // A watch may be silent for as long as nothing changes.
    this.#options = { bodyTimeout: 0, ...(ca !== undefined && { connect: { ca } }) }
    this.#agent = new Agent(this.#options)
  }

  /** Undefined when there is no such object, or no such kind. */
  async get(reference: Reference): Promise<ApiObject | undefined> {
    try {
      return await this.#json('GET', await this.path(reference))
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined
      throw error
    }
  }

  async list(
    apiVersion: string,
    kind: string,
    selection: Selection = {},
  ): Promise<{ items: ApiObject[]; resourceVersion: string }> {
    const path = await this.#collection(apiVersion, kind, selection.namespace)
    const search = query({ ...selection, namespace: undefined })
    const list = (await this.#json('GET', path + search)) as unknown as {
      items: ApiObject[] | null
      metadata: { resourceVersion: string }
    }
    // The API leaves them out of the items of a list.
    const items = (list.items ?? []).map((item) => ({ ...item, apiVersion, kind }))
    return { items, resourceVersion: list.metadata.resourceVersion }
  }

  async create(object: object): Promise<ApiObject> {
    const { apiVersion, kind, metadata } = object as ApiObject
    const path = await this.#collection(apiVersion, kind, metadata.namespace)
    return this.#json('POST', path, object)
  }

  async replace(object: object): Promise<ApiObject> {
    return this.#json('PUT', await this.path(referenceOf(object)), object)
  }

  async replaceStatus(object: object): Promise<ApiObject> {
    return this.#json('PUT', `${await this.path(referenceOf(object))}/status`, object)
  }

  async patch(
    reference: Reference,
    patch: object,
    { subresource, dryRun = false }: { subresource?: string; dryRun?: boolean } = {},
  ): Promise<ApiObject> {
    const suffix = subresource === undefined ? '' : `/${subresource}`
    const search = dryRun ? '?dryRun=All' : ''
    return this.#json('PATCH', (await this.path(reference)) + suffix + search, patch, MERGE_PATCH)
  }

  /** Throws a 404 when there is no such object, a 409 when it has another uid. */
  async delete(
    reference: Reference,
    { propagation, uid }: { propagation?: Propagation; uid?: string } = {},
  ): Promise<void> {
    await this.#json('DELETE', await this.path(reference), {
      kind: 'DeleteOptions',
      apiVersion: 'v1',
      ...(propagation !== undefined && { propagationPolicy: propagation }),
      ...(uid !== undefined && { preconditions: { uid } }),
    })
  }

  /** Ends when the server ends it or the signal aborts; throws a 410 when the version is too old. */
  async *watch(
    apiVersion: string,
    kind: string,
    options: Selection & { resourceVersion: string; signal: AbortSignal },
  ): AsyncGenerator<WatchEvent, void> {
    const { namespace, signal, ...selectors } = options
    const path = await this.#collection(apiVersion, kind, namespace)
    const search = query({ watch: 'true', allowWatchBookmarks: 'true', ...selectors })
    try {
      const { body } = await this.#send('GET', path + search, { signal })
      for await (const line of linesOf(body)) yield readEvent(line, { apiVersion, kind })
    } catch (error) {
      if (!signal.aborted) throw error
    }
  }

  /** The answer's text to any call, such as a pod's log. */
  async raw(
    method: string,
    path: string,
    body?: object,
    headers: Record<string, string> = {},
  ): Promise<string> {
    const response = await this.#send(method, path, {
      headers,
      ...(body !== undefined && { body }),
    })
    return response.body.text()
  }

  /** Keeps the API waiting for the rest of a body, until the signal aborts or it loses patience. */
  async holdRequest(
    path: string,
    headers: Record<string, string>,
    signal: AbortSignal,
  ): Promise<void> {
    // Its own connection: undici counts a call broken off as a defect of the whole HTTP/2 session.
    const agent = new Agent({ ...this.#options, allowH2: false })
    try {
      const { body } = await this.#send('POST', path, { agent, body: endless(), headers, signal })
      await body.dump()
    } catch (error) {
      if (!signal.aborted) throw error
    } finally {
      await agent.destroy()
    }
  }

  /** The path of an object. Throws a 404 when the API does not know its kind. */
  async path({ apiVersion, kind, namespace, name }: Reference): Promise<string> {
    return `${await this.#collection(apiVersion, kind, namespace)}/${encodeURIComponent(name)}`
  }

  /** Ends every connection, open watches too. */
  async close(): Promise<void> {
    await this.#agent.destroy()
  }

  async #collection(apiVersion: string, kind: string, namespace?: string): Promise<string> {
    const { plural, namespaced } = await this.#kind(apiVersion, kind)
    const scope = namespaced && namespace ? `/namespaces/${namespace}` : ''
    return `${apiRoot(apiVersion)}${scope}/${plural}`
  }

  async #kind(apiVersion: string, kind: string): Promise<Kind> {
    const cached = this.#kinds.get(apiVersion)?.get(kind)
    if (cached !== undefined) return cached
    const { resources } = (await this.#json('GET', apiRoot(apiVersion))) as unknown as {
      resources: { name: string; kind: string; namespaced: boolean }[]
    }
    const kinds = resources
      .filter(({ name }) => !name.includes('/'))
      .map(({ name, kind, namespaced }) => [kind, { plural: name, namespaced }] as const)
    this.#kinds.set(apiVersion, new Map(kinds))
    const discovered = this.#kinds.get(apiVersion)?.get(kind)
    if (discovered === undefined)
      throw new ApiError(404, 'NotFound', `no kind ${kind} in ${apiVersion}`)
    return discovered
  }

  async #json(method: string, path: string, body?: object, type?: string): Promise<ApiObject> {
    const response = await this.#send(method, path, {
      ...(body !== undefined && { body }),
      ...(type !== undefined && { type }),
    })
    return (await response.body.json()) as ApiObject
  }

  async #send(
    method: string,
    path: string,
    {
      body,
      type,
      headers,
      signal,
      agent = this.#agent,
    }: {
      body?: object | Readable
      type?: string
      headers?: Record<string, string>
      signal?: AbortSignal
      agent?: Agent
    },
  ): Promise<Dispatcher.ResponseData> {
    const response = await request(this.server + path, {
      method,
      dispatcher: agent,
      headers: {
        ...this.#headers,
        ...headers,
        accept: 'application/json',
        ...(body !== undefined && { 'content-type': type ?? 'application/json' }),
      },
      body: body === undefined ? null : body instanceof Readable ? body : JSON.stringify(body),
      signal: signal ?? null,
    })
    if (response.statusCode >= 400) throw await toApiError(response, `${method} ${path}`)
    return response
  }
}

export function referenceOf(object: object): Reference {
  const { apiVersion, kind, metadata } = object as ApiObject
  return { apiVersion, kind, namespace: metadata.namespace ?? '', name: metadata.name }
}

export function controllerOf({ metadata }: ApiObject): OwnerReference | undefined {
  return metadata.ownerReferences?.find(({ controller }) => controller === true)
}

/** The reference that makes an owner the controller of its dependant. */
export function controllerReference({ apiVersion, kind, metadata }: ApiObject): OwnerReference {
  const { name, uid = '' } = metadata
  return { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true }
}

export function isDeleting({ metadata }: ApiObject): boolean {
  return metadata.deletionTimestamp !== undefined
}

/** A body that begins, for undici sends nothing before, and never ends. */
function endless(): Readable {
  const body = new Readable({ read: () => undefined })
  body.push('{')
  return body
}

function apiRoot(apiVersion: string): string {
  return apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`
}

function query(parameters: Record<string, string | undefined>): string {
  const defined = Object.entries(parameters).filter(([, value]) => value !== undefined)
  return defined.length === 0
    ? ''
    : `?${new URLSearchParams(defined as [string, string][]).toString()}`
}

async function toApiError({ statusCode, body }: Dispatcher.ResponseData, call: string) {
  const text = await body.text()
  try {
    const { reason, message } = JSON.parse(text) as { reason?: string; message?: string }
    return new ApiError(statusCode, reason ?? '', message ?? text)
  } catch {
    return new ApiError(statusCode, '', `${call} answered ${statusCode}: ${text}`)
  }
}

function readEvent(line: string, kind: { apiVersion: string; kind: string }): WatchEvent {
  const { type, object } = JSON.parse(line) as { type: string; object: ApiObject }
  if (type === 'ERROR') {
    const { code, reason, message } = object as unknown as {
      code: number
      reason: string
      message: string
    }
    throw new ApiError(code, reason, message)
  }
  return { type: type as WatchEvent['type'], object: { ...object, ...kind } }
}
