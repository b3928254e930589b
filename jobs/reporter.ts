/**
 * Reports the state of a Job in one annotation on its resource, which the hook reads. A report is
 * also how a Job learns that it must stop: its resource is gone, or another pod is active.
 */
import { Type } from '@sinclair/typebox'
import type { Logger } from 'pino'
import { parseProgress, type Progress } from '../crds/contract/job.ts'
import { KubernetesError } from '../crds/contract/errors.ts'
import {
  MAX_PROGRESS_BYTES,
  MAX_REPORT_MESSAGE,
  REPORT_TIMEOUT_SECONDS,
} from '../crds/contract/limits.ts'
import { ANNOTATIONS, API_VERSION } from '../crds/contract/names.ts'
import type { Kubernetes } from './clients/kubernetes/client.ts'
import type { Clock } from './clock.ts'
import { retry } from './retry.ts'

/**
 * The resource of this Job is gone or was replaced by one of the same name: nothing is left to do.
 */
export class ResourceDeleted extends Error {
  readonly code = 'Gone'
}

/**
 * Another pod or a newer Job works for this resource: this pod must not change anything any more.
 */
export class Superseded extends Error {
  readonly code = 'Superseded'
}

/** The API did not accept a report within the whole time limit. */
export class ReportTimeout extends Error {
  readonly code = 'Unreported'
}

/** The content that a command provides; the rest is the same in every report. */
export type Report = Pick<Progress, 'state' | 'reason' | 'message' | KindProgress>

/** The progress of one kind in a report. */
type KindProgress = 'applied' | 'shards' | 'backup' | 'restore' | 'migration'

/** The fields of a report that only one kind has. */
export type KindReport = Pick<Report, KindProgress>

/** The resource and the Job that a report is about. */
export interface JobTarget {
  resource: string
  namespace: string
  name: string
  uid: string
  run: number
  /** Hash of the plan. */
  hash: string
}

interface ReporterOptions {
  kubernetes: Kubernetes
  target: JobTarget
  verb: string
  /** uid of this pod. */
  podUid: string
  /** uid of the Job. */
  jobUid: string
  time: Clock
  log: Logger
  signal: AbortSignal
}

interface WriteOptions {
  /** Written on the resource at the same time. */
  annotations?: Record<string, string>
  /** Keeps the content of the last report, including its message. */
  isHeartbeat?: boolean
}

/** Minimum interval between two reports, except for the last one. */
const MIN_INTERVAL_MS = 5_000
/** Interval at which the last report is repeated if there is no other. */
export const HEARTBEAT_MS = 60_000
const FIRST_RETRY_MS = 1_000
const MAX_RETRY_MS = 30_000
/** All annotations of an object together may have 256 KiB. */
export const MAX_ANNOTATION_BYTES = 128 * 1024

const AnnotatedObject = Type.Object({
  metadata: Type.Object({
    uid: Type.String(),
    deletionTimestamp: Type.Optional(Type.String()),
    annotations: Type.Optional(Type.Record(Type.String(), Type.String())),
  }),
})

export class Reporter {
  readonly #options: ReporterOptions
  readonly #startedAt: string
  #previous: Progress | undefined
  /** True once this pod is in the annotation: another pod there is then a newer one. */
  #hasWritten = false
  #lastWriteAt = -Infinity
  /** When the API last said that this pod is the one that works. */
  #confirmedAt = -Infinity
  #confirmedAtMonotonic = -Infinity
  /** What this pod wrote last: another client may remove it from the resource. */
  #lastWritten: Progress | undefined
  #pendingWrite: Promise<void> = Promise.resolve()

  constructor(options: ReporterOptions) {
    this.#options = options
    this.#startedAt = options.time.now().toISOString()
  }

