/**
 * The Kubernetes API, as far as Jobs and the service need it: plain JSON by undici, checked by a
 * schema where it arrives. Imports nothing heavy: a Job starts in a fraction of a second.
 */
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import type { Static, TSchema } from '@sinclair/typebox'
import type { Logger } from 'pino'
import { Agent, request, type Dispatcher } from 'undici'
import { KubernetesError } from '../../crds/errors.ts'
import { SHORT_CALL_SECONDS } from '../../crds/limits.ts'
import { AnswerTooLong } from './byte-limit.ts'
import { deadline, streamAnswerOf, wordsOf, type StreamAnswer } from './call.ts'
import { check, checked, List, succeeded } from './kubernetes-answers.ts'
import { ask, type Answer } from './whole-answer.ts'

/** Where the API is, and how the next call proves who makes it. */
export interface Access {
  server: string
  /** Asked before each call: tokens are renewed while a process runs. */
  authorize(): Promise<{ headers: Record<string, string>; dispatcher: Dispatcher | undefined }>
}

/** A kind of object by its plural, in one namespace or, without it, in all. */
export interface Collection {
  apiVersion: string
  plural: string
  namespace?: string
}

export interface Selection {
  labelSelector?: string
  fieldSelector?: string
}

export type Propagation = 'Background' | 'Foreground' | 'Orphan'

export interface Call {
  body?: object | string | Readable
  contentType?: string
  headers?: Record<string, string>
  timeoutMs?: number
  /** The answer is not read past so many bytes. */
  maxBytes?: number
  signal?: AbortSignal | undefined
}

/** Where the kubelet mounts the service account. */
export const ACCOUNT_FOLDER = '/var/run/secrets/kubernetes.io/serviceaccount'
const MERGE_PATCH = 'application/merge-patch+json'
/** One object has at most 3 MiB in etcd; through the proxy, an engine answers. */
const ANSWER_BYTES = 16 * 1024 * 1024
/** Objects of a page of a list, and its bytes: with large objects there are fewer on a page. */
const PAGE_OBJECTS = 250
const PAGE_BYTES = 4 * 1024 * 1024
/** A list has an end. */
const MAX_PAGES = 4000
/** The API server forgets where a list stands after some minutes: it is begun again. */
const MAX_RESTARTS = 3

/**
 * How a pod reaches the API: by its service account, or as the VEC_API_* variables say where there is
 * no pod around us.
 */
export function podAccess(env: NodeJS.ProcessEnv = process.env, root = ''): Access {
  const server = env['VEC_API_SERVER'] ?? inClusterServer(env)
  const outside = env['VEC_API_SERVER'] !== undefined
  const tokenFile = outside ? env['VEC_API_TOKEN_FILE'] : `${root}${ACCOUNT_FOLDER}/token`
  const caFile = outside ? env['VEC_API_CA_FILE'] : `${root}${ACCOUNT_FOLDER}/ca.crt`
  const dispatcher = new Agent({
    keepAliveTimeout: 4_000,
    ...(caFile !== undefined && { connect: { ca: readFileSync(caFile, 'utf8') } }),
  })
  return {
    server,
    // The kubelet renews the file long before the token in it expires.
    authorize: async () => ({ headers: await bearer(tokenFile), dispatcher }),
  }
}

export class Kubernetes {
  readonly #access: Access
  readonly #log: Logger

  constructor(access: Access, log: Logger) {
    this.#access = access
    this.#log = log
  }

  /** Undefined when there is no such object, or no such kind. */
  async get<Schema extends TSchema>(
    collection: Collection,
    name: string,
    schema: Schema,
  ): Promise<Static<Schema> | undefined> {
    const path = pathOf(collection, name)
    const answer = await this.call('GET', path)
    if (answer.status === 404) return undefined
    return checked(schema, succeeded(answer, `GET ${path}`), `GET ${path}`)
  }

  async list<Schema extends TSchema>(
    collection: Collection,
    schema: Schema,
    selection: Selection = {},
  ): Promise<Static<Schema>[]> {
    const call = `GET ${pathOf(collection)}`
    return this.collect(collection, selection, (item) => {
      check(schema, item, call)
      return item
    })
  }

  /**
   * What `pick` makes of each object of a list, without those it makes `undefined` of. The list is read
   * page by page, so that no more of it is in memory than what is kept.
   */
  async collect<Kept>(
    collection: Collection,
    selection: Selection,
    pick: (object: object) => Kept | undefined,
  ): Promise<Kept[]> {
    for (let restarts = 0; ; restarts += 1) {
      const kept: Kept[] = []
      try {
        for await (const items of this.#pages(collection, selection)) {
          for (const item of items) {
            const found = pick(item)
            if (found !== undefined) kept.push(found)
          }
        }
        return kept
      } catch (error) {
        const isExpired = error instanceof KubernetesError && error.status === 410
        if (!isExpired || restarts >= MAX_RESTARTS) throw error
      }
    }
  }

