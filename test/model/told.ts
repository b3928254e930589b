/**
 * A small world as text, without what makes two of the same kind differ: when it was, what was counted,
 * and what no decision looks at. What differs in text only is one state.
 */
import type { Job } from '../../crds/kubernetes.ts'
import { isDeepStrictEqual } from 'node:util'
import { VecBackup } from '../../crds/backup.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import { isFailureReason } from '../../hooks/cluster/helm-result.ts'
import { jobImage, isUnfinished } from '../../hooks/job.ts'
import type { Small, SmallWorld } from './small-world.ts'

export function textOf(world: SmallWorld): string {
  const { live, seen, now } = world
  const unseen = Object.keys(seen).filter((key) => isUnseen(live[key], seen[key]))
  const places = placesOf([...sorted(live), ...sorted(seen)], now)
  return `${written(world, ({ id }) => String(id), places)} ${unseen.sort().join()}${textOfAnswer(world)}`
}

/** Whole: there is one at most, and not for long. */
function textOfAnswer({ answered }: SmallWorld): string {
  if (answered === undefined) return ''
  const { parent, children, answer } = answered
  const asked = children.map(({ metadata }) => [metadata.uid, metadata['resourceVersion']])
  return JSON.stringify([parent.metadata.uid, asked, answer])
}

/**
 * What two worlds of the same text must still agree on after the same step. Hashes are made of uids, and Jobs are
 * named by them. In which order things come to their later ages, and whether what was just written is younger
 * than what it replaces, the text says only of what is there before the step.
 */
export function outcomeOf(world: SmallWorld): string {
  return written(
    world,
    ({ text }) => text.replace(HASHED, '$1*'),
    () => '',
  )
}

