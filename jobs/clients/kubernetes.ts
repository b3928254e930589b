/**
 * The Kubernetes API, as far as Jobs and the service need it: plain JSON by undici, checked by a
 * schema where it arrives. Imports nothing heavy: a Job starts in a fraction of a second.
 */
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { Type, type Static, type TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Logger } from 'pino'
import { Agent, request, type Dispatcher } from 'undici'
import { KubernetesError } from '../../crds/errors.ts'
import { SHORT_CALL_SECONDS } from '../../crds/limits.ts'
import { deadline, streamAnswerOf, wordsOf, type StreamAnswer } from './call.ts'
import { flawIn } from './checked.ts'
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

interface Selection {
  labelSelector?: string
  fieldSelector?: string
}

export type Propagation = 'Background' | 'Foreground' | 'Orphan'

export interface Call {
  body?: object | string | Readable
  contentType?: string
  headers?: Record<string, string>
  timeoutMs?: number
  signal?: AbortSignal | undefined
}

/** Where the kubelet mounts the service account. */
export const ACCOUNT_FOLDER = '/var/run/secrets/kubernetes.io/serviceaccount'
const MERGE_PATCH = 'application/merge-patch+json'

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
    const path = pathOf(collection) + queryOf({ ...selection })
    const text = succeeded(await this.call('GET', path), `GET ${path}`)
    const { kind, items } = checked(List, text, `GET ${path}`)
    const { apiVersion } = collection
    // The items of a list come without apiVersion and kind.
    const named = (items ?? []).map((item) => ({
      apiVersion,
      kind: kind.replace(/List$/, ''),
      ...item,
    }))
    for (const item of named) check(schema, item, `GET ${path}`)
    return named
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
        signal: call.signal,
      })
      this.#log.debug({ method, path, status: answer.status }, 'api call')
      return answer
    } catch (cause) {
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

const List = Type.Object({
  kind: Type.String(),
  items: Type.Union([Type.Array(Type.Object({})), Type.Null()]),
})

const Refusal = Type.Object({ message: Type.String() })

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

function succeeded({ status, text }: Answer, call: string): string {
  if (status < 400) return text
  throw new KubernetesError(`${call} answered ${status}: ${refusalOf(text)}`, { status })
}

function refusalOf(text: string): string {
  try {
    const refusal: unknown = JSON.parse(text)
    return Value.Check(Refusal, refusal) ? refusal.message : text
  } catch {
    return text
  }
}

function checked<Schema extends TSchema>(
  schema: Schema,
  text: string,
  call: string,
): Static<Schema> {
  const object = parsed(text, call)
  check(schema, object, call)
  return object
}

function parsed(text: string, call: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // Without the text: it may be a Secret's.
    throw new KubernetesError(`${call} answered something that is not JSON`)
  }
}

/** Names the field, never its value: it may be a Secret's. */
function check(schema: TSchema, object: unknown, call: string): void {
  const flaw = flawIn(schema, object)
  if (flaw !== undefined) {
    throw new KubernetesError(`${call} answered without a valid ${flaw.path}: ${flaw.message}`)
  }
}
