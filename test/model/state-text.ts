/**
 * A small world as text. The text omits what no decision depends on: absolute times, the values of counters,
 * and fields that no hook reads. Worlds of the same text are the same state.
 */
import type { Job } from '../../crds/kubernetes.ts'
import { isDeepStrictEqual } from 'node:util'
import { VecBackup } from '../../crds/backup.ts'
import {
  FINAL_REPORT_TIMEOUT_SECONDS,
  FIRST_REPORT_TIMEOUT_SECONDS,
  JOB_CACHE_TIMEOUT_SECONDS,
  JOB_START_SECONDS,
  LEASE_DURATION_SECONDS,
  LEASE_MARGIN_SECONDS,
  LEASE_RECHECK_SECONDS,
  LEASE_WAITER_TIMEOUT_SECONDS,
  PURGE_TIMEOUT_SECONDS,
  REFUSED_RETRY_SECONDS,
  RETRY_SECONDS,
  SHARDS_REPEAT_SECONDS,
  SHARDS_RETRY_SECONDS,
  STALE_REPORT_SECONDS,
} from '../../crds/contract/limits.ts'
import { ANNOTATIONS, LABELS } from '../../crds/contract/names.ts'
import { isFailureReason } from '../../hooks/cluster/helm-result.ts'
import { isUnfinished } from '../../hooks/request.ts'
import { jobImage } from '../../hooks/job-watch.ts'
import { RENEW_SECONDS } from '../../hooks/lease-queue.ts'
import { settings } from '../builders.ts'
import { LAST_APPLIED } from '../world/loop/apply.ts'
import type { Calls } from './calls.ts'
import type { Small, SmallWorld, SlowCall } from './small-world.ts'

export function textOf(world: SmallWorld): string {
  const { live, seen, now } = world
  const unseen = Object.keys(seen).filter((key) => isUnseen(live[key], seen[key]))
  const order = orderOf([...sorted(live), ...sorted(seen)], now)
  return `${written(world, ({ id }) => String(id), order)} ${unseen.sort().join()}${textOfAnswer(world)}`
}

/** The complete answer: a world has at most one, and only for a few steps. */
function textOfAnswer({ answered }: SmallWorld): string {
  if (answered === undefined) return ''
  const { parent, observed, answer } = answered
  const asked = observed
    .groups()
    .flatMap(({ objects }) => [...objects.values()])
    .map(({ metadata }) => [metadata.uid, metadata.resourceVersion])
  return JSON.stringify([parent.metadata.uid, asked, answer])
}

/**
 * What two worlds of the same text must have in common after the same step. It omits hashes, because they depend
 * on uids and occur in the names of Jobs. It omits what a stopped service has read, of which the text before the
 * step has only the part that matters. It omits the order of later ages, because the text before the step knows
 * neither the objects that the step writes nor whether they are younger than the ones that they replace.
 */
export function outcomeOf(world: SmallWorld): string {
  return written(
    world,
    ({ text }) => text.replace(HASHED, '$1*'),
    () => '',
    ({ slow }) =>
      slow === undefined ? '' : JSON.stringify([slow.calls.known.next, slow.isGivenUp, slow.steps]),
  )
}

