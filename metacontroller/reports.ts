/**
 * What Jobs have reported on their resources, as counts: runs that ended, bytes and points that were
 * moved. A report is seen many times and counted once, and not by the service that is started after it.
 */
import { parseProgress, type Progress } from '../crds/command.ts'
import { endOf, type Job } from '../crds/kubernetes.ts'
import { END_REPORT_SECONDS } from '../crds/limits.ts'
import { ANNOTATIONS, LABELS, shortHash } from '../crds/names.ts'
import type { HookRequest } from '../hooks/protocol.ts'
import type { AnyParent } from '../hooks/room.ts'

/** How a run ended; what ended without a word has crashed. */
export const OUTCOMES = ['Done', 'Failed', 'Refused', 'Crashed'] as const
export type Outcome = (typeof OUTCOMES)[number]

export interface Counts {
  jobEnded(run: { kind: string; verb: string; outcome: Outcome }): void
  bytesMoved(kind: string, bytes: number): void
  pointsCopied(kind: string, points: number): void
}

interface Known {
  /** Hash of the report that was read last: the report itself may be long. */
  report: string
  bytes: number
  points: number
  /** uids of Jobs whose end was counted. */
  ended: Set<string>
}

export class Reports {
  readonly #counts: Counts
  readonly #startedAt: number
  readonly #known = new Map<string, Known>()

  constructor(counts: Counts, startedAt: Date) {
    this.#counts = counts
    this.#startedAt = startedAt.getTime()
  }

  /** Looks at a resource as a hook was shown it. */
  read({ parent, children }: HookRequest<AnyParent>, now: Date): void {
    const { uid, annotations } = parent.metadata
    const text = annotations?.[ANNOTATIONS.progress] ?? ''
    const jobs = Object.values(children[JOBS] ?? {}) as Job[]
    if (text === '' && jobs.length === 0) return
    const known = this.#known.get(uid) ?? { report: '', bytes: 0, points: 0, ended: new Set() }
    this.#known.set(uid, known)
    const progress = parseProgress(text, uid)
    const report = shortHash(text)
    if (progress !== undefined && known.report !== report) this.#count(parent.kind, progress, known)
    known.report = report
    for (const job of jobs) this.#countCrash(parent.kind, job, { progress, known, now })
    // A cluster has many Jobs in its life: only those that may be shown again are remembered.
    const shown = [progress?.job, ...jobs.map(({ metadata }) => metadata.uid)]
    known.ended = new Set([...known.ended].filter((uid) => shown.includes(uid)))
  }

  /** The resource is gone. */
  forget(uid: string): void {
    this.#known.delete(uid)
  }

  #count(kind: string, progress: Progress, known: Known): void {
    const moved = movedBy(progress)
    const isOurs = known.report !== '' || Date.parse(progress.startedAt) >= this.#startedAt
    if (isOurs && moved.bytes > known.bytes) {
      this.#counts.bytesMoved(kind, moved.bytes - known.bytes)
    }
    if (isOurs && moved.points > known.points) {
      this.#counts.pointsCopied(kind, moved.points - known.points)
    }
    Object.assign(known, moved)
    const { state, verb, job, at } = progress
    if (state === 'Started' || known.ended.has(job)) return
    known.ended.add(job)
    if (Date.parse(at) >= this.#startedAt) this.#counts.jobEnded({ kind, verb, outcome: state })
  }

  /** A Job that failed a while ago and whose resource has no end of its own to show. */
  #countCrash(
    kind: string,
    job: Job,
    { progress, known, now }: { progress: Progress | undefined; known: Known; now: Date },
  ): void {
    const { uid = '', labels } = job.metadata
    const end = endOf(job)
    if (end?.type !== 'Failed' || known.ended.has(uid)) return
    const at = Date.parse(end.lastTransitionTime ?? '')
    // The report may be on its way to us still.
    if (now.getTime() - at < END_REPORT_SECONDS * 1000) return
    known.ended.add(uid)
    // Reports of later Jobs have taken the place of its own: how it ended is not known any more.
    const isTold = progress !== undefined && progress.job !== uid
    if (isTold || at < this.#startedAt) return
    this.#counts.jobEnded({ kind, verb: labels?.[LABELS.verb] ?? '', outcome: 'Crashed' })
  }
}

const JOBS = 'Job.batch/v1'

function movedBy({ backup, restore, migration }: Progress): { bytes: number; points: number } {
  return { bytes: backup?.bytes ?? restore?.bytes ?? 0, points: migration?.pointsCopied ?? 0 }
}
