/**
 * The hook service: routes, authentication and limits. It decides nothing about resources: the
 * hooks of each kind do, and every answer is validated before it is sent.
 */
import { setImmediate } from 'node:timers/promises'
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
  type preParsingAsyncHookHandler,
} from 'fastify'
import { MAX_REQUEST_BYTES } from '../crds/contract/limits.ts'
import { authenticate, ConnectionLimiter, needsToken, TIME_LIMITS } from './authentication.ts'
import { hookCaller, DecisionLog } from './decision-log.ts'
import { errorResponse, failedCaller } from './error-response.ts'
import { InvalidAnswer, answerValidator } from './answer-validation.ts'
import { withKstatus } from './conditions.ts'
import {
  SyncRequest,
  RetryLater,
  type Desired,
  type HookAnswer,
  type HookRequest,
  type Settings,
  type AnyParent,
  type KindHooks,
} from './protocol.ts'
import { isNamespaceWatched } from './cross-namespace.ts'
import { bodySize, limitBodies, SMALL_BODY_BYTES, WaitTimeout } from './request-bodies.ts'

/** No other route expects a body; a larger one is rejected. */
const NO_BODY_BYTES = 1024
/**
 * Above Metacontroller's 90 s, so that it does not send a call on a connection that was just
 * closed.
 */
const KEEP_ALIVE_MS = 120_000
/**
 * Metacontroller's worker waits for the response; longer work continues in the background
 * (hooks/background-task.ts).
 */
const ANSWER_DEADLINE_MS = 5_000
/** Retry delay for an unwatched namespace: long enough to cost nothing, in seconds. */
const UNWATCHED_RETRY_SECONDS = 3600
const OUTDATED_CRD_RETRY_SECONDS = 30

export interface HookMetrics {
  observe(kind: string, hook: string, code: number, seconds: number): void
  /** An answer was not sent; `route` is one of the hook routes, such as `/vecclusters/sync`. */
  answerRejected?(route: string): void
  /** A call was answered with 503 because it waited too long for memory. */
  waitTimedOut?(kind: string, hook: string): void
  /** A decision that is sent: the request and the answer. */
  recordDecision?(request: HookRequest<AnyParent>, answer: HookAnswer): void
  text(): Promise<string>
  contentType: string
}

export interface ServerOptions {
  hooks: KindHooks[]
  /**
   * Accepted bearer tokens: the current and the previous one; an empty list disables
   * authentication.
   */
  tokens: () => string[]
  /** Keys that sign Jobs; the tokens by default. */
  jobKeys?: () => string[]
  log: FastifyBaseLogger
  now: () => Date
  settings: Settings
  metrics: HookMetrics
  /** Why the CRD of this plural is too old for this release; its status would be pruned. */
  outdatedCrd?: (plural: string) => string | undefined
  /** The live status of a resource that is being deleted; undefined if it cannot be read. */
  liveStatus?: (kindHooks: KindHooks, parent: AnyParent) => Promise<LiveStatus | undefined>
  tls?: { cert: string; key: string }
  /** Time limit of a decision in milliseconds; after it Metacontroller is asked to retry. */
  answerDeadlineMs?: number
  /** Time limit of the wait for the memory of a large body, in milliseconds. */
  maxBodyWaitMs?: number
}

export interface LiveStatus {
  status?: AnyParent['status']
}

type Hook = 'sync' | 'finalize' | 'customize'

