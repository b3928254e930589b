/**
 * Tells how a Job is getting on: one annotation on the resource it works for, which the hook reads.
 * It is also how a Job learns that it should not go on: its resource is gone, or another pod works.
 */
import { Type } from '@sinclair/typebox'
import type { Logger } from 'pino'
import { parseProgress, type Progress } from '../crds/command.ts'
import { KubernetesError } from '../crds/errors.ts'
import { MAX_PROGRESS_BYTES, MAX_REPORT_MESSAGE, REPORT_TIMEOUT_SECONDS } from '../crds/limits.ts'
import { ANNOTATIONS, API_VERSION } from '../crds/names.ts'
import type { Kubernetes } from './clients/kubernetes.ts'
import type { Time } from './time.ts'

/** The resource this Job works for is gone, or is a namesake: nothing is left to do. */
export class Gone extends Error {
  readonly code = 'Gone'
}

/** Another pod or a newer Job works for this resource: this one must not touch anything any more. */
export class Superseded extends Error {
  readonly code = 'Superseded'
}

/** The API did not accept a report in all the time there is. */
export class Unreported extends Error {
  readonly code = 'Unreported'
}

/** What a command says; the rest of a report is the same in each. */
export type Report = Pick<Progress, 'state' | 'reason' | 'message' | Part>

/** What a report tells of the work of one kind. */
type Part = 'applied' | 'backup' | 'restore' | 'migration'

/** Whose work is reported. */
export interface Subject {
  resource: string
  namespace: string
  name: string
  uid: string
  run: number
  /** Hash of the plan. */
  hash: string
}

interface Options {
  kubernetes: Kubernetes
  subject: Subject
  verb: string
  /** uid of this pod. */
  runner: string
  /** uid of the Job. */
  job: string
  time: Time
  log: Logger
  signal: AbortSignal
}

interface WriteOptions {
  /** Written on the resource at the same moment. */
  annotations?: Record<string, string>
  /** What the last report said of the work stays, its message included. */
  repeats?: boolean
}

/** Between two reports that are not the last one, at least so long. */
const THROTTLE_MS = 5_000
/** Without other reports the last one is repeated so often. */
export const HEARTBEAT_MS = 60_000
const FIRST_RETRY_MS = 1_000
const MAX_RETRY_MS = 30_000
/** All annotations of an object together may have 256 KiB. */
const MAX_ANNOTATION = 128 * 1024

const Annotated = Type.Object({
  metadata: Type.Object({
    uid: Type.String(),
    annotations: Type.Optional(Type.Record(Type.String(), Type.String())),
  }),
})

export class Reporter {
  readonly #options: Options
  readonly #startedAt: string
  #earlier: Progress | undefined
  /** True once this pod stands in the annotation: another runner there is then a newer one. */
  #written = false
  #writtenAt = 0
  /** What this pod wrote last: somebody may remove it from the resource. */
  #last: Progress | undefined
  #writing: Promise<void> = Promise.resolve()

  constructor(options: Options) {
    this.#options = options
    this.#startedAt = options.time.now().toISOString()
  }