  /**
   * Takes the resource over for this pod. Returns the final report if an earlier pod of this Job
   * made one and was stopped before it could exit: nothing is left to do then.
   */
  async start(): Promise<Report | undefined> {
    const current = await this.#persist(() => this.#read())
    if (current !== undefined && this.#isFinished(current)) return current
    this.#previous = current
    await this.#persist(() => this.#write({ state: 'Started' }))
    return undefined
  }

  /** The report before this pod took over: where to resume. */
  get previous(): Progress | undefined {
    return this.#previous
  }

  /** An intermediate report: skipped if the last one is recent; a failure is ignored. */
  async progress(message: string, kindProgress: KindReport = {}): Promise<void> {
    if (this.#options.time.monotonicMs() - this.#lastWriteAt < MIN_INTERVAL_MS) return
    try {
      await this.#write({ state: 'Started', message, ...kindProgress })
    } catch (error) {
      if (!isKubernetesError(error)) throw error
      this.#options.log.warn({ reason: error.message }, 'report failed')
    }
  }

  /** A report that later steps depend on: the next pod must find it. */
  async checkpoint(message: string, kindProgress: KindReport): Promise<void> {
    await this.#persist(() => this.#write({ state: 'Started', message, ...kindProgress }))
  }

  /**
   * Repeats the last report of this pod with the current time, so that a Job in a long call is not
   * considered stuck. A failure is ignored: the next heartbeat follows.
   */
  async heartbeat(): Promise<void> {
    const isRecent = this.#options.time.monotonicMs() - this.#lastWriteAt < HEARTBEAT_MS / 2
    if (!this.#hasWritten || isRecent) return
    try {
      await this.#write({ state: 'Started' }, { isHeartbeat: true })
    } catch (error) {
      if (!isKubernetesError(error)) throw error
    }
  }

  /** Throws if this pod must stop: its resource is gone, or another pod is active. */
  async verifyOwnership(): Promise<void> {
    await this.#persist(() => this.#read())
  }

  /**
   * The same, but asks only if nothing has confirmed it for a minute: for a step that is repeated often. A pod
   * on an unreachable node, or one that was frozen, may have been replaced meanwhile.
   */
  async verifyRecentOwnership(): Promise<void> {
    const { time } = this.#options
    // The system clock may have been set back; the other one may not count a suspension of the machine.
    const age = Math.max(
      time.now().getTime() - this.#confirmedAt,
      time.monotonicMs() - this.#confirmedAtMonotonic,
    )
    if (age >= HEARTBEAT_MS) await this.verifyOwnership()
  }

  /** Who works for the resource; `unknown` without an answer of the API. For what is done as a run ends: never throws. */
  async owner(): Promise<'this pod' | 'another pod' | 'unknown'> {
    try {
      await this.verifyOwnership()
      return 'this pod'
    } catch (error) {
      if (error instanceof ResourceDeleted) return 'this pod'
      return error instanceof Superseded ? 'another pod' : 'unknown'
    }
  }

  /**
   * Whether the resource is gone or is being deleted, so that no other pod continues; false if the
   * API does not answer.
   */
  async isDeleted(): Promise<boolean> {
    const { kubernetes, target } = this.#options
    try {
      const live = await kubernetes.get(this.#apiResource(), target.name, AnnotatedObject)
      const isGone = live?.metadata.uid !== target.uid
      return isGone || live.metadata.deletionTimestamp !== undefined
    } catch (error) {
      if (!isKubernetesError(error)) throw error
      return false
    }
  }

  /** The final report, with additional annotations that are written at the same time. */
  async finish(report: Report, annotations: Record<string, string> = {}): Promise<void> {
    await this.#persist(() => this.#write(report, { annotations }))
  }

  /** Retries a call until it is accepted; gives up after REPORT_TIMEOUT_SECONDS. */
  async #persist<Result>(call: () => Promise<Result>): Promise<Result> {
    const { time, log, signal } = this.#options
    const deadline = time.monotonicMs() + REPORT_TIMEOUT_SECONDS * 1000
    const pauseMs = (error: unknown, { retries }: { retries: number }) => {
      if (!isKubernetesError(error)) return undefined
      log.warn({ reason: error.message }, 'report failed')
      const pause = Math.min(FIRST_RETRY_MS * 2 ** retries, MAX_RETRY_MS)
      if (time.monotonicMs() + pause <= deadline) return pause
      throw new ReportTimeout(`no report was accepted for ${REPORT_TIMEOUT_SECONDS} s`, {
        cause: error,
      })
    }
    return retry({ time, signal, pauseMs }, call)
  }

  /** One write at a time: each depends on what it reads. */
  #write(report: Report, options: WriteOptions = {}): Promise<void> {
    const write = this.#pendingWrite.then(() => this.#writeNow(report, options))
    this.#pendingWrite = write.catch(() => undefined)
    return write
  }

  async #writeNow(
    report: Report,
    { annotations = {}, isHeartbeat = false }: WriteOptions,
  ): Promise<void> {
    const { kubernetes, target, time } = this.#options
    const current = (await this.#read()) ?? this.#lastWritten
    // The final report was written while this one was queued.
    if (isHeartbeat && current?.state !== 'Started') return
    const base = isHeartbeat ? allFields(current) : carryOver(current)
    const progress = this.#progressOf({ ...base, ...report })
    // The uid makes the API reject the patch if the resource was replaced by one of the same name.
    const metadata = {
      uid: target.uid,
      annotations: {
        ...removeOversized(annotations),
        [ANNOTATIONS.progress]: encodeProgress(progress),
      },
    }
    // After a rejection the resource is read again before the next attempt, so that a deleted
    // resource is noticed.
    await kubernetes.patch(this.#apiResource(), target.name, { metadata })
    this.#hasWritten = true
    this.#lastWritten = progress
    this.#lastWriteAt = time.monotonicMs()
  }

  /** The current report; throws if it says that this pod must stop. */
  async #read(): Promise<Progress | undefined> {
    const { kubernetes, target, podUid, time } = this.#options
    const [askedAt, askedAtMonotonic] = [time.now().getTime(), time.monotonicMs()]
    const current = await kubernetes.get(this.#apiResource(), target.name, AnnotatedObject)
    if (current?.metadata.uid !== target.uid)
      throw new ResourceDeleted(`${this.#formatTarget()} is gone`)
    const text = current.metadata.annotations?.[ANNOTATIONS.progress]
    const progress = parseProgress(text, target.uid)
    if (progress !== undefined && progress.run > target.run) {
      throw new Superseded(`run ${progress.run} has begun: run ${target.run} stops`)
    }
    if (this.#hasWritten && progress !== undefined && progress.runner !== podUid) {
      throw new Superseded(`pod ${progress.runner} works on this run: this pod stops`)
    }
    this.#confirmedAt = askedAt
    this.#confirmedAtMonotonic = askedAtMonotonic
    return progress
  }

  #isFinished({ run, job: jobUid, state }: Progress): boolean {
    const { target } = this.#options
    return run === target.run && jobUid === this.#options.jobUid && state !== 'Started'
  }

  #progressOf(report: Report): Progress {
    const { target, verb, podUid, jobUid, time } = this.#options
    return {
      uid: target.uid,
      verb,
      run: target.run,
      job: jobUid,
      runner: podUid,
      plan: target.hash,
      at: time.now().toISOString(),
      startedAt: this.#startedAt,
      ...report,
      ...(report.message !== undefined && {
        message: truncate(report.message, MAX_REPORT_MESSAGE),
      }),
    }
  }

  #apiResource() {
    const { resource, namespace } = this.#options.target
    return { apiVersion: API_VERSION, plural: resource, namespace }
  }

