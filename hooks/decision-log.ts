/**
 * The service's log of its decisions: why a resource waits, is retried, is refused or has failed. It is
 * derived in one place, from the difference between the status that a hook was shown and the one it
 * answers, so no kind can forget it. A line is written when something begins or changes, never per pass.
 */
import type { FastifyBaseLogger } from 'fastify'
import { KubernetesError } from '../crds/errors.ts'
import type { Condition } from '../crds/schema.ts'
import { isExpected } from './failure.ts'
import { KSTATUS_TYPES } from './kstatus.ts'
import { TryLater, type Child, type Desired, type HookRequest } from './protocol.ts'
import type { AnyParent } from './room.ts'

/** Whose call it was: a resource, or only the route when the body could not be read. */
export interface Caller {
  kind: string
  hook: string
  namespace?: string
  name?: string
  uid?: string
}

export function callerOf({ kind, metadata }: AnyParent, hook: string): Caller {
  const { namespace, name, uid } = metadata
  return { kind, hook, namespace, name, uid }
}

interface Line {
  /** What the line is about; a line about the same thing with the same text is not repeated. */
  about: string
  level: 'info' | 'warn' | 'error'
  fields: object
  message: string
}

interface Status {
  phase?: string
  error?: string
  conditions?: Condition[]
}

/** Resources whose lines are remembered: those whose status is in transit and those that fail. */
const MAX_REMEMBERED = 10_000
/** The status and the Job's log have the whole text. */
const MAX_ERROR = 4096
/** Messages under these reasons count what is done: only their begin is logged. */
const PROGRESS = /Running$|^Purging$/
/** Reasons of work that goes on: nothing is waited for. */
const WORKING = /(Running|Starting)$|^(HelmReleaseApplied|Purging|Reconciling|Uninstalling)$/
/** Children whose creation starts work. */
const WORK = new Set(['Job', 'VecBackup'])

export class DecisionLog {
  readonly #log: FastifyBaseLogger
  /** By uid or route, then by subject: the text that was logged last. */
  readonly #logged = new Map<string, ReadonlyMap<string, string>>()

  constructor(log: FastifyBaseLogger) {
    this.#log = log
  }

  /** A decision that leaves: what changed since the status that the hook was shown. */
  decided(request: HookRequest<AnyParent>, desired: Desired<unknown>, caller: Caller): void {
    this.succeeded(caller)
    const key = keyOf(caller)
    const before = this.#logged.get(key)
    const next = new Map<string, string>()
    for (const line of linesOf(request, desired)) {
      const text = textOf(line)
      next.set(line.about, text)
      if (before?.get(line.about) === text) continue
      this.#log[line.level]({ ...identityOf(caller), ...line.fields }, line.message)
    }
    if (desired.finalized === true) this.#log.info(identityOf(caller), 'finalized')
    this.#remember(key, desired.finalized === true ? new Map() : next)
  }

  /** A hook answered: a retry that was logged has come to its end. */
  succeeded(caller: Caller): void {
    this.#logged.delete(routeOf(caller))
    const key = keyOf(caller)
    const before = this.#logged.get(key)
    const about = errorOf(caller)
    if (before?.has(about) !== true) return
    this.#log.info(identityOf(caller), 'retry succeeded')
    this.#remember(key, new Map([...before].filter(([subject]) => subject !== about)))
  }

  /** A hook did not answer: why, and for a defect its stack. */
  failed(caller: Caller, error: Error & { statusCode?: number }, reason: string): void {
    const key = keyOf(caller)
    const before = this.#logged.get(key) ?? new Map<string, string>()
    // A number, such as a port, makes no other failure.
    const text = `${error.name}: ${reason}`.replaceAll(/\d+/g, '#')
    if (before.get(errorOf(caller)) === text) return
    this.#remember(key, new Map([...before, [errorOf(caller), text]]))
    const fields = identityOf(caller)
    if (isDefect(error)) this.#log.error({ ...fields, err: error }, 'hook failed')
    else if (error instanceof TryLater)
      this.#log.info({ ...fields, reason, afterSeconds: error.seconds }, 'retrying')
    else this.#log.warn({ ...fields, reason }, isRetried(error) ? 'retrying' : 'refused')
  }

  #remember(key: string, lines: ReadonlyMap<string, string>): void {
    this.#logged.delete(key)
    if (lines.size === 0) return
    this.#logged.set(key, lines)
    const [oldest] = this.#logged.keys()
    if (this.#logged.size > MAX_REMEMBERED && oldest !== undefined) this.#logged.delete(oldest)
  }
}

/** Neither an expected answer of the API nor one that has a status of its own. */
export function isDefect(error: Error & { statusCode?: number }): boolean {
  if (error instanceof TryLater || error instanceof KubernetesError) return false
  return (error.statusCode ?? 500) === 500
}

function isRetried({ statusCode = 503 }: { statusCode?: number }): boolean {
  return statusCode >= 500
}

function keyOf(caller: Caller): string {
  return caller.uid ?? routeOf(caller)
}

function routeOf({ kind, hook }: Caller): string {
  return `${kind}/${hook}`
}

