/**
 * Logs the service's decisions: why a resource waits, is retried, is rejected or has failed. The
 * log is derived in one place, from the difference between the status in the request and the status
 * in the answer, so it covers every kind. A line is written when something begins or changes, not
 * on every sync.
 */
import type { FastifyBaseLogger } from 'fastify'
import { KubernetesError } from '../crds/contract/errors.ts'
import type { Condition, ConditionReason } from '../crds/schema.ts'
import { isExpected } from './background-task.ts'
import { isKstatusType } from './conditions.ts'
import {
  RetryLater,
  type Child,
  type Desired,
  type HookRequest,
  type AnyParent,
} from './protocol.ts'

/** The subject of a call: a resource, or only the route if the body could not be read. */
export interface Caller {
  kind: string
  hook: string
  namespace?: string
  name?: string
  uid?: string
}

export function hookCaller({ kind, metadata }: AnyParent, hook: string): Caller {
  const { namespace, name, uid } = metadata
  return { kind, hook, namespace, name, uid }
}

interface LogEntry {
  /** What the line is about; the same text about the same topic is not repeated. */
  topic: string
  level: 'info' | 'warn' | 'error'
  fields: object
  message: string
}

interface Status {
  phase?: string
  error?: string
  conditions?: Condition[]
}

/**
 * Number of resources whose lines are remembered: those with an unconfirmed status and those that
 * fail.
 */
const MAX_REMEMBERED = 10_000
/** The status and the Job's log have the full text. */
const MAX_ERROR = 4096
/** Messages of these reasons count progress: only the first one is logged. */
const PROGRESS = /Running$|^Purging$/
/** Reasons of work in progress: nothing blocks it. */
const IN_PROGRESS =
  /(Running|Starting)$|^(HelmReleaseApplied|Purging|Reconciling|Uninstalling|Draining|Repairing|ReplacingNode|Balancing)$/
/** Removal of nodes has one reason, whether it waits or not. */
const WAITING = / waits\b/
/** Children whose creation starts work. */
const WORK_KINDS = new Set(['Job', 'VecBackup'])

export class DecisionLog {
  readonly #log: FastifyBaseLogger
  /** By uid or route, then by topic: the text that was logged last. */
  readonly #lastLogged = new Map<string, ReadonlyMap<string, string>>()

  constructor(log: FastifyBaseLogger) {
    this.#log = log
  }

  /** Logs a decision that is sent: what changed since the status in the request. */
  recordDecision(request: HookRequest<AnyParent>, desired: Desired<unknown>, caller: Caller): void {
    this.recordSuccess(caller)
    const key = callerKey(caller)
    const previous = this.#lastLogged.get(key)
    const next = new Map<string, string>()
    for (const entry of logEntries(request, desired)) {
      const text = deduplicationKey(entry)
      next.set(entry.topic, text)
      if (previous?.get(entry.topic) === text) continue
      this.#log[entry.level]({ ...callerFields(caller), ...entry.fields }, entry.message)
    }
    if (desired.finalized === true) this.#log.info(callerFields(caller), 'finalized')
    this.#store(key, desired.finalized === true ? new Map() : next)
  }

  /** Logs that a hook succeeded after a logged failure, which ends the retries. */
  recordSuccess(caller: Caller): void {
    this.#lastLogged.delete(routeKey(caller))
    const key = callerKey(caller)
    const previous = this.#lastLogged.get(key)
    const topic = errorTopic(caller)
    if (previous?.has(topic) !== true) return
    this.#log.info(callerFields(caller), 'retry succeeded')
    this.#store(key, new Map([...previous].filter(([subject]) => subject !== topic)))
  }

  /** Logs that a hook failed: the reason, and for a defect its stack. */
  recordFailure(caller: Caller, error: Error & { statusCode?: number }, reason: string): void {
    const key = callerKey(caller)
    const previous = this.#lastLogged.get(key) ?? new Map<string, string>()
    // A different number, such as a port, is not a different failure.
    const text = `${error.name}: ${reason}`.replaceAll(/\d+/g, '#')
    if (previous.get(errorTopic(caller)) === text) return
    this.#store(key, new Map([...previous, [errorTopic(caller), text]]))
    const fields = callerFields(caller)
    if (isDefect(error)) this.#log.error({ ...fields, err: error }, 'hook failed')
    else if (error instanceof RetryLater)
      this.#log.info({ ...fields, reason, afterSeconds: error.seconds }, 'retrying')
    else this.#log.warn({ ...fields, reason }, isRetried(error) ? 'retrying' : 'refused')
  }

  #store(key: string, entries: ReadonlyMap<string, string>): void {
    this.#lastLogged.delete(key)
    if (entries.size === 0) return
    this.#lastLogged.set(key, entries)
    const [oldest] = this.#lastLogged.keys()
    if (this.#lastLogged.size > MAX_REMEMBERED && oldest !== undefined)
      this.#lastLogged.delete(oldest)
  }
}

/**
 * Whether the error is neither an expected response of the API nor one with an HTTP status of its
 * own.
 */
export function isDefect(error: Error & { statusCode?: number }): boolean {
  if (error instanceof RetryLater || error instanceof KubernetesError) return false
  return (error.statusCode ?? 500) === 500
}

function isRetried({ statusCode = 503 }: { statusCode?: number }): boolean {
  return statusCode >= 500
}

function callerKey(caller: Caller): string {
  return caller.uid ?? routeKey(caller)
}

function routeKey({ kind, hook }: Caller): string {
  return `${kind}/${hook}`
}

function errorTopic({ hook }: Caller): string {
  return `error of ${hook}`
}

