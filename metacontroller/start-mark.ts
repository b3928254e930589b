/**
 * Start marks: once the service has been well for a minute, each VecCluster that was there before it
 * gets an annotation with the time of the start, one a second. A new mark makes one helm run due
 * (specification: on startup a cluster gets one helm upgrade), spread so that a restart is no stampede.
 */
import type { AnyObject } from '../crds/kubernetes.ts'
import { ANNOTATIONS } from '../crds/names.ts'
import type { Timers } from './timers.ts'

export interface StartMarks {
  startedAt: Date
  /** Every VecCluster the service is responsible for. */
  list(): Promise<AnyObject[]>
  /** Merge-patches one VecCluster; false when it is gone, or is another one by now. */
  patch(cluster: AnyObject, patch: object): Promise<boolean>
  timers: Timers
  log: Log
}

/** The three calls made here on the logger of the service. */
export interface Log {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}

const HEALTHY_MS = 60_000
const BETWEEN_MARKS_MS = 1_000
const AFTER_FAILURE_MS = 30_000

/** Clusters that still need this mark: they were here before the start and are to stay. */
export function unmarked(clusters: AnyObject[], startedAt: Date): AnyObject[] {
  const mark = markOf(startedAt)
  // Kubernetes writes times to the second; what was made in that of the start found no other service.
  const start = startedAt.getTime() - startedAt.getMilliseconds()
  return clusters.filter(({ metadata }) => {
    // What was made since the start was installed by this very release.
    const older = Date.parse(metadata.creationTimestamp ?? '') < start
    const marked = metadata.annotations?.[ANNOTATIONS.startMark] === mark
    return older && !marked && metadata.deletionTimestamp === undefined
  })
}

/** The patch that marks a cluster; its uid makes the API refuse it on a namesake. */
export function markPatch(cluster: AnyObject, startedAt: Date): object {
  return {
    metadata: {
      uid: cluster.metadata.uid,
      annotations: { [ANNOTATIONS.startMark]: markOf(startedAt) },
    },
  }
}

/** Marks in the background until every cluster has its mark; calling what it returns stops that. */
export function startMarking(marks: StartMarks): () => void {
  let stopped = false
  let cancel = later(HEALTHY_MS, pass)

  function later(milliseconds: number, step: () => Promise<void>): () => void {
    return marks.timers.setTimeout(() => {
      step().catch((error: unknown) => {
        marks.log.warn({ err: error }, 'start marks wait: the API cannot be used')
        next(AFTER_FAILURE_MS, pass)
      })
    }, milliseconds)
  }

  function next(milliseconds: number, step: () => Promise<void>): void {
    if (!stopped) cancel = later(milliseconds, step)
  }

  async function pass(): Promise<void> {
    const waiting = unmarked(await marks.list(), marks.startedAt)
    marks.log.info({ clusters: waiting.length }, 'marking clusters after the start')
    await markFirst(waiting)
  }

  async function markFirst(waiting: AnyObject[]): Promise<void> {
    const [cluster, ...rest] = waiting
    if (cluster === undefined || stopped) return
    const done = await marks.patch(cluster, markPatch(cluster, marks.startedAt))
    const { namespace, name } = cluster.metadata
    marks.log.debug({ namespace, name, done }, 'start mark')
    next(BETWEEN_MARKS_MS, () => markFirst(rest))
  }

  return () => {
    stopped = true
    cancel()
  }
}

function markOf(startedAt: Date): string {
  return startedAt.toISOString()
}