/** Of a plan, in a signature, and in the name of a Job or an account. */
const HASHED =
  /("(?:plan|vec-operator\.dev\/(?:plan|signature))":"|-)(?:[0-9a-f]{64}|[0-9a-f]{12})\b/g

function written(
  world: SmallWorld,
  wordsOf: (one: Told) => string,
  places: (time: Time) => string,
): string {
  const { now, live, seen, namespaceEnds, engine, bucket, left } = world
  const objects = [...sorted(live), undefined, ...sorted(seen)].map((one) => one && told(one))
  const nameOf = named()
  const runs = ranked(objects.flatMap((one) => one?.runs ?? []))
  const texts = objects.map((one) => {
    if (one === undefined) return '|'
    const ages = one.times.map((time) => `${ageOf(now - time.at, time.limits)}${places(time)}`)
    const ranks = one.runs.map((run) => runs.get(run))
    return `${wordsOf(one)}:${one.uids.map(nameOf).join()}:${ages.join()}:${ranks.join()}`
  })
  const rest = JSON.stringify([namespaceEnds, left, bucket])
  return `${texts.join(' ')} ${rest}${textOfEngine(engine)}`
}

/** What differs only in when it was is not seen yet either. */
function isUnseen(live: Small | undefined, seen: Small | undefined): boolean {
  return live !== undefined && seen !== undefined && !isAlike(live, seen)
}

type Time = Told['times'][number]

/** In which order they come to their next ages: of two worlds of the same ages, another object may be the next. */
function placesOf(objects: (Small | undefined)[], now: number): (time: Time) => string {
  const times = objects.flatMap((one) => (one === undefined ? [] : told(one).times))
  const instants = times.flatMap((time) => aheadOf(time, now))
  const order = [...new Set(instants)].sort((one, other) => one - other)
  const places = new Map(order.map((instant, place) => [instant, place]))
  return (time) =>
    aheadOf(time, now)
      .map((instant) => `/${places.get(instant)}`)
      .join('')
}

/** The instants at which it comes to its next ages. */
function aheadOf({ at, limits }: Time, now: number): number[] {
  return limits.map((limit) => at + limit * 1000).filter((instant) => now < instant)
}

function sorted(objects: Record<string, Small>): (Small | undefined)[] {
  return Object.keys(objects)
    .sort()
    .map((key) => objects[key])
}

/** Uids are told apart, and that is all. */
function named(): (uid: string) => string {
  const names = new Map<string, string>()
  return (uid) => {
    const name = names.get(uid) ?? String(names.size)
    names.set(uid, name)
    return name
  }
}

/** The next run has the number after the highest that is known: what was counted before is the same. */
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

/** A number is given again only next to one that is known. */
const MOST_BETWEEN = 3

/** An object as far as it matters, apart from whose it is, how old, and of which run. */
interface Told {
  /** Of its text: there are few of them, and many states. */
  id: number
  text: string
  uids: string[]
  times: { at: number; limits: number[] }[]
  runs: number[]
}

/** An object is never changed, so it is looked at once. */
const known = new WeakMap<Small, Told>()
const ids = new Map<string, number>()

export function told(object: Small): Told {
  const found = known.get(object)
  if (found !== undefined) return found
  const uids: string[] = []
  const times: Told['times'] = []
  const runs: number[] = []
  const isRestores = JSON.stringify(object.spec ?? {}).includes('VecRestore/')
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
/** In the name of a Job, in a report, in a status, on a Lease, and in words. */
const RUN =
  /((?:run|upgrade|uninstall)-[0-9a-f]{12}-|"(?:run|appliedRun)":|dev\/run":"|\brun )(\d+)/g
/** Of a schedule that makes one every ten minutes: it is known by how many came after it. */
const SLOT = /(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)/g
const SLOTS = [600, 1200, 1800]
/** Ages that decisions tell apart, in seconds, by the field they are taken from (crds/contract/limits.ts). */
const LIMITS: Record<string, number[]> = {
  /** Of a Job that the cache does not show, or that says nothing. */
  creationTimestamp: [120, 600],
  /** Of the last report of a Job, which is called silent past it. */
  reportedAt: [600],
  /** Of a Job's end: its report may be late, its log is kept. */
  lastTransitionTime: [30, 86_400],
  /** Of a Lease: too short for a Job, over; and a restore looks once more who is at work. */
  acquireTime: [240, 300],
  acquiredByRestore: [15, 240, 300],
  /** Of an entry in the queue of a Lease: it is renewed, and counts no longer. */
  waiterSeen: [75, 180],
  /** Of a helm run: it is tried again. */
  failedAt: [30],
  refusedAt: [600],
  /** Of a backup in a namespace that ends. */
  deletionTimestamp: [600],
  expiresAt: [0],
  'vec-operator.dev/renew-at': [0],
  'vec-operator.dev/expires-at': [0],
  lastScheduleTime: SLOTS,
  nextBackupTime: [0, 600],
}

function ageOf(ms: number, limits: number[]): string {
  const seconds = ms / 1000
  return seconds < 0 ? 'to come' : String(limits.findIndex((one) => seconds < one))
}

/** Whether two objects make no difference to any decision. */
export function isAlike(one: Small, other: Small): boolean {
  if (one === other) return true
  const [before, after] = [told(one), told(other)]
  return (
    before.id === after.id &&
    isDeepStrictEqual(
      [before.uids, before.times, before.runs],
      [after.uids, after.times, after.runs],
    )
  )
}

/** The next instant at which something comes to another age; undefined when nothing does any more. */
export function nextInstant({ now, live, seen }: SmallWorld): number | undefined {
  let next = Infinity
  for (const object of [...Object.values(live), ...Object.values(seen)]) {
    for (const time of told(object).times) next = Math.min(next, ...aheadOf(time, now))
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
      // How old a Job is matters only until it has ended.
      ...(job && isUnfinished(job) && { creationTimestamp }),
    },
    annotations: reportIn(annotations, kind),
    ...(job && { spec: jobImage(job) }),
    ...(data && { data: withoutToken(data) }),
    status: job ? job.status : whatMattersOf(object),
  }
}

interface Waiter {
  holder: string
  seen: string
}

/** When it was told matters only of what is tried again. */
function reportIn(annotations: Record<string, string>, kind: string): object {
  const { [ANNOTATIONS.progress]: progress, [ANNOTATIONS.waiters]: queue, ...rest } = annotations
  const waiters = queue === undefined ? [] : (JSON.parse(queue) as Waiter[])
  const others = {
    ...rest,
    ...(waiters.length > 0 && {
      waiters: waiters.map(({ holder, seen }) => ({ holder, waiterSeen: seen })),
    }),
  }
  if (progress === undefined) return { ...others, run: 0 }
  const { at, applied, ...all } = JSON.parse(progress) as Record<string, unknown>
  const report = { ...all, startedAt: undefined }
  const { state } = all
  return {
    ...others,
    progress: {
      ...report,
      ...(kind === 'VecCluster' && state === 'Failed' && { failedAt: at }),
      ...(kind === 'VecCluster' && state === 'Refused' && { refusedAt: at }),
      reportedAt: at,
      ...(applied !== undefined && { applied: { ...(applied as object), at: undefined } }),
    },
  }
}

/** What a token holds stands in the annotations beside it. */
function withoutToken(data: Record<string, string>): object {
  const isSigned = Buffer.from(data['token'] ?? '', 'base64')
    .toString()
    .startsWith('eyJ')
  return isSigned ? { ...data, token: 'signed' } : data
}

/** Of a status, what a later decision reads: most of it is for people. */
function whatMattersOf({ kind, status }: Small): unknown {
  const { phase, conditions = [], ...rest } = (status ?? {}) as Status
  const generations = conditions.map(({ observedGeneration }) => observedGeneration)
  switch (kind) {
    case 'VecCluster': {
      const { appliedRun, helmRelease } = rest
      const read = conditions.filter(({ type }) => type === 'Applied' || type === 'Consensus')
      return { phase, appliedRun, helmRelease, generations, read: read.map(withoutTime) }
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

/** What is only under way is told for people. */
function withoutTime(condition: SmallCondition): object {
  const isTold = isFailureReason(condition.reason ?? '')
  const untold = isTold ? {} : { reason: undefined, message: undefined }
  return { ...condition, ...untold, lastTransitionTime: undefined }
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