  #formatTarget(): string {
    const { resource, namespace, name } = this.#options.target
    return `${resource} ${namespace}/${name}`
  }
}

function allFields({ message, reason, backup, ...rest }: Partial<Progress> = {}): Partial<Report> {
  return {
    ...carryOver(rest),
    ...(message !== undefined && { message }),
    ...(reason !== undefined && { reason }),
    ...(backup !== undefined && { backup }),
  }
}

/** The fields that later reports continue from: a new pod does not know them. */
function carryOver({
  applied,
  shards,
  restore,
  migration,
}: Partial<Progress> = {}): Partial<Report> {
  return {
    ...(applied !== undefined && { applied }),
    ...(shards !== undefined && { shards }),
    ...(restore !== undefined && { restore }),
    ...(migration !== undefined && { migration }),
  }
}

export function isKubernetesError(error: unknown): error is KubernetesError {
  return error instanceof KubernetesError
}

/** A report without its message is better than none. */
function encodeProgress(progress: Progress): string {
  const text = JSON.stringify(progress)
  if (Buffer.byteLength(text) <= MAX_PROGRESS_BYTES) return text
  return JSON.stringify({ ...progress, message: undefined })
}

/**
 * Removes annotations that would make the object too large: the text of an earlier run would be taken for that of
 * this one.
 */
function removeOversized(annotations: Record<string, string>): Record<string, string | null> {
  return Object.fromEntries(
    Object.entries(annotations).map(([name, text]) => [
      name,
      Buffer.byteLength(text) <= MAX_ANNOTATION_BYTES ? text : null,
    ]),
  )
}

function truncate(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 2)} …`
}
