/** Which finished Jobs are still kept, for the sake of their log. */
import { endOf, type Job } from '../crds/kubernetes.ts'
import { secondsSince } from './conditions.ts'
import { runOf } from './job.ts'
import type { Context, Dropped } from './protocol.ts'

/** So many runs of each outcome stay readable. */
const RUNS_KEPT = 3

/** The Jobs to drop: each has ended, its result is in the parent's status, and its time is over. */
export function outlived(
  jobs: Job[],
  isRecorded: (job: Job) => boolean,
  { now, settings }: Context,
): Dropped[] {
  const recorded = jobs.filter(isRecorded)
  const surplus = new Set([...surplusOf(recorded, 'Failed'), ...surplusOf(recorded, 'Complete')])
  // Of one that has not ended, or not said when, nobody knows how old it is.
  const isOld = (job: Job) =>
    secondsSince(endOf(job)?.lastTransitionTime ?? '', now) > settings.historySeconds
  return recorded
    .filter((job) => isOld(job) || surplus.has(job))
    .map((job) => ({
      kind: 'Job',
      name: job.metadata.name,
      reason: isOld(job) ? 'its history time is over' : 'newer runs are kept',
    }))
}

/** All but the newest that ended so. */
function surplusOf(jobs: Job[], outcome: 'Complete' | 'Failed'): Job[] {
  return jobs
    .filter((job) => endOf(job)?.type === outcome)
    .toSorted((one, other) => runOf(other) - runOf(one))
    .slice(RUNS_KEPT)
}