export function buildServer(options: ServerOptions): FastifyInstance {
  const connectionLimiter = new ConnectionLimiter()
  const decisionLog = new DecisionLog(options.log)
  const server = fastify({
    loggerInstance: options.log,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: NO_BODY_BYTES,
    keepAliveTimeout: KEEP_ALIVE_MS,
    requestTimeout: TIME_LIMITS.requestTimeout,
    // Idle timeout of the socket, also while a request is in progress.
    connectionTimeout: KEEP_ALIVE_MS,
    http: TIME_LIMITS,
    // A user's map may have a key `__proto__`; the body is never copied key by key.
    onProtoPoisoning: 'ignore',
    onConstructorPoisoning: 'ignore',
    forceCloseConnections: 'idle',
    ...(options.tls !== undefined && {
      https: { ...options.tls, ...TIME_LIMITS, handshakeTimeout: TIME_LIMITS.headersTimeout },
    }),
  }) as unknown as FastifyInstance
  connectionLimiter.attach(server.server)
  server.addHook('preClose', async () => connectionLimiter.close())
  server.addHook('onSend', async (_, reply) => {
    // Node closes the connections that are idle, and waits for one that its answer makes idle later.
    if (connectionLimiter.isClosing) reply.header('connection', 'close')
  })
  // Authenticate before parsing the body, on every route and for unknown routes too.
  server.addHook('onRequest', async (request, reply) => {
    if (await connectionLimiter.refusePipelining(request.raw, reply.raw)) return reply.hijack()
    if (!needsToken(request)) return
    authenticate(request, reply, options.tokens())
    connectionLimiter.markAuthenticated(request.raw.socket)
  })
  server.setNotFoundHandler((_, reply) => reply.code(404).send({ error: 'no such route' }))
  server.setValidatorCompiler(TypeBoxValidatorCompiler)
  server.setErrorHandler((error: FastifyError, request, reply) => {
    if (error instanceof InvalidAnswer)
      options.metrics.answerRejected?.(request.routeOptions.url ?? '')
    const { code, reason, publicMessage, retryAfterSeconds } = errorResponse(error)
    const caller = failedCaller(request)
    if (caller !== undefined && error instanceof WaitTimeout)
      options.metrics.waitTimedOut?.(caller.kind, caller.hook)
    if (caller !== undefined) decisionLog.recordFailure(caller, error, reason)
    if (retryAfterSeconds !== undefined) void reply.header('Retry-After', String(retryAfterSeconds))
    return reply.code(code).send({ error: publicMessage })
  })
  server.get('/healthz', async () => ({ status: 'ok' }))
  const metricsPage = shared(() => options.metrics.text())
  server.get('/metrics', async (_, reply) => {
    return reply.type(options.metrics.contentType).send(await metricsPage())
  })
  const preParsing = limitBodies(server, options.maxBodyWaitMs)
  for (const kindHooks of options.hooks)
    addKindHooks(server, kindHooks, options, { decisionLog, preParsing })
  return server
}

/**
 * One call for all callers at the same time. A page of 10,000 resources takes a tenth of a second, and needs no
 * token: many requests for it must not keep hooks waiting.
 */
function shared<Result>(call: () => Promise<Result>): () => Promise<Result> {
  let current: Promise<Result> | undefined
  return () => {
    // The call begins once the requests that have already arrived have joined it.
    current ??= setImmediate()
      .then(call)
      .finally(() => (current = undefined))
    return current
  }
}

function addKindHooks(
  root: FastifyInstance,
  kindHooks: KindHooks,
  options: ServerOptions,
  { decisionLog, preParsing }: { decisionLog: DecisionLog; preParsing: preParsingAsyncHookHandler },
): void {
  const server = root.withTypeProvider<TypeBoxTypeProvider>()
  const checkParent = parentValidator(kindHooks)
  const isWatched = ({ namespace }: AnyParent['metadata']) =>
    isNamespaceWatched(options.settings, namespace)
  const route = (hook: Hook, body: typeof kindHooks.request) => ({
    schema: { body },
    bodyLimit: MAX_REQUEST_BYTES,
    preParsing,
    // Before the body is validated: what an older CRD admits may miss required fields.
    preValidation: async () => requireCurrentCrd(kindHooks.plural, options),
    onResponse: async (_: FastifyRequest, reply: FastifyReply) =>
      options.metrics.observe(kindHooks.kind, hook, reply.statusCode, reply.elapsedTime / 1000),
  })

  server.post(
    `/${kindHooks.plural}/customize`,
    route('customize', CustomizeRequest(kindHooks)),
    (request) => {
      const { parent } = request.body as { parent: AnyParent }
      // Finalize reads what it needs through ports: a missing related kind must not block it.
      const isBeingDeleted = parent.metadata.deletionTimestamp !== undefined
      if (!isBeingDeleted) checkParent(parent)
      const isSkipped = isBeingDeleted || !isWatched(parent.metadata)
      const relatedResources = isSkipped ? [] : kindHooks.customize(parent)
      decisionLog.recordSuccess(hookCaller(parent, 'customize'))
      return { relatedResources }
    },
  )

  const validateAnswer = answerValidator(kindHooks)
  for (const hook of ['sync', 'finalize'] as const) {
    const decide = kindHooks[hook]
    if (decide === undefined) continue
    server.post(
      `/${kindHooks.plural}/${hook}`,
      route(hook, hook === 'sync' ? kindHooks.request : SyncRequest(kindHooks.deletedParent)),
      async (request) => {
        const received = {
          ...(request.body as unknown as HookRequest<AnyParent>),
          bytes: bodySize(request) ?? 0,
        }
        if (!isWatched(received.parent.metadata)) return skipUnwatched(received, hook)
        await letOthersContinue(received)
        const settings = { ...options.settings, jobKeys: options.jobKeys?.() ?? options.tokens() }
        const context = { now: options.now(), settings }
        const observed =
          hook === 'finalize'
            ? withLiveStatus(received, kindHooks, options)
            : Promise.resolve(received)
        const { body, desired } = await withDeadline(
          observed.then(async (body) => ({ body, desired: await decide(body, context) })),
          received.parent,
          options.answerDeadlineMs,
        )
        await letOthersContinue(received)
        const decision = addKstatus(body.parent, desired, context.now)
        const answer = validateAnswer(body, decision, hook)
        options.metrics.recordDecision?.(body, answer)
        decisionLog.recordDecision(body, decision, hookCaller(body.parent, hook))
        logPrunedChildren(request.log, body.parent, hook, desired.pruned ?? [])
        desired.answered?.()
        return answer
      },
    )
  }
}

