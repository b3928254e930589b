/** What can happen to a Job in a small world: it reports, ends, crashes, and is deleted. */
import { parseProgress, type Progress } from '../../crds/contract/job.ts'
import type { Job } from '../../crds/kubernetes.ts'
import { ANNOTATIONS, LABELS } from '../../crds/contract/names.ts'
import { isUnfinished, runNumber } from '../../hooks/request.ts'
import { planHash } from '../../hooks/job-watch.ts'
import type { Step } from './explore.ts'
import { at, beginEnd, edit, ownJobs, remove, type Small, type SmallWorld } from './small-world.ts'
import { striking } from './steps.ts'

/** Does the work of one kind's Jobs up to a state. Returns the fields that its report adds. */
export type Work = (world: SmallWorld, job: Job, state: Progress['state']) => Partial<Progress>

export interface JobContext {
  parent: string
  work: Work
  /** The caches are current. If not, a Job step is a strike: it takes seconds, and a cache seldom lags that long. */
  isAllSeen: boolean
}

/** Every step of every Job that has not ended. */
export function jobSteps(world: SmallWorld, context: JobContext): Step<SmallWorld>[] {
  return ownJobs(world, context.parent)
    .filter(isUnfinished)
    .flatMap((job) => stepsOf(job, world, context))
}

function stepsOf(
  job: Job,
  world: SmallWorld,
  { parent, work, isAllSeen }: JobContext,
): Step<SmallWorld>[] {
  const { name, deletionTimestamp } = job.metadata
  const reported = reportedState(world, parent, job)
  const step = (what: string, take: (world: SmallWorld) => void) => ({
    name: `${name} ${what}`,
    take: async (to: SmallWorld) => take(to),
  })
  const reports = (state: Progress['state']) => (to: SmallWorld) =>
    report(to, { parent, job, state, work })
  const end = (type: 'Complete' | 'Failed') => (to: SmallWorld) => ended(to, job, type)
  const slow = (one: Step<SmallWorld>) => (isAllSeen ? [one] : striking(world, 'lags', one))
  const isRefusedOrFailed = reported === 'Failed' || reported === 'Refused'
  return [
    ...(reported === undefined ? slow(step('starts', reports('Started'))) : []),
    ...(reported === 'Started'
      ? [
          ...slow(step('is done', reports('Done'))),
          ...striking(world, 'failures', step('fails', reports('Failed'))),
          ...striking(world, 'rejections', step('refuses', reports('Refused'))),
        ]
      : []),
    ...(reported === 'Done' ? [step('ends', end('Complete'))] : []),
    ...(isRefusedOrFailed
      ? [step('ends without success', end('Failed'))]
      : striking(world, 'crashes', step('crashes for good', end('Failed')))),
    ...(deletionTimestamp === undefined
      ? striking(
          world,
          'stops',
          step('is deleted by hand', (to) => beginEnd(to, `Job/${name}`)),
        )
      : [step('is gone', (to) => remove(to, `Job/${name}`))]),
  ]
}

export function hasReported(world: SmallWorld, parent: string, job: Job): boolean {
  return reportedState(world, parent, job) !== undefined
}

function reportedState(world: SmallWorld, parent: string, job: Job): Progress['state'] | undefined {
  const progress = progressIn(world.live[parent])
  return progress?.job === job.metadata.uid ? progress?.state : undefined
}

function progressIn(parent: Small | undefined): Progress | undefined {
  const { annotations, uid = '' } = parent?.metadata ?? {}
  return parseProgress(annotations?.[ANNOTATIONS.progress], uid)
}

interface JobReport {
  parent: string
  job: Job
  state: Progress['state']
  work: Work
}

/** Writes the report as jobs/reporter.ts does, which keeps `applied` of the last report. */
function report(world: SmallWorld, { parent, job, state, work }: JobReport): void {
  const found = world.live[parent]
  if (found === undefined) return
  const before = progressIn(found)
  const progress: Progress = {
    ...(before?.applied !== undefined && { applied: before.applied }),
    ...(before?.shards !== undefined && { shards: before.shards }),
    uid: found.metadata.uid ?? '',
    verb: job.metadata.labels?.[LABELS.verb] ?? '',
    run: runNumber(job),
    job: job.metadata.uid ?? '',
    runner: 'pod',
    plan: planHash(job) ?? '',
    state,
    at: at(world),
    startedAt: at(world),
    ...work(world, job, state),
  }
  edit(world, parent, ({ metadata, ...rest }) => ({
    ...rest,
    metadata: {
      ...metadata,
      annotations: { ...metadata.annotations, [ANNOTATIONS.progress]: JSON.stringify(progress) },
    },
  }))
}

function ended(world: SmallWorld, { metadata }: Job, type: 'Complete' | 'Failed'): void {
  const status = {
    ...(type === 'Failed' && { failed: 1 }),
    conditions: [{ type, status: 'True', lastTransitionTime: at(world) }],
  }
  edit(world, `Job/${metadata.name}`, (found) => ({ ...found, status }))
}