function errorOf({ hook }: Caller): string {
  return `error of ${hook}`
}

function identityOf({ kind, hook, namespace, name }: Caller): object {
  return { kind, hook, namespace, name }
}

function linesOf({ parent, children }: HookRequest<AnyParent>, desired: Desired<unknown>): Line[] {
  const status = (desired.status ?? {}) as Status
  const conditions = conditionLines(parent, status, warnings(desired))
  return [
    ...conditions,
    ...phaseLine(parent, status, conditions),
    ...eventLines(desired, conditions),
    ...desired.children.filter((child) => isNew(child, children)).map(creating),
    ...(desired.stop ?? []).map(stopping),
    ...failureLine(desired),
  ]
}

function textOf({ message, fields }: Line): string {
  // An Error has no JSON; and a number, such as a port, makes no other failure.
  const words = (_: string, value: unknown) =>
    value instanceof Error ? String(value).replaceAll(/\d+/g, '#') : value
  return JSON.stringify([message, fields], words)
}

/** What a pass in the background threw and nobody expects; the condition has the rest. */
function failureLine({ failure }: Desired<unknown>): Line[] {
  if (failure === undefined || isExpected(failure.error)) return []
  const { error: err } = failure
  return [{ about: 'pass', level: 'error', message: 'pass failed', fields: { err } }]
}

/** Reasons that the decision itself has a Warning for. */
function warnings({ events = [] }: Desired<unknown>): ReadonlySet<string> {
  return new Set(events.filter(({ type }) => type === 'Warning').map(({ reason }) => reason))
}

function conditionLines(parent: AnyParent, status: Status, warned: ReadonlySet<string>): Line[] {
  const { conditions = [], phase } = status
  const before = parent.status?.phase
  return conditions
    .filter(({ type }) => !isKstatus(type))
    .filter((condition) => isNews(parent, condition))
    .map(({ type, status: value, reason, message }) => {
      const isWarned = warned.has(reason)
      const said = wordOf(status, reason, isWarned)
      return {
        about: type,
        level: isWarned || TROUBLE.has(said) ? ('warn' as const) : ('info' as const),
        message: said,
        fields: {
          ...{ condition: type, status: value, reason, message, phase },
          ...(before !== phase && before !== undefined && { phaseBefore: before }),
          ...errorField(parent, status, message),
        },
      }
    })
}

function isKstatus(type: string): boolean {
  return KSTATUS_TYPES.some((known) => known === type)
}

function isNews(parent: AnyParent, { type, status, reason, message }: Condition): boolean {
  const before = parent.status?.conditions?.find((condition) => condition.type === type)
  if (before?.status !== status || before.reason !== reason) return true
  return before.message !== message && !PROGRESS.test(reason)
}

const TROUBLE = new Set(['failed', 'refused'])

/** What the conditions for tools make of this reason (kstatus.ts). */
function wordOf({ conditions = [], phase }: Status, reason: string, isWarned: boolean): string {
  const types = new Set(
    conditions.filter((condition) => condition.reason === reason).map(({ type }) => type),
  )
  if (types.has('Stalled')) return phase === 'Failed' ? 'failed' : 'refused'
  if (!types.has('Reconciling')) return 'condition changed'
  if (isWarned) return 'retrying'
  return WORKING.test(reason) ? 'in progress' : 'waiting'
}

function errorField({ status: before }: AnyParent, { error }: Status, message: string) {
  const known: Status | undefined = before
  const isSaid = error === undefined || error.startsWith(message) || error === known?.error
  return isSaid ? {} : { error: error.slice(0, MAX_ERROR) }
}

/** A phase that changed though no condition did. */
function phaseLine({ status: before }: AnyParent, status: Status, conditions: Line[]): Line[] {
  const { phase } = status
  if (conditions.length > 0 || phase === undefined || phase === before?.phase) return []
  const fields = { phase, ...(before?.phase !== undefined && { phaseBefore: before.phase }) }
  return [{ about: 'phase', level: 'info', message: 'phase changed', fields }]
}

/** Warnings that no condition of this decision says. */
function eventLines({ events = [] }: Desired<unknown>, conditions: Line[]): Line[] {
  const said = new Set(conditions.map(({ fields }) => (fields as { reason?: string }).reason))
  return events
    .filter(({ type, reason }) => type === 'Warning' && !said.has(reason))
    .map(({ reason, message, metadata }) => ({
      about: `event ${metadata.name}`,
      level: 'warn',
      message: 'warning',
      fields: { reason, message },
    }))
}

function isNew({ kind, metadata }: Child, observed: HookRequest<unknown>['children']): boolean {
  if (!WORK.has(kind)) return false
  return !Object.values(observed)
    .flatMap((objects) => Object.values(objects))
    .some((object) => object.kind === kind && object.metadata.name === metadata.name)
}

function creating({ kind, metadata: { name } }: Child): Line {
  const child = `${kind} ${name}`
  return { about: child, level: 'info', message: 'creating child', fields: { child } }
}

function stopping({ name }: { name: string }): Line {
  const child = `Job ${name}`
  return { about: `stop ${name}`, level: 'warn', message: 'stopping Job', fields: { child } }
}
