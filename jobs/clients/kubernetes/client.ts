/**
 * The part of the Kubernetes API that Jobs and the service use: plain JSON through undici,
 * validated by a schema on arrival. Imports nothing heavy: a Job starts in a fraction of a second.
 */
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import type { Static, TSchema } from '@sinclair/typebox'
import type { Logger } from 'pino'
import { Agent, request, type Dispatcher } from 'undici'
import { KubernetesError } from '../../../crds/contract/errors.ts'
import { SHORT_CALL_TIMEOUT_SECONDS } from '../../../crds/contract/limits.ts'
import { ResponseTooLarge } from '../http/body.ts'
import {
  deadline,
  errorMessage,
  sendRequest,
  streamResponse,
  type HttpResponse,
  type StreamResponse,
} from '../http/request.ts'
import { ObjectList, parseResponse, requireSuccess, validate } from './responses.ts'

/** The address of the API, and how the next call authenticates. */
export interface ApiAccess {
  server: string
  /** Called before each call: tokens are renewed while a process runs. */
  authorize(): Promise<{ headers: Record<string, string>; dispatcher: Dispatcher | undefined }>
}

/** A resource type by its plural, in one namespace or, without it, in all. */
export interface ApiResource {
  apiVersion: string
  plural: string
  namespace?: string
  /** Part of an object, such as `scale`. */
  subresource?: string
}

export interface ListSelector {
  labelSelector?: string
  fieldSelector?: string
  /**
   * A namespace that has rejected every list for a long time is left out, instead of an
   * `UnreadableNamespace`: only for callers that lose nothing by that.
   */
  skipsUnreadable?: true
}

export type Propagation = 'Background' | 'Foreground' | 'Orphan'

export interface RequestOptions {
  body?: object | string | Readable
  contentType?: string
  headers?: Record<string, string>
  timeoutMs?: number
  /** Limit for the response, which is not read beyond it. */
  maxBytes?: number
  signal?: AbortSignal | undefined
}

export type GetOptions = Pick<RequestOptions, 'timeoutMs'>

/** Where the kubelet mounts the service account. */
export const SERVICE_ACCOUNT_FOLDER = '/var/run/secrets/kubernetes.io/serviceaccount'
const MERGE_PATCH = 'application/merge-patch+json'
/** One object has at most 3 MiB in etcd; through the proxy, an engine responds. */
const MAX_RESPONSE_BYTES = 16 * 1024 * 1024
/** Objects and bytes of a page of a list: large objects mean fewer per page. */
const PAGE_LIMIT = 250
const MAX_PAGE_BYTES = 4 * 1024 * 1024
/** Upper bound for a list. */
const MAX_PAGES = 4000
/** The API server expires the continue token after some minutes: the list is then restarted. */
const MAX_RESTARTS = 3

/**
 * How a pod reaches the API: by its service account, or by the VEC_API_* variables outside of a
 * pod.
 */
export function inClusterAccess(env: NodeJS.ProcessEnv = process.env, root = ''): ApiAccess {
  const server = env['VEC_API_SERVER'] ?? inClusterServer(env)
  const isExternal = env['VEC_API_SERVER'] !== undefined
  const tokenFile = isExternal
    ? env['VEC_API_TOKEN_FILE']
    : `${root}${SERVICE_ACCOUNT_FOLDER}/token`
  const caFile = isExternal ? env['VEC_API_CA_FILE'] : `${root}${SERVICE_ACCOUNT_FOLDER}/ca.crt`
  const dispatcher = new Agent({
    keepAliveTimeout: 4_000,
    // All calls would share one HTTP/2 connection. One that is no longer answered (the machine of the API server fails) is
    // replaced only once it is idle, which it never is.
    allowH2: false,
    ...(caFile !== undefined && { connect: { ca: readFileSync(caFile, 'utf8') } }),
  })
  return {
    server,
    // The kubelet renews the file long before its token expires.
    authorize: async () => ({ headers: await bearerHeader(tokenFile), dispatcher }),
  }
}

export class Kubernetes {
  readonly #access: ApiAccess
  readonly #log: Logger
  readonly #beforeChange: (() => Promise<void>) | undefined

  /** `beforeChange` runs directly before each call that creates, patches or deletes an object; its error ends the call. */
  constructor(access: ApiAccess, log: Logger, beforeChange?: () => Promise<void>) {
    this.#access = access
    this.#log = log
    this.#beforeChange = beforeChange
  }

  /** Undefined if the object or its kind does not exist. */
  async get<Schema extends TSchema>(
    resource: ApiResource,
    name: string,
    schema: Schema,
    options: GetOptions = {},
  ): Promise<Static<Schema> | undefined> {
    const path = resourcePath(resource, name)
    const response = await this.call('GET', path, options)
    if (response.status === 404) return undefined
    return parseResponse(schema, requireSuccess(response, `GET ${path}`), `GET ${path}`)
  }

