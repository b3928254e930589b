/** Which finished Jobs are still kept, for the sake of their log. */
import { endOf, type Job } from '../crds/kubernetes.ts'
import { secondsSince } from './conditions.ts'
import { runOf } from './job.ts'
import type { Context, Dropped } from './protocol.ts'

/** So many failed helm runs stay readable. */
const FAILED_RUNS_KEPT = 3

/** The Jobs to drop: each has ended, its result is in the parent's status, and its time is over. */
export function outlived(
  jobs: Job[],
  isRecorded: (job: Job) => boolean,
  context: Context,
): Dropped[] {
  const ended = jobs.filter((job) => endOf(job) !== undefined && isRecorded(job))
  const failed = ended
    .filter((job) => endOf(job)?.type === 'Failed')
    .toSorted((one, other) => runOf(other) - runOf(one))
  const surplus = new Set(failed.slice(FAILED_RUNS_KEPT))
  return ended.flatMap(({ ...job }) => {
    const end = endOf(job)?.lastTransitionTime
    const old =
      end !== undefined && secondsSince(end, context.now) > context.settings.historySeconds
    const reason = old ? 'its history time is over' : 'newer failed runs are kept'
    return old || [...surplus].some(({ metadata }) => metadata.name === job.metadata.name)
      ? [{ kind: 'Job', name: job.metadata.name, reason }]
      : []
  })
}