/** A hash in a plan, in a signature, or in the name of a Job or a ServiceAccount. */
const HASHED =
  /("(?:plan|vec-operator\.dev\/(?:plan|signature))":"|-)(?:[0-9a-f]{64}|[0-9a-f]{12})\b/g

function written(
  world: SmallWorld,
  wordsOf: (one: Summary) => string,
  order: (time: Time) => string,
  slowOf = textOfSlow,
): string {
  const { now, live, seen, namespaceEnds, engine, bucket, left } = world
  const objects = [...sorted(live), undefined, ...sorted(seen)].map((one) => one && summaryOf(one))
  const nameOf = named()
  const runs = ranked(objects.flatMap((one) => one?.runs ?? []))
  const texts = objects.map((one) => {
    if (one === undefined) return '|'
    const ages = one.times.map((time) => `${ageOf(now - time.at, time.limits)}${order(time)}`)
    const ranks = one.runs.map((run) => runs.get(run))
    return `${wordsOf(one)}:${one.uids.map(nameOf).join()}:${ages.join()}:${ranks.join()}`
  })
  const rest = JSON.stringify([namespaceEnds, left, bucket])
  return `${texts.join(' ')} ${rest}${textOfEngine(engine)}${slowOf(world, nameOf)}`
}

/** The complete call and the results of its own calls, without absolute times. */
function textOfSlow({ slow, live, now }: SmallWorld, nameOf: (uid: string) => string): string {
  if (slow === undefined) return ''
  const { calls, isGivenUp, steps } = slow
  const { id, uids, versions } = slowSummary(slow)
  // Which of the objects that it read have not changed since: a write of another one is a conflict.
  const current = versions.map(([key, version]) => live[key]?.metadata.resourceVersion === version)
  const age = now - slow.now
  return JSON.stringify([calls.known.next, id, uids.map(nameOf), current, age, isGivenUp, steps])
}

interface SlowSummary {
  id: number
  uids: string[]
  versions: [string, unknown][]
}

const knownSlow = new WeakMap<Calls, SlowSummary>()

function slowSummary({ body, calls, now }: SlowCall): SlowSummary {
  const found = knownSlow.get(calls)
  if (found !== undefined) return found
  const uids: string[] = []
  const versions: [string, unknown][] = []
  const { parent, children, related } = body
  const text = JSON.stringify([parent, children, related, calls.known.results], (_, value) => {
    const { kind, metadata } = (value ?? {}) as Partial<Small>
    if (kind === undefined || metadata?.resourceVersion === undefined) return value as unknown
    versions.push([`${kind}/${metadata.name}`, metadata.resourceVersion])
    return { ...(value as Small), metadata: { ...metadata, resourceVersion: undefined } }
  })
    .replace(/uid-\d+/g, (uid) => {
      uids.push(uid)
      return '#'
    })
    .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, (time) => String(Date.parse(time) - now))
  const id = ids.get(text) ?? ids.size
  ids.set(text, id)
  const result = { id, uids, versions }
  knownSlow.set(calls, result)
  return result
}

/** Whether the cache has another version than the API server. Versions that `isAlike` are the same. */
function isUnseen(live: Small | undefined, seen: Small | undefined): boolean {
  return live !== undefined && seen !== undefined && !isAlike(live, seen)
}

type Time = Summary['times'][number]

/** The order in which times reach their next limits: worlds of the same ages may differ in which is the next. */
function orderOf(objects: (Small | undefined)[], now: number): (time: Time) => string {
  const times = objects.flatMap((one) => (one === undefined ? [] : summaryOf(one).times))
  const instants = times.flatMap((time) => aheadOf(time, now))
  const sortedInstants = [...new Set(instants)].sort((one, other) => one - other)
  const positions = new Map(sortedInstants.map((instant, position) => [instant, position]))
  return (time) =>
    aheadOf(time, now)
      .map((instant) => `/${positions.get(instant)}`)
      .join('')
}

/** The instants at which a time reaches its next limits. */
function aheadOf({ at, limits }: Time, now: number): number[] {
  return limits.map((limit) => at + limit * 1000).filter((instant) => now < instant)
}

function sorted(objects: Record<string, Small>): (Small | undefined)[] {
  return Object.keys(objects)
    .sort()
    .map((key) => objects[key])
}

/** Numbers uids in order of appearance: only whether two uids are equal matters. */
function named(): (uid: string) => string {
  const names = new Map<string, string>()
  return (uid) => {
    const name = names.get(uid) ?? String(names.size)
    names.set(uid, name)
    return name
  }
}

/** Ranks of run numbers. The next run follows the highest known one, so absolute numbers do not matter. */
function ranked(runs: number[]): Map<number, number> {
  const ranks = new Map<number, number>()
  let rank = 0
  let last: number | undefined
  for (const run of runs.sort((one, other) => one - other)) {
    rank += Math.min(run - (last ?? run), MOST_BETWEEN)
    ranks.set(run, rank)
    last = run
  }
  return ranks
}