/** Each step of a hook with thousands of children takes a tenth of a second or more. */
async function letOthersContinue({ bytes = 0 }: { bytes?: number }): Promise<void> {
  if (bytes > SMALL_BODY_BYTES) await setImmediate()
}

/**
 * Metacontroller's copy of a resource may be one write old, and each write of the status of a resource
 * that is being deleted calls the hook again (docs/metacontroller-notes.md). Two answers that were each
 * carried over from the other's predecessor would replace each other without end.
 */
async function withLiveStatus(
  body: HookRequest<AnyParent>,
  kindHooks: KindHooks,
  { liveStatus }: ServerOptions,
): Promise<HookRequest<AnyParent>> {
  const live = await liveStatus?.(kindHooks, body.parent)
  if (live === undefined) return body
  const { status: _, ...parent } = body.parent
  return {
    ...body,
    parent: { ...parent, ...(live.status !== undefined && { status: live.status }) },
  }
}

/** Adds the conditions that every kind's status has, whatever its decision. */
function addKstatus<T>(parent: AnyParent, desired: Desired<T>, now: Date): Desired<object> {
  const { status } = desired
  if (typeof status !== 'object' || status === null) return desired as Desired<object>
  return { ...desired, status: withKstatus(parent, status, now) }
}

function CustomizeRequest(kindHooks: KindHooks) {
  return Type.Object({ parent: kindHooks.deletedParent })
}

/** Rejects an invalid parent in the same way as the schema of a route. */
function parentValidator(kindHooks: KindHooks): (parent: unknown) => void {
  const check = TypeCompiler.Compile(kindHooks.parent)
  return (parent) => {
    if (check.Check(parent)) return
    const firstError = check.Errors(parent).First()
    throw new InvalidParent([
      { instancePath: `/parent${firstError?.path ?? ''}`, message: firstError?.message },
    ])
  }
}

/** Handled like Fastify's own validation error. */
class InvalidParent extends Error {
  readonly statusCode = 400
  readonly validationContext = 'body'
  readonly validation: { instancePath: string; message: string | undefined }[]

  constructor(validation: InvalidParent['validation']) {
    super('the resource is not valid')
    this.validation = validation
  }
}

/** A resource of an unwatched namespace: nothing is changed. */
function skipUnwatched({ parent, children }: HookRequest<AnyParent>, hook: Hook) {
  const isUntouched =
    parent.status?.phase === undefined &&
    Object.values(children).every((objects) => Object.keys(objects).length === 0)
  if (hook === 'finalize' && isUntouched)
    return { status: parent.status ?? {}, children: [], finalized: true }
  throw new RetryLater(
    `namespace ${parent.metadata.namespace} is not watched by this operator`,
    UNWATCHED_RETRY_SECONDS,
  )
}

function logPrunedChildren(
  log: FastifyBaseLogger,
  parent: AnyParent,
  hook: Hook,
  pruned: { kind: string; name: string; reason: string }[],
): void {
  const { namespace, name } = parent.metadata
  for (const child of pruned) {
    log.info({ parent: `${parent.kind} ${namespace}/${name}`, hook, ...child }, 'deleting child')
  }
}

async function withDeadline<T>(
  decision: Promise<T>,
  { kind, metadata }: AnyParent,
  limitMs = ANSWER_DEADLINE_MS,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(
        new DeadlineExceeded(
          `${kind} ${metadata.namespace}/${metadata.name} took more than ${limitMs} ms`,
        ),
      )
    }, limitMs)
  })
  try {
    return await Promise.race([decision, limit])
  } finally {
    clearTimeout(timer)
  }
}

/** The decision exceeded its deadline; Metacontroller retries. */
class DeadlineExceeded extends Error {
  readonly statusCode = 503
}

function requireCurrentCrd(plural: string, { outdatedCrd }: ServerOptions): void {
  const reason = outdatedCrd?.(plural)
  if (reason !== undefined) throw new OutdatedCrd(reason)
}

class OutdatedCrd extends Error {
  readonly statusCode = 503
  readonly retryAfterSeconds = OUTDATED_CRD_RETRY_SECONDS
}
