/**
 * Counts what Jobs reported on their resources: finished runs, transferred bytes and copied points.
 * Hooks observe the same report many times; it is counted once. After a restart of the service,
 * results from before the restart are not counted again.
 */
import { Counter, type Registry } from 'prom-client'
import { SHARD_STEPS, type ShardStepKind } from '../../crds/contract/shards-job.ts'
import { parseProgress, type Progress } from '../../crds/contract/job.ts'
import { finishedCondition, type Job } from '../../crds/kubernetes.ts'
import { FINAL_REPORT_TIMEOUT_SECONDS } from '../../crds/contract/limits.ts'
import { ANNOTATIONS, LABELS, shortHash } from '../../crds/contract/names.ts'
import type { HookRequest, AnyParent } from '../../hooks/protocol.ts'

/** Outcome of a run; a Job that failed without reporting an outcome has crashed. */
const OUTCOMES = ['Done', 'Failed', 'Refused', 'Crashed'] as const
type Outcome = (typeof OUTCOMES)[number]

interface JobCounters {
  jobEnded(run: { kind: string; verb: string; outcome: Outcome }): void
  bytesMoved(kind: string, bytes: number): void
  pointsCopied(kind: string, points: number): void
  stepsFinished(step: ShardStepKind, steps: number): void
}

/** Verbs of the Jobs of each kind; any other value in a label or report is counted as `other`. */
const JOB_VERBS: Record<string, readonly string[]> = {
  VecCluster: ['upgrade', 'uninstall', 'shards'],
  VecBackup: ['run', 'purge'],
  VecRestore: ['run'],
  VecMigration: ['run'],
}

interface RecordedResults {
  /** Hash of the latest report; the report itself may be long. */
  report: string
  bytes: number
  points: number
  /** Steps on shards, by kind. */
  steps: ReadonlyMap<ShardStepKind, number>
  /** When the work began whose bytes and steps these are; of each Job on shards, which counts its own. */
  shardsStartedAt?: string | undefined
  /** uids of the Jobs whose outcome was counted. */
  countedJobs: Set<string>
}

export class JobResults {
  readonly #counters: JobCounters
  #startedAt: number
  readonly #recorded = new Map<string, RecordedResults>()

  constructor(registry: Registry, startedAt: Date) {
    this.#counters = jobCounters(registry)
    this.#startedAt = startedAt.getTime()
  }

  /** Results from before this time are not counted. */
  countFrom(time: Date): void {
    this.#startedAt = time.getTime()
  }

  /** Counts what is new on a resource in a hook request. */
  record({ parent, children }: HookRequest<AnyParent>, now: Date): void {
    const { uid, annotations } = parent.metadata
    const text = annotations?.[ANNOTATIONS.progress] ?? ''
    const jobs = Object.values(children[JOB_CHILD_KIND] ?? {}) as Job[]
    if (text === '' && jobs.length === 0) return
    const recorded = this.#recorded.get(uid) ?? {
      report: '',
      bytes: 0,
      points: 0,
      steps: new Map(),
      countedJobs: new Set(),
    }
    this.#recorded.set(uid, recorded)
    const progress = parseProgress(text, uid)
    const report = shortHash(text)
    if (progress !== undefined && recorded.report !== report)
      this.#count(parent.kind, progress, recorded)
    recorded.report = report
    for (const job of jobs) this.#countCrash(parent.kind, job, { progress, recorded, now })
    // A cluster has many Jobs over its lifetime: remember only those that requests still contain.
    const currentJobs = [progress?.job, ...jobs.map(({ metadata }) => metadata.uid)]
    recorded.countedJobs = new Set(
      [...recorded.countedJobs].filter((uid) => currentJobs.includes(uid)),
    )
  }

  /** Forgets a resource that is gone. */
  remove(uid: string): void {
    this.#recorded.delete(uid)
  }

  #count(kind: string, progress: Progress, recorded: RecordedResults): void {
    const totals = progressTotals(progress)
    const shardsStartedAt = progress.shards?.startedAt
    if (shardsStartedAt !== recorded.shardsStartedAt) {
      Object.assign(recorded, { bytes: 0, steps: new Map() })
    }
    // The first report of a Job repeats the result of an earlier one on shards.
    const startedAt = Date.parse(shardsStartedAt ?? progress.startedAt)
    const isSinceStart = recorded.report !== '' || startedAt >= this.#startedAt
    for (const [step, count] of totals.steps) {
      const finished = count - (recorded.steps.get(step) ?? 0)
      if (isSinceStart && finished > 0) this.#counters.stepsFinished(step, finished)
    }
    if (isSinceStart && totals.bytes > recorded.bytes) {
      this.#counters.bytesMoved(kind, totals.bytes - recorded.bytes)
    }
    if (isSinceStart && totals.points > recorded.points) {
      this.#counters.pointsCopied(kind, totals.points - recorded.points)
    }
    Object.assign(recorded, totals, { shardsStartedAt })
    const { state, verb, job, at } = progress
    if (state === 'Started' || recorded.countedJobs.has(job)) return
    recorded.countedJobs.add(job)
    if (Date.parse(at) >= this.#startedAt) this.#counters.jobEnded({ kind, verb, outcome: state })
  }

  /** Counts a Job as crashed that failed some time ago without a report of its outcome. */
  #countCrash(
    kind: string,
    job: Job,
    {
      progress,
      recorded,
      now,
    }: { progress: Progress | undefined; recorded: RecordedResults; now: Date },
  ): void {
    const { uid = '', labels } = job.metadata
    const finished = finishedCondition(job)
    if (finished?.type !== 'Failed' || recorded.countedJobs.has(uid)) return
    const at = Date.parse(finished.lastTransitionTime ?? '')
    // The final report may still be in transit.
    if (now.getTime() - at < FINAL_REPORT_TIMEOUT_SECONDS * 1000) return
    recorded.countedJobs.add(uid)
    // Reports of later Jobs replaced the report of this Job, so its outcome is unknown.
    const isSuperseded = progress !== undefined && progress.job !== uid
    if (isSuperseded || at < this.#startedAt) return
    this.#counters.jobEnded({ kind, verb: labels?.[LABELS.verb] ?? '', outcome: 'Crashed' })
  }
}