  /**
   * Takes the resource over for this pod. Answers with the final report when an earlier pod of this
   * Job made one and was ended before it could exit: then nothing is left to do.
   */
  async started(): Promise<Report | undefined> {
    const found = await this.#persist(() => this.#read())
    if (found !== undefined && this.#isOver(found)) return found
    this.#earlier = found
    await this.#persist(() => this.#write({ state: 'Started' }))
    return undefined
  }

  /** What was reported before this pod took over: where to go on. */
  get earlier(): Progress | undefined {
    return this.#earlier
  }

  /** A report on the way: left out when the last one is recent, and no harm when it is refused. */
  async progress(message: string, parts: Pick<Report, Part> = {}): Promise<void> {
    if (this.#options.time.now().getTime() - this.#writtenAt < THROTTLE_MS) return
    try {
      await this.#write({ state: 'Started', message, ...parts })
    } catch (error) {
      if (!isRefusal(error)) throw error
      this.#options.log.warn({ reason: error.message }, 'report refused')
    }
  }

  /** A report that what follows rests on: a pod that comes after this one must find it. */
  async noted(message: string, parts: Pick<Report, Part>): Promise<void> {
    await this.#persist(() => this.#write({ state: 'Started', message, ...parts }))
  }

  /**
   * Repeats the last report of this pod with the time of now, so that a Job in the middle of a long call
   * is not taken for one that hangs. A refusal does no harm: the next beat comes.
   */
  async beat(): Promise<void> {
    const isRecent = this.#options.time.now().getTime() - this.#writtenAt < HEARTBEAT_MS / 2
    if (!this.#written || isRecent) return
    try {
      await this.#write({ state: 'Started' }, { repeats: true })
    } catch (error) {
      if (!isRefusal(error)) throw error
    }
  }

  /** Throws when this pod should not go on: its resource is gone, or another pod works. */
  async confirm(): Promise<void> {
    await this.#persist(() => this.#read())
  }

  /** The last report, with what else is to be written on the resource at the same moment. */
  async ended(report: Report, annotations: Record<string, string> = {}): Promise<void> {
    await this.#persist(() => this.#write(report, { annotations }))
  }

  /** Repeats a call until it is accepted; gives up after REPORT_TIMEOUT_SECONDS. */
  async #persist<Result>(call: () => Promise<Result>): Promise<Result> {
    const { time, log, signal } = this.#options
    const giveUpAt = time.now().getTime() + REPORT_TIMEOUT_SECONDS * 1000
    for (let delay = FIRST_RETRY_MS; ; delay = Math.min(2 * delay, MAX_RETRY_MS)) {
      try {
        return await call()
      } catch (error) {
        if (!isRefusal(error)) throw error
        log.warn({ reason: error.message }, 'report refused')
        if (time.now().getTime() + delay > giveUpAt) {
          throw new Unreported(`no report was accepted for ${REPORT_TIMEOUT_SECONDS} s`, {
            cause: error,
          })
        }
        await time.sleep(delay, signal)
      }
    }
  }

  /** One write at a time: each rests on what it reads. */
  #write(report: Report, options: WriteOptions = {}): Promise<void> {
    const written = this.#writing.then(() => this.#writeNow(report, options))
    this.#writing = written.catch(() => undefined)
    return written
  }

  async #writeNow(
    report: Report,
    { annotations = {}, repeats = false }: WriteOptions,
  ): Promise<void> {
    const { kubernetes, subject, time } = this.#options
    const found = (await this.#read()) ?? this.#last
    // The end was reported while this waited for its turn.
    if (repeats && found?.state !== 'Started') return
    const before = repeats ? partsOf(found) : carriedOver(found)
    const progress = this.#progressOf({ ...before, ...report })
    // The uid makes the API refuse the patch where a namesake was made meanwhile.
    const metadata = {
      uid: subject.uid,
      annotations: { ...bounded(annotations), [ANNOTATIONS.progress]: encode(progress) },
    }
    // What it refuses is read again before the next try: so a resource that is gone is seen.
    await kubernetes.patch(this.#collection(), subject.name, { metadata })
    this.#written = true
    this.#last = progress
    this.#writtenAt = time.now().getTime()
  }

  /** The report that stands there now; throws when it tells us to stop. */
  async #read(): Promise<Progress | undefined> {
    const { kubernetes, subject, runner } = this.#options
    const found = await kubernetes.get(this.#collection(), subject.name, Annotated)
    if (found?.metadata.uid !== subject.uid) throw new Gone(`${this.#subjectName()} is gone`)
    const text = found.metadata.annotations?.[ANNOTATIONS.progress]
    const progress = parseProgress(text, subject.uid)
    if (progress !== undefined && progress.run > subject.run) {
      throw new Superseded(`run ${progress.run} has begun: run ${subject.run} stops`)
    }
    if (this.#written && progress !== undefined && progress.runner !== runner) {
      throw new Superseded(`pod ${progress.runner} works on this run: this pod stops`)
    }
    return progress
  }

  #isOver({ run, job, state }: Progress): boolean {
    const { subject } = this.#options
    return run === subject.run && job === this.#options.job && state !== 'Started'
  }

  #progressOf(report: Report): Progress {
    const { subject, verb, runner, job, time } = this.#options
    return {
      uid: subject.uid,
      verb,
      run: subject.run,
      job,
      runner,
      plan: subject.hash,
      at: time.now().toISOString(),
      startedAt: this.#startedAt,
      ...report,
      ...(report.message !== undefined && { message: cut(report.message, MAX_REPORT_MESSAGE) }),
    }
  }

  #collection() {
    const { resource, namespace } = this.#options.subject
    return { apiVersion: API_VERSION, plural: resource, namespace }
  }

  #subjectName(): string {
    const { resource, namespace, name } = this.#options.subject
    return `${resource} ${namespace}/${name}`
  }
}

function partsOf({ message, reason, backup, ...rest }: Partial<Progress> = {}): Partial<Report> {
  return {
    ...carriedOver(rest),
    ...(message !== undefined && { message }),
    ...(reason !== undefined && { reason }),
    ...(backup !== undefined && { backup }),
  }
}

/** What later reports go on from: a pod that has just started knows nothing of it. */
function carriedOver({ applied, restore, migration }: Partial<Progress> = {}): Partial<Report> {
  return {
    ...(applied !== undefined && { applied }),
    ...(restore !== undefined && { restore }),
    ...(migration !== undefined && { migration }),
  }
}

function isRefusal(error: unknown): error is KubernetesError {
  return error instanceof KubernetesError
}

/** A report without its message is worth more than none. */
function encode(progress: Progress): string {
  const text = JSON.stringify(progress)
  if (Buffer.byteLength(text) <= MAX_PROGRESS_BYTES) return text
  return JSON.stringify({ ...progress, message: undefined })
}

/** What would make the whole object too large is left out. */
function bounded(annotations: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(annotations).filter(([, text]) => Buffer.byteLength(text) <= MAX_ANNOTATION),
  )
}

function cut(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 2)} …`
}