  async list<Schema extends TSchema>(
    resource: ApiResource,
    schema: Schema,
    selector: ListSelector = {},
  ): Promise<Static<Schema>[]> {
    const call = `GET ${resourcePath(resource)}`
    return this.collect(resource, selector, (item) => {
      validate(schema, item, call)
      return item
    })
  }

  /**
   * Maps each object of a list with `pick` and leaves out `undefined`. The list is read page by
   * page, so that only the results stay in memory.
   */
  async collect<Result>(
    resource: ApiResource,
    selector: ListSelector,
    pick: (object: object) => Result | undefined,
  ): Promise<Result[]> {
    for (let restarts = 0; ; restarts += 1) {
      const results: Result[] = []
      const cursor: ListCursor = { limit: PAGE_LIMIT, continue: undefined }
      try {
        for (let page = 0; page < MAX_PAGES; page += 1) {
          await this.readPage(async () => {
            for (const item of await this.#nextItems(resource, selector, cursor)) {
              const picked = pick(item)
              if (picked !== undefined) results.push(picked)
            }
          })
          if (cursor.continue === undefined) return results
        }
      } catch (error) {
        const isExpired = error instanceof KubernetesError && error.status === 410
        if (!isExpired || restarts >= MAX_RESTARTS) throw error
        continue
      }
      throw new KubernetesError(`GET ${resourcePath(resource)} has more than ${MAX_PAGES} pages`)
    }
  }

  /** Reads a page of a list and picks from it; nothing else of the page stays in memory. */
  protected readPage(read: () => Promise<void>): Promise<void> {
    return read()
  }

  /** The objects of the page at the cursor, which then is at the next one. */
  async #nextItems(
    resource: ApiResource,
    selector: ListSelector,
    cursor: ListCursor,
  ): Promise<object[]> {
    const { kind, items, metadata } = await this.#page(resource, selector, cursor)
    const next = metadata?.continue ?? ''
    cursor.continue = next === '' ? undefined : next
    // The items of a list have no apiVersion and kind.
    const type = { apiVersion: resource.apiVersion, kind: kind.replace(/List$/, '') }
    return (items ?? []).map((item) => ({ ...type, ...withoutManagedFields(item) }))
  }

  /** One page; with fewer objects if they exceed the byte limit of a page. */
  async #page(
    resource: ApiResource,
    selector: ListSelector,
    cursor: ListCursor,
  ): Promise<ObjectList> {
    for (;;) {
      const { limit, continue: from } = cursor
      const position = { limit: String(limit), ...(from !== undefined && { continue: from }) }
      const { skipsUnreadable: _, ...query } = selector
      const path = resourcePath(resource) + formatQuery({ ...query, ...position })
      try {
        const response = await this.call('GET', path, { maxBytes: MAX_PAGE_BYTES })
        return parseResponse(ObjectList, requireSuccess(response, `GET ${path}`), `GET ${path}`)
      } catch (error) {
        const isTooLarge = error instanceof Error && error.cause instanceof ResponseTooLarge
        if (!isTooLarge || limit === 1) throw error
        cursor.limit = Math.ceil(limit / 4)
      }
    }
  }

  async create(resource: ApiResource, object: object): Promise<void> {
    const path = resourcePath(resource)
    await this.#beforeChange?.()
    requireSuccess(await this.call('POST', path, { body: object }), `POST ${path}`)
  }

  /**
   * A merge patch; a patch that contains metadata.uid is rejected with 422 if another object has
   * taken the name.
   */
  async patch(resource: ApiResource, name: string, patch: object): Promise<void> {
    await this.#beforeChange?.()
    await this.#patch(resourcePath(resource, name), patch)
  }

  /** What the object would become by a merge patch: the API server checks it and does not store it. */
  async dryRunPatch<Schema extends TSchema>(
    resource: ApiResource,
    name: string,
    { patch, schema }: { patch: object; schema: Schema },
  ): Promise<Static<Schema>> {
    const path = `${resourcePath(resource, name)}?dryRun=All`
    return parseResponse(schema, await this.#patch(path, patch), `PATCH ${path}`)
  }

  async #patch(path: string, patch: object): Promise<string> {
    const response = await this.call('PATCH', path, { body: patch, contentType: MERGE_PATCH })
    return requireSuccess(response, `PATCH ${path}`)
  }

  /** Accepts that the object is gone or has another uid by now. */
  async delete(
    resource: ApiResource,
    name: string,
    { uid, propagation }: { uid?: string; propagation?: Propagation } = {},
  ): Promise<void> {
    const path = resourcePath(resource, name)
    const options = {
      kind: 'DeleteOptions',
      apiVersion: 'v1',
      // JSON leaves out what is undefined.
      propagationPolicy: propagation,
      ...(uid !== undefined && { preconditions: { uid } }),
    }
    await this.#beforeChange?.()
    const response = await this.call('DELETE', path, { body: options })
    if (response.status === 404 || (response.status === 409 && uid !== undefined)) return
    requireSuccess(response, `DELETE ${path}`)
  }

  /** Any call to the API server, including its pod proxy; the caller interprets the status. */
  async call(
    method: Dispatcher.HttpMethod,
    path: string,
    call: RequestOptions = {},
  ): Promise<HttpResponse> {
    const {
      body,
      contentType = 'application/json',
      timeoutMs = SHORT_CALL_TIMEOUT_SECONDS * 1000,
    } = call
    const { maxBytes = MAX_RESPONSE_BYTES } = call
    try {
      const { headers, dispatcher } = await this.#access.authorize()
      const response = await sendRequest(this.#access.server + path, {
        method,
        dispatcher,
        headers: {
          ...headers,
          ...(body !== undefined && { 'content-type': contentType }),
          ...call.headers,
          accept: 'application/json',
        },
        body: isJson(body) ? JSON.stringify(body) : body,
        timeoutMs,
        maxBytes,
        signal: call.signal,
      })
      this.#log.debug({ method, path, status: response.status }, 'api call')
      return response
    } catch (cause) {
      this.#log.debug({ method, path, reason: errorMessage(cause) }, 'api call failed')
      call.signal?.throwIfAborted()
      throw new KubernetesError(`${method} ${path} got no answer: ${errorMessage(cause)}`, {
        cause,
      })
    }
  }

  /**
   * A call whose response is a stream, through the proxy; it fails if nothing arrives for
   * `stallMs`.
   */
  async open(
    method: Dispatcher.HttpMethod,
    path: string,
    { headers: callHeaders, body: payload, timeoutMs, stallMs, signal }: StreamOptions,
  ): Promise<StreamResponse> {
    const callDeadline = deadline(timeoutMs, signal)
    try {
      const { headers, dispatcher } = await this.#access.authorize()
      const response = await request(this.#access.server + path, {
        method,
        ...(dispatcher !== undefined && { dispatcher }),
        headers: { ...headers, ...callHeaders },
        body: payload ?? null,
        headersTimeout: stallMs,
        bodyTimeout: stallMs,
        signal: callDeadline.signal,
      })
      response.body.once('close', () => callDeadline.clear())
      return streamResponse(response)
    } catch (cause) {
      callDeadline.clear()
      signal?.throwIfAborted()
      throw new KubernetesError(`${method} ${path} got no answer: ${errorMessage(cause)}`, {
        cause,
      })
    }
  }
}

