/** The calls on objects: from a request to what it asks of the resources, and back. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ApiObject } from '../client.ts'
import { invalidValue } from './causes.ts'
import { decode, WrongType } from './decode.ts'
import type { DeleteOptions } from './deletion.ts'
import { equal, isRecord } from './json.ts'
import { apiVersionOf } from './kinds.ts'
import { patched } from './patch.ts'
import { badRequest, conflict, invalid, ApiFailure, unknownPath } from './failure.ts'
import type { Part, Resources } from './resources.ts'
import type { Route } from './routes.ts'
import { answerScale } from './scale.ts'
import { selectorOf } from './selectors.ts'
import { watch } from './watch.ts'

export interface Call {
  route: Route
  query: URLSearchParams
  request: IncomingMessage
  response: ServerResponse
  /** Throws if the caller may not write this body. */
  check?: (body: unknown) => void
  /** Hears of fields that Kubernetes does not have. */
  onWarning?: (line: string) => void
}

/** What is asked of objects, without the way it came. */
export interface Question {
  route: Route
  query: URLSearchParams
  method: string
  /** Of a patch. */
  contentType: string
  body: unknown
  warn?: (warning: string) => void
}

/** Answers a call on an object or on a collection. */
export async function serve(resources: Resources, call: Call): Promise<void> {
  const { route, request, response, query, check, onWarning } = call
  const { method = '' } = request
  if (method === 'GET' && route.name === '' && ['true', '1'].includes(query.get('watch') ?? '')) {
    startWatch(resources, call)
    return
  }
  const contentType = request.headers['content-type'] ?? ''
  const body = method === 'GET' ? undefined : await json(request)
  if (method === 'POST' || method === 'PUT') check?.(body)
  const warn = (warning: string) => {
    response.appendHeader('warning', `299 - ${JSON.stringify(warning)}`)
    onWarning?.(`${method} ${route.kind.kind} ${route.namespace}/${route.name}: ${warning}`)
  }
  const question = { route, query, method, contentType, body, warn }
  const { code, value } = answerTo(resources, question)
  send(response, code, value)
}

/** Reads or changes objects; throws a `Refusal`. */
export function answerTo(
  resources: Resources,
  question: Question,
): { code: number; value: object } {
  const { route, query, method, contentType, body } = question
  const decoded = (object: ApiObject) => decodedObject(object, question)
  const { kind, namespace, name } = route
  if (route.sub === 'scale') return { code: 200, value: answerScale(resources, route, question) }
  const part = partOf(route)
  const isDryRun = query.has('dryRun')
  if (isDryRun && method !== 'PATCH') throw badRequest('dryRun is served for PATCH only')
  const ok = (value: object) => ({ code: 200, value })
  switch (method) {
    case 'GET':
      return ok(name === '' ? list(resources, question) : resources.get(kind, namespace, name))
    case 'POST':
      return { code: 201, value: resources.create(kind, namespace, decoded(objectIn(body, route))) }
    case 'PUT':
      return ok(replace(resources, route, part, decoded(objectIn(body, route))))
    case 'PATCH': {
      const [type = ''] = contentType.split(';')
      const change = (old: ApiObject) => patchedObject(old, type, question)
      return ok(
        isDryRun
          ? resources.preview(kind, route, change, part)
          : resources.update(kind, route, change, part),
      )
    }
    case 'DELETE':
      return ok(remove(resources, question))
    default:
      throw new ApiFailure(405, 'MethodNotAllowed', `${method} is not served here`)
  }
}

function list(resources: Resources, { route, query }: Question): object {
  const { kind, namespace } = route
  const selector = selectorOf(query.get('labelSelector'), query.get('fieldSelector'))
  const from = query.get('continue')
  const all = () => resources.store.list(kind, namespace).filter(selector)
  const limit = Number(query.get('limit') ?? 0) || Infinity
  const { items, revision, next } =
    from === null
      ? resources.pages.first(all(), limit, resources.store.revision)
      : resources.pages.next(from, limit)
  return {
    kind: `${kind.kind}List`,
    apiVersion: apiVersionOf(kind),
    metadata: { resourceVersion: String(revision), ...(next !== undefined && { continue: next }) },
    items,
  }
}

function startWatch(resources: Resources, { route, query, response }: Call): void {
  const seconds = query.get('timeoutSeconds')
  watch(
    resources.store,
    {
      kind: route.kind,
      namespace: route.namespace,
      selector: selectorOf(query.get('labelSelector'), query.get('fieldSelector')),
      resourceVersion: query.get('resourceVersion') ?? '',
      bookmarks: query.get('allowWatchBookmarks') === 'true',
      timeoutSeconds: seconds === null ? undefined : Number(seconds),
    },
    response,
  )
}

