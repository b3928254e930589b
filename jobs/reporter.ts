/**
 * Tells how a Job is getting on: one annotation on the resource it works for, which the hook reads.
 * It is also how a Job learns that it should not go on: its resource is gone, or another pod works.
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

/** The resource this Job works for is gone, or is a namesake: nothing is left to do. */
export class ResourceDeleted extends Error {
  readonly code = 'Gone'
}

/** Another pod or a newer Job works for this resource: this one must not touch anything any more. */
export class Superseded extends Error {
  readonly code = 'Superseded'
}

/** The API did not accept a report in all the time there is. */
export class ReportTimeout extends Error {
  readonly code = 'Unreported'
}

/** What a command says; the rest of a report is the same in each. */
export type Report = Pick<Progress, 'state' | 'reason' | 'message' | KindProgress>

/** What a report tells of the work of one kind. */
type KindProgress = 'applied' | 'backup' | 'restore' | 'migration'

/** Whose work is reported. */
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
  /** Written on the resource at the same moment. */
  annotations?: Record<string, string>
  /** What the last report said of the work stays, its message included. */
  isHeartbeat?: boolean
}

/** Between two reports that are not the last one, at least so long. */
const MIN_INTERVAL_MS = 5_000
/** Without other reports the last one is repeated so often. */
export const HEARTBEAT_MS = 60_000
const FIRST_RETRY_MS = 1_000
const MAX_RETRY_MS = 30_000
/** All annotations of an object together may have 256 KiB. */
const MAX_ANNOTATION_BYTES = 128 * 1024

const AnnotatedObject = Type.Object({
  metadata: Type.Object({
    uid: Type.String(),
    annotations: Type.Optional(Type.Record(Type.String(), Type.String())),
  }),
})

export class Reporter {
  readonly #options: ReporterOptions
  readonly #startedAt: string
  #previous: Progress | undefined
  /** True once this pod stands in the annotation: another runner there is then a newer one. */
  #hasWritten = false
  #lastWriteAt = 0
  /** What this pod wrote last: somebody may remove it from the resource. */
  #lastWritten: Progress | undefined
  #pendingWrite: Promise<void> = Promise.resolve()

  constructor(options: ReporterOptions) {
    this.#options = options
    this.#startedAt = options.time.now().toISOString()
  }

  /**
   * Takes the resource over for this pod. Answers with the final report when an earlier pod of this
   * Job made one and was ended before it could exit: then nothing is left to do.
   */
  async start(): Promise<Report | undefined> {
    const current = await this.#persist(() => this.#read())
    if (current !== undefined && this.#isFinished(current)) return current
    this.#previous = current
    await this.#persist(() => this.#write({ state: 'Started' }))
    return undefined
  }

  /** What was reported before this pod took over: where to go on. */
  get previous(): Progress | undefined {
    return this.#previous
  }

  /** A report on the way: left out when the last one is recent, and no harm when it is refused. */
  async progress(message: string, kindProgress: Pick<Report, KindProgress> = {}): Promise<void> {
    if (this.#options.time.now().getTime() - this.#lastWriteAt < MIN_INTERVAL_MS) return
    try {
      await this.#write({ state: 'Started', message, ...kindProgress })
    } catch (error) {
      if (!isKubernetesError(error)) throw error
      this.#options.log.warn({ reason: error.message }, 'report refused')
    }
  }

  /** A report that what follows rests on: a pod that comes after this one must find it. */
  async checkpoint(message: string, kindProgress: Pick<Report, KindProgress>): Promise<void> {
    await this.#persist(() => this.#write({ state: 'Started', message, ...kindProgress }))
  }

  /**
   * Repeats the last report of this pod with the time of now, so that a Job in the middle of a long call
   * is not taken for one that hangs. A refusal does no harm: the next beat comes.
   */
  async heartbeat(): Promise<void> {
    const isRecent = this.#options.time.now().getTime() - this.#lastWriteAt < HEARTBEAT_MS / 2
    if (!this.#hasWritten || isRecent) return
    try {
      await this.#write({ state: 'Started' }, { isHeartbeat: true })
    } catch (error) {
      if (!isKubernetesError(error)) throw error
    }
  }

  /** Throws when this pod should not go on: its resource is gone, or another pod works. */
  async verifyOwnership(): Promise<void> {
    await this.#persist(() => this.#read())
  }

  /** The last report, with what else is to be written on the resource at the same moment. */
  async finish(report: Report, annotations: Record<string, string> = {}): Promise<void> {
    await this.#persist(() => this.#write(report, { annotations }))
  }

  /** Repeats a call until it is accepted; gives up after REPORT_TIMEOUT_SECONDS. */
  async #persist<Result>(call: () => Promise<Result>): Promise<Result> {
    const { time, log, signal } = this.#options
    const deadline = time.now().getTime() + REPORT_TIMEOUT_SECONDS * 1000
    for (let delay = FIRST_RETRY_MS; ; delay = Math.min(2 * delay, MAX_RETRY_MS)) {
      try {
        return await call()
      } catch (error) {
        if (!isKubernetesError(error)) throw error
        log.warn({ reason: error.message }, 'report refused')
        if (time.now().getTime() + delay > deadline) {
          throw new ReportTimeout(`no report was accepted for ${REPORT_TIMEOUT_SECONDS} s`, {
            cause: error,
          })
        }
        await time.sleep(delay, signal)
      }
    }
  }

  /** One write at a time: each rests on what it reads. */
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
    // The end was reported while this waited for its turn.
    if (isHeartbeat && current?.state !== 'Started') return
    const base = isHeartbeat ? allFields(current) : carryOver(current)
    const progress = this.#progressOf({ ...base, ...report })
    // The uid makes the API refuse the patch where a namesake was made meanwhile.
    const metadata = {
      uid: target.uid,
      annotations: {
        ...dropOversized(annotations),
        [ANNOTATIONS.progress]: encodeProgress(progress),
      },
    }
    // What it refuses is read again before the next try: so a resource that is gone is seen.
    await kubernetes.patch(this.#apiResource(), target.name, { metadata })
    this.#hasWritten = true
    this.#lastWritten = progress
    this.#lastWriteAt = time.now().getTime()
  }

  /** The report that stands there now; throws when it tells us to stop. */
  async #read(): Promise<Progress | undefined> {
    const { kubernetes, target, podUid } = this.#options
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

/** What later reports go on from: a pod that has just started knows nothing of it. */
function carryOver({ applied, restore, migration }: Partial<Progress> = {}): Partial<Report> {
  return {
    ...(applied !== undefined && { applied }),
    ...(restore !== undefined && { restore }),
    ...(migration !== undefined && { migration }),
  }
}

function isKubernetesError(error: unknown): error is KubernetesError {
  return error instanceof KubernetesError
}

/** A report without its message is worth more than none. */
function encodeProgress(progress: Progress): string {
  const text = JSON.stringify(progress)
  if (Buffer.byteLength(text) <= MAX_PROGRESS_BYTES) return text
  return JSON.stringify({ ...progress, message: undefined })
}

/** What would make the whole object too large is left out. */
function dropOversized(annotations: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(annotations).filter(
      ([, text]) => Buffer.byteLength(text) <= MAX_ANNOTATION_BYTES,
    ),
  )
}

function truncate(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 2)} …`
}