function textOfEngine({ collections, aliasTargets, ...rest }: SmallWorld['engine']): string {
  const stored = [...collections].map(([name, { info }]) => [name, info])
  return JSON.stringify([stored.sort(), [...aliasTargets].sort(), rest])
}

/** Larger gaps between run numbers make no difference: a new number is always next to a known one. */
const MOST_BETWEEN = 3

/** The parts of an object that matter to decisions; its uids, times and runs are separate from its text. */
interface Summary {
  /** Number of its text: there are many states and few different texts. */
  id: number
  text: string
  uids: string[]
  times: { at: number; limits: number[] }[]
  runs: number[]
}

/** Objects are immutable, so each is summarized once. */
const known = new WeakMap<Small, Summary>()
const ids = new Map<string, number>()

export function summaryOf(object: Small): Summary {
  const found = known.get(object)
  if (found !== undefined) return found
  const uids: string[] = []
  const times: Summary['times'] = []
  const runs: number[] = []
  const holder = JSON.stringify(object.spec ?? {})
  // A cluster holds the Lease `write` only for its shards, and looks for other work again like a restore.
  const isOfShards = object.metadata.name.endsWith('-write') && holder.includes('VecCluster/')
  const isRestores = holder.includes('VecRestore/') || isOfShards
  const text = JSON.stringify(whatMatters(object), (key, value: unknown) => {
    if (typeof value !== 'string' || !TIME.test(value)) return value
    const limits = LIMITS[key === 'acquireTime' && isRestores ? 'acquiredByRestore' : key]
    if (limits !== undefined) times.push({ at: Date.parse(value), limits })
    return '@'
  })
    .replace(SLOT, (_, year, month, day, hour, minute, second) => {
      times.push({
        at: Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`),
        limits: SLOTS,
      })
      return '@'
    })
    .replace(/uid-\d+/g, (uid) => {
      uids.push(uid)
      return '#'
    })
    .replace(RUN, (_, before: string, run: string) => {
      runs.push(Number(run))
      return `${before}~`
    })
  const id = ids.get(text) ?? ids.size
  ids.set(text, id)
  const result = { id, text, uids, times, runs }
  known.set(object, result)
  return result
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/
/** A run number in the name of a Job, a report, a status, a Lease or a message. */
const RUN =
  /((?:run|upgrade|uninstall|shards)-[0-9a-f]{12}-|"(?:run|appliedRun)":|dev\/run":"|\brun )(\d+)/g
/** The slot of a schedule of ten minutes; its age in slots matters. */
const SLOT = /(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)/g
const SLOTS = [600, 1200, 1800]
const ages = (...seconds: number[]) => seconds.toSorted((one, other) => one - other)
/** Seconds for which the settings keep finished Jobs. */
const { historySeconds } = settings
/** Of a Lease: not enough time is left for a Job; expired. */
const LEASE = [LEASE_DURATION_SECONDS - LEASE_MARGIN_SECONDS, LEASE_DURATION_SECONDS]
/** Ages in seconds at which decisions change, by the field with the time. */
const LIMITS: Record<string, number[]> = {
  /** A Job that has no pod, that the cache does not have yet, or that has not reported. */
  creationTimestamp: ages(
    JOB_START_SECONDS,
    JOB_CACHE_TIMEOUT_SECONDS,
    FIRST_REPORT_TIMEOUT_SECONDS,
  ),
  /** The last report of a Job, which counts as silent after this age. */
  reportedAt: [STALE_REPORT_SECONDS],
  /** The end of a Job: its report may be late; its log is kept for a day. */
  lastTransitionTime: ages(FINAL_REPORT_TIMEOUT_SECONDS, historySeconds),
  acquireTime: ages(...LEASE),
  /** A restore checks for running Jobs again. */
  acquiredByRestore: ages(LEASE_RECHECK_SECONDS, ...LEASE),
  /** An entry in the queue of a Lease: it is renewed; it is ignored. */
  waiterSeen: ages(RENEW_SECONDS, LEASE_WAITER_TIMEOUT_SECONDS),
  /** A helm run: it is retried. */
  failedAt: [RETRY_SECONDS],
  refusedAt: [REFUSED_RETRY_SECONDS],
  /** Work on shards: the same plan is tried again. */
  shardsDoneAt: [SHARDS_REPEAT_SECONDS],
  shardsFailedAt: [SHARDS_RETRY_SECONDS],
  shardsRefusedAt: [REFUSED_RETRY_SECONDS],
  shardsEndedAt: ages(
    ...[FINAL_REPORT_TIMEOUT_SECONDS, SHARDS_REPEAT_SECONDS, SHARDS_RETRY_SECONDS],
    historySeconds,
  ),
  /** A backup in a terminating namespace: its purge is abandoned. */
  deletionTimestamp: [PURGE_TIMEOUT_SECONDS],
  expiresAt: [0],
  /** A Secret in the memory of a service (`access-key.ts`): it is read again. */
  cachedAt: [60],
  'vec-operator.dev/renew-at': [0],
  'vec-operator.dev/expires-at': [0],
  lastScheduleTime: SLOTS,
  requestTime: SLOTS,
  nextBackupTime: [0, 600],
}

function ageOf(ms: number, limits: number[]): string {
  const seconds = ms / 1000
  return seconds < 0 ? 'future' : String(limits.findIndex((one) => seconds < one))
}

/** Whether every decision is the same for both objects. */
export function isAlike(one: Small, other: Small): boolean {
  if (one === other) return true
  const [before, after] = [summaryOf(one), summaryOf(other)]
  return (
    before.id === after.id &&
    isDeepStrictEqual(
      [before.uids, before.times, before.runs],
      [after.uids, after.times, after.runs],
    )
  )
}

/** The next instant at which a time reaches a limit; undefined if none does. */
export function nextInstant({ now, live, seen }: SmallWorld): number | undefined {
  let next = Infinity
  for (const object of [...Object.values(live), ...Object.values(seen)]) {
    for (const time of summaryOf(object).times) next = Math.min(next, ...aheadOf(time, now))
  }
  return next === Infinity ? undefined : next
}

function whatMatters(object: Small): object {
  const { kind, metadata, data } = object
  const { creationTimestamp, deletionTimestamp, annotations = {}, ...others } = metadata
  const job = kind === 'Job' ? (object as unknown as Job) : undefined
  return {
    ...object,
    metadata: {
      ...others,
      resourceVersion: '',
      isGoing: deletionTimestamp !== undefined,
      ...(kind === VecBackup.kind && { deletionTimestamp }),
      // The age of a Job matters only until it has ended.
      ...(job && isUnfinished(job) && { creationTimestamp }),
    },
    annotations: reportIn(annotations, kind),
    ...(job && { spec: jobImage(job) }),
    ...(data && { data: withoutToken(data) }),
    status: job ? jobStatus(job) : whatMattersOf(object),
  }
}

/** After the end of a Job on shards, the same plan rests. */
function jobStatus(job: Job): unknown {
  if (job.metadata.labels?.[LABELS.verb] !== 'shards') return job.status
  const { conditions = [], ...status } = job.status ?? {}
  return {
    ...status,
    conditions: conditions.map(({ lastTransitionTime, ...rest }) => ({
      ...rest,
      shardsEndedAt: lastTransitionTime,
    })),
  }
}

interface Waiter {
  holder: string
  seen: string
}

/** The times of a report matter only where a decision compares them with a limit. */
function reportIn(annotations: Record<string, string>, kind: string): object {
  const {
    [ANNOTATIONS.progress]: progress,
    [ANNOTATIONS.waiters]: queue,
    [LAST_APPLIED]: lastApplied,
    ...rest
  } = annotations
  const waiters = queue === undefined ? [] : (JSON.parse(queue) as Waiter[])
  const others = {
    ...rest,
    ...(waiters.length > 0 && {
      waiters: waiters.map(({ holder, seen }) => ({ holder, waiterSeen: seen })),
    }),
    ...(lastApplied !== undefined &&
      UPDATED.includes(kind) && { lastApplied: appliedIn(lastApplied) }),
  }
  if (progress === undefined) return { ...others, run: 0 }
  const { at, applied, shards, ...all } = JSON.parse(progress) as Record<string, unknown>
  const report = { ...all, startedAt: undefined, hasShards: shards !== undefined }
  const { state, verb } = all
  const isHelm = kind === 'VecCluster' && verb !== 'shards'
  const isShards = kind === 'VecCluster' && verb === 'shards'
  return {
    ...others,
    progress: {
      ...report,
      ...(isHelm && state === 'Failed' && { failedAt: at }),
      ...(isHelm && state === 'Refused' && { refusedAt: at }),
      ...(isShards && typeof state === 'string' && { [`shards${state}At`]: at }),
      reportedAt: at,
      ...(applied !== undefined && { applied: { ...(applied as object), at: undefined } }),
    },
  }
}

/** Kinds of children that Metacontroller updates, which is when it reads what it wrote last. */
const UPDATED = ['Secret', VecBackup.kind]

function appliedIn(text: string): object {
  const { data, ...rest } = JSON.parse(text) as Small
  return { ...rest, ...(data && { data: withoutToken(data) }) }
}

/** The annotations of the Secret describe the token, so its bytes do not matter. */
function withoutToken(data: Record<string, string>): object {
  const isSigned = Buffer.from(data['token'] ?? '', 'base64')
    .toString()
    .startsWith('eyJ')
  return isSigned ? { ...data, token: 'signed' } : data
}

/** The part of a status that later decisions read: most of it only informs users. */
function whatMattersOf({ kind, status }: Small): unknown {
  const { phase, conditions = [], ...rest } = (status ?? {}) as Status
  const generations = conditions.map(({ observedGeneration }) => observedGeneration)
  switch (kind) {
    case 'VecCluster': {
      const { appliedRun, helmRelease, balancedNodes, replacedPeers, hibernationBackup } = rest
      const read = conditions.filter(({ type }) => type === 'Applied' || type === 'Consensus')
      const { reason: placed, message } =
        conditions.find(({ type }) => type === 'ShardsPlaced') ?? {}
      const conditionsRead = read.map(withoutTime)
      const record = {
        ...{ appliedRun, helmRelease, balancedNodes, replacedPeers },
        ...{ hibernationBackup, appliedGeneration: rest['appliedGeneration'] },
      }
      const isCreating = isCreation(message)
      return { phase, ...record, placed, isCreating, generations, conditionsRead }
    }
    case 'VecCollection':
      return { ...rest, phase, conditions: conditions.map(withoutTime) }
    case 'StatefulSet':
      return status
    default: {
      const { startTime, expiresAt, lastScheduleTime, nextBackupTime } = rest
      const times = { expiresAt, lastScheduleTime, nextBackupTime }
      return { phase, isStarted: startTime !== undefined, ...times, generations }
    }
  }
}

/** The reason and message of a condition matter only for failures and for a Job that is created; others only inform users. */
function withoutTime(condition: SmallCondition): object {
  const isRead = isFailureReason(condition.reason ?? '') || isCreation(condition.message)
  const hidden = isRead ? {} : { reason: undefined, message: undefined }
  return { ...condition, ...hidden, lastTransitionTime: undefined }
}

/** The next answer uses it to find out whether the API server has refused a Job. */
function isCreation(message = ''): boolean {
  return message.startsWith('creating Job ')
}

interface Status {
  phase?: string
  conditions?: SmallCondition[]
  [field: string]: unknown
}

interface SmallCondition {
  type?: string
  reason?: string
  message?: string
  lastTransitionTime?: string
  observedGeneration?: number
}
