/**
 * The hook service: routes, authentication and limits. It decides nothing about resources; each
 * kind's room does, and the guard looks at every answer before it leaves.
 */
import { timingSafeEqual } from 'node:crypto'
import { TypeBoxValidatorCompiler, type TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import fastify, {
  LogController,
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify'
import { MAX_REQUEST_BYTES } from '../crds/limits.ts'
import { Connections, TIME_LIMITS } from './connections.ts'
import { callerOf, DecisionLog } from './decision-log.ts'
import { errorAnswer, failedCaller } from './error-answer.ts'
import { GuardRefusal, guardOf } from './guard.ts'
import { withKstatus } from './kstatus.ts'
import {
  SyncRequest,
  TryLater,
  type Desired,
  type HookAnswer,
  type HookRequest,
  type Settings,
} from './protocol.ts'
import type { AnyParent, Room } from './room.ts'
import { serves } from './served.ts'

/** No other route takes a body; what comes nevertheless is not kept. */
const NO_BODY_BYTES = 1024
/** Above Metacontroller's 90 s: it does not repeat a call on a connection we just closed. */
const KEEP_ALIVE_MS = 120_000
/** Metacontroller's worker waits for us; what takes longer goes on in the background (hooks/pass.ts). */
const ANSWER_WITHIN_MS = 5_000
/** A namespace that is not ours is asked again so rarely that it costs nothing, in seconds. */
const NOT_OURS_SECONDS = 3600
const TOO_OLD_SECONDS = 30

export interface HookMetrics {
  observe(kind: string, hook: string, code: number, seconds: number): void
  /** An answer was kept from the wire; `route` is one of ours, such as `/vecclusters/sync`. */
  guardRefused?(route: string): void
  /** A decision that leaves: what a hook was shown, and what it answers. */
  decided?(request: HookRequest<AnyParent>, answer: HookAnswer): void
  text(): Promise<string>
  contentType: string
}

export interface ServerOptions {
  rooms: Room[]
  /** Bearer tokens that are accepted: the current and the previous one; none switches the check off. */
  tokens: () => string[]
  /** What signs Jobs; without it the tokens do. */
  jobKeys?: () => string[]
  log: FastifyBaseLogger
  now: () => Date
  settings: Settings
  metrics: HookMetrics
  /** Why the CRD of this plural is too old for this release; its status would be pruned. */
  crdTooOld?: (plural: string) => string | undefined
  tls?: { cert: string; key: string }
  /** A decision must be made within so many milliseconds, or Metacontroller is told to ask again. */
  answerWithinMs?: number
}

type Hook = 'sync' | 'finalize' | 'customize'

export function buildServer(options: ServerOptions): FastifyInstance {
  const connections = new Connections()
  const decisions = new DecisionLog(options.log)
  const server = fastify({
    loggerInstance: options.log,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: NO_BODY_BYTES,
    keepAliveTimeout: KEEP_ALIVE_MS,
    requestTimeout: TIME_LIMITS.requestTimeout,
    // Nothing is sent and nothing comes for so long, whatever is under way.
    connectionTimeout: KEEP_ALIVE_MS,
    http: TIME_LIMITS,
    // A person's map may have a key `__proto__`; nothing of a body is copied key by key.
    onProtoPoisoning: 'ignore',
    onConstructorPoisoning: 'ignore',
    forceCloseConnections: 'idle',
    ...(options.tls !== undefined && {
      https: { ...options.tls, ...TIME_LIMITS, handshakeTimeout: TIME_LIMITS.headersTimeout },
    }),
  }) as unknown as FastifyInstance
  connections.limit(server.server)
  // Before a body is read, and on every route, those that do not exist included.
  server.addHook('onRequest', async (request, reply) => {
    if (OPEN_ROUTES.has(routeOf(request))) return
    authenticate(request, reply, options.tokens())
    connections.trust(request.raw.socket)
  })
  server.setNotFoundHandler((_, reply) => reply.code(404).send({ error: 'no such route' }))
  server.setValidatorCompiler(TypeBoxValidatorCompiler)
  server.setErrorHandler((error: FastifyError, request, reply) => {
    if (error instanceof GuardRefusal)
      options.metrics.guardRefused?.(request.routeOptions.url ?? '')
    const { code, reason, shown, afterSeconds } = errorAnswer(error)
    const caller = failedCaller(request)
    if (caller !== undefined) decisions.failed(caller, error, reason)
    if (afterSeconds !== undefined) void reply.header('Retry-After', String(afterSeconds))
    return reply.code(code).send({ error: shown })
  })
  server.get('/healthz', async () => ({ status: 'ok' }))
  server.get('/metrics', async (_, reply) => {
    return reply.type(options.metrics.contentType).send(await options.metrics.text())
  })
  for (const room of options.rooms) addRoom(server, room, options, decisions)
  return server
}

/** Answered without the token: probes and Prometheus have none. */
const OPEN_ROUTES = new Set(['GET /healthz', 'GET /metrics'])

function routeOf({ method, is404, routeOptions: { url = '' } }: FastifyRequest): string {
  return is404 ? '' : `${method} ${url}`
}

function addRoom(
  root: FastifyInstance,
  room: Room,
  options: ServerOptions,
  decisions: DecisionLog,
): void {
  const server = root.withTypeProvider<TypeBoxTypeProvider>()
  const checkParent = parentCheck(room)
  const ours = ({ namespace }: AnyParent['metadata']) => serves(options.settings, namespace)
  const route = (hook: Hook, body: typeof room.request) => ({
    schema: { body },
    bodyLimit: MAX_REQUEST_BYTES,
    // Before the body is judged: what an older CRD lets through may miss what we need.
    preValidation: async () => refuseOldCrd(room.plural, options),
    onResponse: async (_: FastifyRequest, reply: FastifyReply) =>
      options.metrics.observe(room.kind, hook, reply.statusCode, reply.elapsedTime / 1000),
  })

  server.post(
    `/${room.plural}/customize`,
    route('customize', CustomizeRequest(room)),
    (request) => {
      const { parent } = request.body as { parent: AnyParent }
      // Finalize reads what it needs through ports: a related kind that is gone must not block it.
      const isGoing = parent.metadata.deletionTimestamp !== undefined
      if (!isGoing) checkParent(parent)
      const none = isGoing || !ours(parent.metadata)
      const relatedResources = none ? [] : room.customize(parent)
      decisions.succeeded(callerOf(parent, 'customize'))
      return { relatedResources }
    },
  )

  const guard = guardOf(room)
  for (const hook of ['sync', 'finalize'] as const) {
    const decide = room[hook]
    if (decide === undefined) continue
    server.post(
      `/${room.plural}/${hook}`,
      route(hook, hook === 'sync' ? room.request : SyncRequest(room.deletedParent)),
      async (request) => {
        const body = {
          ...(request.body as unknown as HookRequest<AnyParent>),
          bytes: sizeOf(request),
        }
        if (!ours(body.parent.metadata)) return leaveAlone(body, hook)
        const settings = { ...options.settings, jobKeys: options.jobKeys?.() ?? options.tokens() }
        const context = { now: options.now(), settings }
        const desired = await withinLimit(
          decide(body, context),
          body.parent,
          options.answerWithinMs,
        )
        const completed = complete(body.parent, desired, context.now)
        const answer = guard(body, completed, hook)
        options.metrics.decided?.(body, answer)
        decisions.decided(body, completed, callerOf(body.parent, hook))
        logDecision(request.log, body.parent, hook, desired.dropped ?? [])
        return answer
      },
    )
  }
}

/** What every kind's status has besides that which its decision says. */
function complete<T>(parent: AnyParent, desired: Desired<T>, now: Date): Desired<object> {
  const { status } = desired
  if (typeof status !== 'object' || status === null) return desired as Desired<object>
  return { ...desired, status: withKstatus(parent, status, now) }
}

function CustomizeRequest(room: Room) {
  return Type.Object({ parent: room.deletedParent })
}

/** Refuses a parent that is not valid, as the schema of a route does. */
function parentCheck(room: Room): (parent: unknown) => void {
  const check = TypeCompiler.Compile(room.parent)
  return (parent) => {
    if (check.Check(parent)) return
    const found = check.Errors(parent).First()
    throw new Invalid([{ instancePath: `/parent${found?.path ?? ''}`, message: found?.message }])
  }
}

/** Answered as what Fastify finds itself. */
class Invalid extends Error {
  readonly statusCode = 400
  readonly validationContext = 'body'
  readonly validation: { instancePath: string; message: string | undefined }[]

  constructor(validation: Invalid['validation']) {
    super('the resource is not valid')
    this.validation = validation
  }
}

/** Of the body; 0 where it came in chunks, which Metacontroller does not send. */
function sizeOf({ headers }: FastifyRequest): number {
  return Number(headers['content-length'] ?? 0)
}

/** A resource of a namespace we do not serve: nothing is touched. */
function leaveAlone({ parent, children }: HookRequest<AnyParent>, hook: Hook) {
  const untouched =
    parent.status?.phase === undefined &&
    Object.values(children).every((objects) => Object.keys(objects).length === 0)
  if (hook === 'finalize' && untouched)
    return { status: parent.status ?? {}, children: [], finalized: true }
  throw new TryLater(`namespace ${parent.metadata.namespace} is not served here`, NOT_OURS_SECONDS)
}

function logDecision(
  log: FastifyBaseLogger,
  parent: AnyParent,
  hook: Hook,
  dropped: { kind: string; name: string; reason: string }[],
): void {
  const { namespace, name } = parent.metadata
  for (const child of dropped) {
    log.info({ parent: `${parent.kind} ${namespace}/${name}`, hook, ...child }, 'child dropped')
  }
}

async function withinLimit<T>(
  decision: Promise<T>,
  { kind, metadata }: AnyParent,
  limitMs = ANSWER_WITHIN_MS,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(
        new TooSlow(`${kind} ${metadata.namespace}/${metadata.name} took more than ${limitMs} ms`),
      )
    }, limitMs)
  })
  try {
    return await Promise.race([decision, limit])
  } finally {
    clearTimeout(timer)
  }
}

/** The decision did not come in time: Metacontroller asks again. */
class TooSlow extends Error {
  readonly statusCode = 503
}

class Unauthorized extends Error {
  readonly statusCode = 401
}

function authenticate(request: FastifyRequest, reply: FastifyReply, tokens: string[]): void {
  if (tokens.length === 0) return
  const given = Buffer.from(request.headers.authorization ?? '')
  const known = tokens.map((token) => areSame(given, Buffer.from(`Bearer ${token}`)))
  if (known.includes(true)) return
  // The body is not waited for.
  void reply.header('connection', 'close')
  throw new Unauthorized('the bearer token is missing or wrong')
}

/** Takes as long for a token that is nearly right; how long ours is, is no secret. */
function areSame(given: Buffer, expected: Buffer): boolean {
  return given.length === expected.length && timingSafeEqual(given, expected)
}

function refuseOldCrd(plural: string, { crdTooOld }: ServerOptions): void {
  const reason = crdTooOld?.(plural)
  if (reason !== undefined) throw new OldCrd(reason)
}

class OldCrd extends Error {
  readonly statusCode = 503
  readonly retryAfterSeconds = TOO_OLD_SECONDS
}