const JOB_CHILD_KIND = 'Job.batch/v1'

function progressTotals({ backup, restore, migration, shards }: Progress): {
  bytes: number
  points: number
  steps: ReadonlyMap<ShardStepKind, number>
} {
  return {
    bytes: backup?.bytes ?? restore?.bytes ?? shards?.bytesMoved ?? 0,
    points: migration?.pointsCopied ?? 0,
    steps: new Map((shards?.finished ?? []).map(({ step, count }) => [step, count])),
  }
}

function jobCounters(registry: Registry): JobCounters {
  const registers = [registry]
  const runs = new Counter({
    name: 'vec_operator_job_runs_total',
    help: 'Finished runs of Jobs, by kind of the resource, verb and outcome: Done, Failed, Refused or Crashed.',
    labelNames: ['kind', 'verb', 'outcome'],
    registers,
  })
  const bytes = new Counter({
    name: 'vec_operator_transferred_bytes_total',
    help: 'Bytes of snapshots, and of replicas of shards, that Jobs reported as moved, by kind of the resource.',
    labelNames: ['kind'],
    registers,
  })
  const points = new Counter({
    name: 'vec_operator_copied_points_total',
    help: 'Points that Jobs reported as copied, by kind of the resource.',
    labelNames: ['kind'],
    registers,
  })
  const steps = new Counter({
    name: 'vec_operator_shard_steps_total',
    help: 'Steps on shards that Jobs reported as finished, by kind of the step.',
    labelNames: ['step'],
    registers,
  })
  // Prometheus detects no increase in a series whose first sample is already 1, so start at 0.
  for (const [kind, verbs] of Object.entries(JOB_VERBS)) {
    for (const verb of verbs) {
      for (const outcome of OUTCOMES) runs.inc({ kind, verb, outcome }, 0)
    }
  }
  for (const kind of ['VecBackup', 'VecRestore', 'VecCluster']) bytes.inc({ kind }, 0)
  points.inc({ kind: 'VecMigration' }, 0)
  for (const step of SHARD_STEPS) steps.inc({ step }, 0)
  return {
    jobEnded: (run) => {
      const isKnown = JOB_VERBS[run.kind]?.includes(run.verb) === true
      runs.inc({ ...run, verb: isKnown ? run.verb : 'other' })
    },
    bytesMoved: (kind, count) => {
      bytes.inc({ kind }, count)
    },
    pointsCopied: (kind, count) => {
      points.inc({ kind }, count)
    },
    stepsFinished: (step, count) => {
      steps.inc({ step }, count)
    },
  }
}