  async *#pages(collection: Collection, selection: Selection): AsyncGenerator<object[]> {
    const { apiVersion } = collection
    const at: Position = { limit: PAGE_OBJECTS, continue: undefined }
    for (let page = 0; page < MAX_PAGES; page += 1) {
      const { kind, items, metadata } = await this.#page(collection, selection, at)
      // The items of a list come without apiVersion and kind.
      const type = { apiVersion, kind: kind.replace(/List$/, '') }
      yield (items ?? []).map((item) => ({ ...type, ...withoutManagedFields(item) }))
      const next = metadata?.continue ?? ''
      if (next === '') return
      at.continue = next
    }
    throw new KubernetesError(`GET ${pathOf(collection)} has more than ${MAX_PAGES} pages`)
  }

  /** One page; where its objects are too large for the bytes of a page, with fewer of them. */
  async #page(collection: Collection, selection: Selection, at: Position): Promise<List> {
    for (;;) {
      const { limit, continue: from } = at
      const position = { limit: String(limit), ...(from !== undefined && { continue: from }) }
      const path = pathOf(collection) + queryOf({ ...selection, ...position })
      try {
        const answer = await this.call('GET', path, { maxBytes: PAGE_BYTES })
        return checked(List, succeeded(answer, `GET ${path}`), `GET ${path}`)
      } catch (error) {
        const isTooLong = error instanceof Error && error.cause instanceof AnswerTooLong
        if (!isTooLong || limit === 1) throw error
        at.limit = Math.ceil(limit / 4)
      }
    }
  }

  async create(collection: Collection, object: object): Promise<void> {
    const path = pathOf(collection)
    succeeded(await this.call('POST', path, { body: object }), `POST ${path}`)
  }

  /** A merge patch; one that carries metadata.uid is refused with 422 where that is a namesake's. */
  async patch(collection: Collection, name: string, patch: object): Promise<void> {
    const path = pathOf(collection, name)
    const answer = await this.call('PATCH', path, { body: patch, contentType: MERGE_PATCH })
    succeeded(answer, `PATCH ${path}`)
  }

  /** An object that is gone, or has another uid by now, is fine. */
  async delete(
    collection: Collection,
    name: string,
    { uid, propagation }: { uid?: string; propagation?: Propagation } = {},
  ): Promise<void> {
    const path = pathOf(collection, name)
    const options = {
      kind: 'DeleteOptions',
      apiVersion: 'v1',
      ...(propagation !== undefined && { propagationPolicy: propagation }),
      ...(uid !== undefined && { preconditions: { uid } }),
    }
    const answer = await this.call('DELETE', path, { body: options })
    if (answer.status === 404 || (answer.status === 409 && uid !== undefined)) return
    succeeded(answer, `DELETE ${path}`)
  }

  /** Any call below the API server, its pod proxy included; the status is the caller's to judge. */
  async call(method: Dispatcher.HttpMethod, path: string, call: Call = {}): Promise<Answer> {
    const { body, contentType = 'application/json', timeoutMs = SHORT_CALL_SECONDS * 1000 } = call
    const { maxBytes = ANSWER_BYTES } = call
    try {
      const { headers, dispatcher } = await this.#access.authorize()
      const answer = await ask(this.#access.server + path, {
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
      this.#log.debug({ method, path, status: answer.status }, 'api call')
      return answer
    } catch (cause) {
      this.#log.debug({ method, path, reason: wordsOf(cause) }, 'api call failed')
      call.signal?.throwIfAborted()
      throw new KubernetesError(`${method} ${path} got no answer: ${wordsOf(cause)}`, { cause })
    }
  }

  /** A call whose answer is a stream, through the proxy; it fails when nothing comes for `stallMs`. */
  async open(
    method: Dispatcher.HttpMethod,
    path: string,
    { headers: own, body: sent, timeoutMs, stallMs, signal }: StreamCall,
  ): Promise<StreamAnswer> {
    const end = deadline(timeoutMs, signal)
    try {
      const { headers, dispatcher } = await this.#access.authorize()
      const answer = await request(this.#access.server + path, {
        method,
        ...(dispatcher !== undefined && { dispatcher }),
        headers: { ...headers, ...own },
        body: sent ?? null,
        headersTimeout: stallMs,
        bodyTimeout: stallMs,
        signal: end.signal,
      })
      answer.body.once('close', () => end.clear())
      return streamAnswerOf(answer)
    } catch (cause) {
      end.clear()
      signal?.throwIfAborted()
      throw new KubernetesError(`${method} ${path} got no answer: ${wordsOf(cause)}`, { cause })
    }
  }
}

function isJson(body: Call['body']): body is object {
  return typeof body === 'object' && !(body instanceof Readable)
}

interface StreamCall {
  headers: Record<string, string>
  body?: string | Readable
  timeoutMs: number
  stallMs: number
  signal?: AbortSignal | undefined
}

/** Path of a collection, or of one object in it. */
export function pathOf({ apiVersion, plural, namespace }: Collection, name?: string): string {
  const root = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`
  const scope = namespace === undefined ? '' : `/namespaces/${encodeURIComponent(namespace)}`
  const object = name === undefined ? '' : `/${encodeURIComponent(name)}`
  return `${root}${scope}/${plural}${object}`
}

/** Where a list goes on, and with how many objects. */
interface Position {
  limit: number
  continue: string | undefined
}

/** Who wrote which field: a third of an object, and nobody here asks. */
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

async function bearer(file: string | undefined): Promise<Record<string, string>> {
  if (file === undefined) return {}
  return { authorization: `Bearer ${(await readFile(file, 'utf8')).trim()}` }
}

function queryOf(parameters: Record<string, string>): string {
  const query = new URLSearchParams(parameters).toString()
  return query === '' ? '' : `?${query}`
}