function replace(resources: Resources, route: Route, part: Part, object: ApiObject): ApiObject {
  return resources.update(
    route.kind,
    route,
    (old) => {
      const { uid, resourceVersion } = object.metadata
      if (uid && uid !== old.metadata.uid) {
        const why = `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${old.metadata.uid ?? ''}`
        throw conflict(route.kind, route.name, why)
      }
      if (route.kind.definition !== undefined && !resourceVersion) {
        const message = 'Invalid value: 0x0: must be specified for an update'
        throw invalid(route.kind, route.name, [{ field: 'metadata.resourceVersion', message }])
      }
      return object
    },
    part,
  )
}

function remove(resources: Resources, { route, query, body }: Question): object {
  const policy = query.get('propagationPolicy')
  const grace = query.get('gracePeriodSeconds')
  const options: DeleteOptions = {
    ...(policy !== null && { propagationPolicy: policy }),
    ...(grace !== null && { gracePeriodSeconds: Number(grace) }),
    ...(isRecord(body) ? body : {}),
  }
  if (route.name === '') return removeAll(resources, route, query, options)
  const { object, gone } = resources.delete(route.kind, route, options)
  if (!gone) return object
  const { name, uid } = object.metadata
  const details = { name, group: route.kind.group, kind: route.kind.plural, uid }
  return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', details }
}

function removeAll(
  resources: Resources,
  { kind, namespace }: Route,
  query: URLSearchParams,
  options: DeleteOptions,
): object {
  const selector = selectorOf(query.get('labelSelector'), query.get('fieldSelector'))
  const items = resources.store.list(kind, namespace).filter(selector)
  for (const { metadata } of items) {
    resources.delete(kind, { namespace: metadata.namespace ?? '', name: metadata.name }, options)
  }
  return { kind: `${kind.kind}List`, apiVersion: apiVersionOf(kind), metadata: {}, items }
}

function partOf({ kind, sub }: Route): Part {
  if (sub === '') return 'object'
  if (sub === 'status' && kind.status) return 'status'
  if (sub === 'finalize' && kind.kind === 'Namespace') return 'finalize'
  throw unknownPath()
}

export async function json(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  if (chunks.length === 0) return undefined
  try {
    return JSON.parse(Buffer.concat(chunks).toString())
  } catch (error) {
    throw badRequest(`the body does not read as JSON: ${String(error)}`)
  }
}

/** The object in a body; a client may omit what the URL contains already. */
function objectIn(body: unknown, { kind }: Route): ApiObject {
  if (!isRecord(body)) throw badRequest('the body of the request is not an object')
  const expected = { apiVersion: apiVersionOf(kind), kind: kind.kind }
  const given = { ...expected, ...body }
  if (!equal(expected, { apiVersion: given.apiVersion, kind: given.kind })) {
    throw badRequest(
      `the API version in the data does not match the expected API version (${expected.apiVersion}, ${expected.kind})`,
    )
  }
  const metadata = isRecord(body['metadata']) ? body['metadata'] : {}
  return { ...given, metadata: { name: '', ...metadata } }
}

/**
 * The object as its kind reads it. Unknown fields are dropped with a warning, unless the client wants them to be
 * refused, as kubectl does.
 */
function decodedObject(object: ApiObject, { route, query, warn }: Question): ApiObject {
  const { kind } = route
  if (kind.definition !== undefined) return object
  const { object: decoded, unknown } = decode(kind, object)
  const problems = unknown.map((path) => `unknown field "${path}"`)
  if (query.get('fieldValidation') === 'Strict' && problems.length > 0) {
    throw badRequest(`strict decoding error: ${problems.join(', ')}`)
  }
  for (const problem of problems) warn?.(problem)
  return decoded as ApiObject
}

/** The object after a patch; a patch that changes the type of a field is invalid. */
function patchedObject(old: ApiObject, type: string, question: Question): ApiObject {
  const { kind } = question.route
  const object = patched(old, type, question.body) as ApiObject
  try {
    return decodedObject(object, question)
  } catch (error) {
    if (!(error instanceof WrongType)) throw error
    throw invalid(kind, old.metadata.name, [invalidValue('patch', question.body, error.message)])
  }
}

export function send(response: ServerResponse, code: number, body: object): void {
  response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
