/**
 * Start marks: once the service has been well for a minute, each VecCluster that was there before it
 * gets an annotation with the time of the start, one a second. A new mark makes one helm run due: on startup
 * a cluster gets one helm upgrade, spread over time. One that was applied since the start needs none, nor does
 * one that was marked for the same release within the last hour.
 */
import { KubernetesError } from '../crds/errors.ts'
import type { AnyObject } from '../crds/kubernetes.ts'
import { ANNOTATIONS } from '../crds/names.ts'
import type { Timers } from './timers.ts'

/** Which start of the service. */
export interface Start {
  startedAt: Date
  /** Release of the operator. */
  version: string
}

export interface StartMarks<Cluster> extends Start {
  /** Every VecCluster the service is responsible for. */
  list(): Promise<Cluster[]>
  /** Merge-patches one VecCluster; false when it is gone, or is another one by now. */
  patch(cluster: Cluster, patch: object): Promise<boolean>
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
/** A mark of the same release is good for so long. */
const MARK_LASTS_MS = 3_600_000
/** So many are marked by one list. */
const LISTED_FOR = 20

/** A cluster as far as its start mark depends on it. */
export interface MarkedCluster {
  metadata: AnyObject['metadata']
  /** When a helm run was applied last. */
  appliedAt?: string
}

/** Clusters that still need this mark: they were here before the start and are to stay. */
export function unmarked<Cluster extends MarkedCluster>(
  clusters: Cluster[],
  start: Start,
): Cluster[] {
  const { startedAt } = start
  // Kubernetes writes times to the second; what was made in that of the start found no other service.
  const second = startedAt.getTime() - startedAt.getMilliseconds()
  return clusters.filter(({ metadata, appliedAt = '' }) => {
    // What was made since the start was installed by this very release, and so was what was applied since.
    const older = Date.parse(metadata.creationTimestamp ?? '') < second
    const isDone = Date.parse(appliedAt) >= second
    const mark = metadata.annotations?.[ANNOTATIONS.startMark]
    return older && !isDone && !isRecent(mark, start) && metadata.deletionTimestamp === undefined
  })
}

/** A service that ends again and again starts no helm run each time; one of another release does. */
function isRecent(mark: string | undefined, { startedAt, version }: Start): boolean {
  const [time = '', release] = (mark ?? '').split('/')
  return release === version && startedAt.getTime() - Date.parse(time) < MARK_LASTS_MS
}

/** The patch that marks a cluster; its uid makes the API refuse it on a namesake. */
export function markPatch({ metadata }: MarkedCluster, start: Start): object {
  return {
    metadata: { uid: metadata.uid, annotations: { [ANNOTATIONS.startMark]: markOf(start) } },
  }
}

/** Marks in the background until every cluster has its mark; calling what it returns stops that. */
export function startMarking<Cluster extends MarkedCluster>(
  marks: StartMarks<Cluster>,
): () => void {
  const { log } = marks
  /** By uid, those that refuse their mark: the others do not wait for them. */
  const refused = new Set<string | undefined>()
  let stopped = false
  let cancel = later(HEALTHY_MS, pass)

  function later(milliseconds: number, step: () => Promise<void>): () => void {
    return marks.timers.setTimeout(() => {
      step().catch((error: unknown) => {
        log.warn({ err: error }, 'start marks wait: the API cannot be used')
        next(AFTER_FAILURE_MS, pass)
      })
    }, milliseconds)
  }

  function next(milliseconds: number, step: () => Promise<void>): void {
    if (!stopped) cancel = later(milliseconds, step)
  }

  async function pass(): Promise<void> {
    const found = unmarked(await marks.list(), marks)
    const waiting = found.filter(({ metadata }) => !refused.has(metadata.uid))
    log.info({ clusters: waiting.length }, 'marking clusters after the start')
    await markFirst(waiting.slice(0, LISTED_FOR))
  }

  async function markFirst([cluster, ...rest]: Cluster[]): Promise<void> {
    if (cluster === undefined || stopped) return
    await mark(cluster)
    // A list grows old: what was applied meanwhile needs no mark any more.
    next(BETWEEN_MARKS_MS, rest.length === 0 ? pass : () => markFirst(rest))
  }

  async function mark(cluster: Cluster): Promise<void> {
    const { namespace, name, uid } = cluster.metadata
    try {
      const done = await marks.patch(cluster, markPatch(cluster, marks))
      log.debug({ namespace, name, done }, 'start mark')
      if (!done) refused.add(uid)
    } catch (error) {
      if (!isRefusal(error)) throw error
      refused.add(uid)
      log.warn({ err: error, namespace, name }, 'start mark refused: no helm run after this start')
    }
  }

  return () => {
    stopped = true
    cancel()
  }
}

/** The API server, or admission, does not allow it of this cluster; not that it cannot be used at all. */
function isRefusal(error: unknown): boolean {
  if (!(error instanceof KubernetesError) || error.status === undefined) return false
  const { status } = error
  return status >= 400 && status < 500 && ![401, 408, 429].includes(status)
}

function markOf({ startedAt, version }: Start): string {
  return `${startedAt.toISOString()}/${version}`
}
