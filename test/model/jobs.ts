/** What can happen to a Job in a small world: it tells of itself, ends, crashes, and goes. */
import { parseProgress, type Progress } from '../../crds/command.ts'
import type { Job } from '../../crds/kubernetes.ts'
import { ANNOTATIONS, LABELS } from '../../crds/names.ts'
import { planOf, runOf } from '../../hooks/job.ts'
import type { Step } from './explore.ts'
import { remove, touch, unfinished, type Small, type SmallWorld } from './small-world.ts'

/** What a report of the end tells of the work of one kind, and what the work leaves. */
export type Work = (world: SmallWorld, job: Job, state: 'Done' | 'Failed') => Partial<Progress>

/** Every step of every Job that has not ended. */
export function jobSteps(world: SmallWorld, parent: string, work: Work): Step<SmallWorld>[] {
  return unfinished(world).flatMap((job) => {
    const { name } = job.metadata
    const told = toldBy(world, parent, job)
    const step = (what: string, take: (world: SmallWorld) => void) => ({
      name: `${name} ${what}`,
      take: async (to: SmallWorld) => take(to),
    })
    const tell = (state: Progress['state']) => (to: SmallWorld) =>
      report(to, { parent, job, state, work })
    const end = (type: 'Complete' | 'Failed') => (to: SmallWorld) => ended(to, job, type)
    return [
      ...(told === undefined ? [step('starts', tell('Started'))] : []),
      ...(told === 'Started' ? [step('is done', tell('Done')), step('fails', tell('Failed'))] : []),
      told === 'Done' ? step('ends', end('Complete')) : step('ends without success', end('Failed')),
      ...(job.metadata.deletionTimestamp === undefined
        ? []
        : [step('is gone', (to) => remove(to, `Job/${name}`))]),
    ]
  })
}

function toldBy(world: SmallWorld, parent: string, job: Job): Progress['state'] | undefined {
  const progress = progressIn(world.live[parent])
  return progress?.job === job.metadata.uid ? progress?.state : undefined
}

function progressIn(parent: Small | undefined): Progress | undefined {
  const { annotations, uid = '' } = parent?.metadata ?? {}
  return parseProgress(annotations?.[ANNOTATIONS.progress], uid)
}

interface Telling {
  parent: string
  job: Job
  state: Progress['state']
  work: Work
}

/** As jobs/report.ts writes it: what is carried over stays. */
function report(world: SmallWorld, { parent, job, state, work }: Telling): void {
  const found = world.live[parent]
  if (found === undefined) return
  const before = progressIn(found)
  const at = new Date(world.now).toISOString()
  const progress: Progress = {
    ...(before?.applied !== undefined && { applied: before.applied }),
    uid: found.metadata.uid ?? '',
    verb: job.metadata.labels?.[LABELS.verb] ?? '',
    run: runOf(job),
    job: job.metadata.uid ?? '',
    runner: 'pod',
    plan: planOf(job) ?? '',
    state,
    at,
    startedAt: at,
    ...(state === 'Done' || state === 'Failed' ? work(world, job, state) : {}),
  }
  const text = JSON.stringify(progress)
  found.metadata.annotations = { ...found.metadata.annotations, [ANNOTATIONS.progress]: text }
  touch(world, found)
}

function ended(world: SmallWorld, { metadata }: Job, type: 'Complete' | 'Failed'): void {
  const found = world.live[`Job/${metadata.name}`]
  if (found === undefined) return
  const lastTransitionTime = new Date(world.now).toISOString()
  found.status = {
    ...(type === 'Failed' && { failed: 1 }),
    conditions: [{ type, status: 'True', lastTransitionTime }],
  }
  touch(world, found)
}