function callerFields({ kind, hook, namespace, name }: Caller): object {
  return { kind, hook, namespace, name }
}

function logEntries(
  { parent, children }: HookRequest<AnyParent>,
  desired: Desired<unknown>,
): LogEntry[] {
  const status = (desired.status ?? {}) as Status
  const conditions = conditionEntries(parent, status, warnings(desired))
  return [
    ...conditions,
    ...phaseEntries(parent, status, conditions),
    ...eventEntries(desired, conditions),
    ...newChildren(desired.children, children).map(childCreation),
    ...(desired.deleteJobs ?? []).map(jobDeletion),
    ...failureEntries(desired),
  ]
}

function deduplicationKey({ message, fields }: LogEntry): string {
  // An Error has no JSON form; a different number, such as a port, is not a different failure.
  const replacer = (_: string, value: unknown) =>
    value instanceof Error ? String(value).replaceAll(/\d+/g, '#') : value
  return JSON.stringify([message, fields], replacer)
}

/** Unexpected errors of background tasks; the conditions have the rest. */
function failureEntries({ failures = [] }: Desired<unknown>): LogEntry[] {
  return failures
    .filter(({ error }) => !isExpected(error))
    .map(({ error: err }, at) => ({
      ...{ topic: `pass ${at}`, level: 'error', message: 'pass failed' },
      fields: { err },
    }))
}

/** Reasons for which the decision itself has a Warning. */
function warnings({ events = [] }: Desired<unknown>): ReadonlySet<string> {
  return new Set(events.filter(({ type }) => type === 'Warning').map(({ reason }) => reason))
}

function conditionEntries(
  parent: AnyParent,
  status: Status,
  warningReasons: ReadonlySet<string>,
): LogEntry[] {
  const { conditions = [], phase } = status
  const previous = parent.status?.phase
  return conditions
    .filter(({ type }) => !isKstatusType(type))
    .filter((condition) => hasChanged(parent, condition))
    .map(({ type, status: value, reason, message }) => {
      const hasWarning = warningReasons.has(reason)
      const logMessage = messageFor(status, { reason, message }, hasWarning)
      return {
        topic: type,
        level:
          hasWarning || WARNING_MESSAGES.has(logMessage) ? ('warn' as const) : ('info' as const),
        message: logMessage,
        fields: {
          ...{ condition: type, status: value, reason, message, phase },
          ...(previous !== phase && previous !== undefined && { phaseBefore: previous }),
          ...errorField(parent, status, message),
        },
      }
    })
}

function hasChanged(parent: AnyParent, { type, status, reason, message }: Condition): boolean {
  const previous = parent.status?.conditions?.find((condition) => condition.type === type)
  if (previous?.status !== status || previous.reason !== reason) return true
  return previous.message !== message && !PROGRESS.test(reason)
}

const WARNING_MESSAGES = new Set(['failed', 'refused'])

/**
 * The log message for this reason, by the conditions for tools (`withKstatus` in conditions.ts).
 */
function messageFor(
  { conditions = [], phase }: Status,
  { reason, message }: ConditionReason,
  hasWarning: boolean,
): string {
  const types = new Set(
    conditions.filter((condition) => condition.reason === reason).map(({ type }) => type),
  )
  if (types.has('Stalled')) return phase === 'Failed' ? 'failed' : 'refused'
  if (!types.has('Reconciling')) return 'condition changed'
  if (hasWarning) return 'retrying'
  return IN_PROGRESS.test(reason) && !WAITING.test(message) ? 'in progress' : 'waiting'
}

function errorField({ status: previous }: AnyParent, { error }: Status, message: string) {
  const previousStatus: Status | undefined = previous
  const isReported =
    error === undefined || error.startsWith(message) || error === previousStatus?.error
  return isReported ? {} : { error: error.slice(0, MAX_ERROR) }
}

/** A phase change without a change of a condition. */
function phaseEntries(
  { status: previous }: AnyParent,
  status: Status,
  conditions: LogEntry[],
): LogEntry[] {
  const { phase } = status
  if (conditions.length > 0 || phase === undefined || phase === previous?.phase) return []
  const fields = { phase, ...(previous?.phase !== undefined && { phaseBefore: previous.phase }) }
  return [{ topic: 'phase', level: 'info', message: 'phase changed', fields }]
}

/** Warnings that no condition of this decision reports. */
function eventEntries({ events = [] }: Desired<unknown>, conditions: LogEntry[]): LogEntry[] {
  const reported = new Set(conditions.map(({ fields }) => (fields as { reason?: string }).reason))
  return events
    .filter(({ type, reason }) => type === 'Warning' && !reported.has(reason))
    .map(({ reason, message, metadata }) => ({
      topic: `event ${metadata.name}`,
      level: 'warn',
      message: 'warning',
      fields: { reason, message },
    }))
}

function newChildren(desired: Child[], observed: HookRequest<unknown>['children']): Child[] {
  const existing = new Set(
    Object.values(observed).flatMap((objects) => Object.values(objects).map(formatChild)),
  )
  return desired.filter((child) => WORK_KINDS.has(child.kind) && !existing.has(formatChild(child)))
}

function childCreation(created: Child): LogEntry {
  const child = formatChild(created)
  return { topic: child, level: 'info', message: 'creating child', fields: { child } }
}

function formatChild({ kind, metadata }: Pick<Child, 'kind' | 'metadata'>): string {
  return `${kind} ${metadata.name}`
}

function jobDeletion({ name }: { name: string }): LogEntry {
  const child = `Job ${name}`
  return { topic: `stop ${name}`, level: 'warn', message: 'stopping Job', fields: { child } }
}