function isJson(body: RequestOptions['body']): body is object {
  return typeof body === 'object' && !(body instanceof Readable)
}

interface StreamOptions {
  headers: Record<string, string>
  body?: string | Readable
  timeoutMs: number
  stallMs: number
  signal?: AbortSignal | undefined
}

/** Path of a resource type, or of one object of it. */
export function resourcePath(
  { apiVersion, plural, namespace, subresource }: ApiResource,
  name?: string,
): string {
  const root = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`
  const scope = namespace === undefined ? '' : `/namespaces/${encodeURIComponent(namespace)}`
  const object = name === undefined ? '' : `/${encodeURIComponent(name)}`
  const part = subresource === undefined ? '' : `/${subresource}`
  return `${root}${scope}/${plural}${object}${part}`
}

/** Where a list continues, and with how many objects. */
interface ListCursor {
  limit: number
  continue: string | undefined
}

/** Removes the field owners: they make up a third of an object and are never read. */
function withoutManagedFields(item: object): object {
  const { metadata } = item as { metadata?: { managedFields?: unknown } }
  if (metadata !== undefined) delete metadata.managedFields
  return item
}

function inClusterServer(env: NodeJS.ProcessEnv): string {
  const host = env['KUBERNETES_SERVICE_HOST']
  if (host === undefined || host === '') {
    throw new KubernetesError('not in a pod: KUBERNETES_SERVICE_HOST is not set')
  }
  const port = env['KUBERNETES_SERVICE_PORT'] ?? '443'
  return `https://${host.includes(':') ? `[${host}]` : host}:${port}`
}

async function bearerHeader(file: string | undefined): Promise<Record<string, string>> {
  if (file === undefined) return {}
  return { authorization: `Bearer ${(await readFile(file, 'utf8')).trim()}` }
}

function formatQuery(parameters: Record<string, string>): string {
  const query = new URLSearchParams(parameters).toString()
  return query === '' ? '' : `?${query}`
}
