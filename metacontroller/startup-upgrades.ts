/**
 * Start marks: one minute after the start of the service, it begins to annotate each VecCluster
 * that is older than the service with the time of the start, one cluster per second. A new mark
 * makes one helm run due, so that each cluster is upgraded once after a start and the upgrades are
 * spread over time. A cluster that was applied since the start, or was marked for the same release
 * within the last hour, gets no mark.
 */
import { KubernetesError } from '../crds/contract/errors.ts'
import type { AnyObject } from '../crds/kubernetes.ts'
import { ANNOTATIONS, readAnnotation } from '../crds/contract/names.ts'
import { isFromTheFuture } from '../hooks/conditions.ts'
import type { Log, Timers } from './runtime.ts'

/** Identifies one start of the service. */
export interface ServiceStart {
  startedAt: Date
  /** Release of the operator. */
  version: string
}

export interface StartupMarkOptions<Cluster> extends ServiceStart {
  /** Lists the VecClusters in the namespaces of the service. */
  list(): Promise<Cluster[]>
  /**
   * Merge-patches one VecCluster; false if it cannot be patched, for example because it is gone or
   * was replaced by another of the same name.
   */
  patch(cluster: Cluster, patch: object): Promise<boolean>
  now: () => Date
  timers: Timers
  log: Log
}

const STABLE_AFTER_MS = 60_000
const MARK_INTERVAL_MS = 1_000
const RETRY_DELAY_MS = 30_000
/** A mark of the same release is valid for this long. */
const MARK_TTL_MS = 3_600_000
/** What is further in the future, a clock recorded that was ahead: it does not count. */
const CLOCK_TOLERANCE_MS = 60_000
/** Maximum number of clusters marked per list call. */
const MARKS_PER_LIST = 20

/** The fields of a VecCluster that decide whether it is marked. */
export interface MarkableCluster {
  metadata: AnyObject['metadata']
  /** Time of the latest applied helm run. */
  appliedAt?: string
}

/** Clusters that still need a mark: older than the start and not being deleted. */
export function clustersToMark<Cluster extends MarkableCluster>(
  clusters: Cluster[],
  start: ServiceStart,
  now: Date,
): Cluster[] {
  const { startedAt } = start
  const isAhead = (time: string) =>
    isFromTheFuture(Date.parse(time), now.getTime(), CLOCK_TOLERANCE_MS)
  // Kubernetes timestamps have a resolution of one second. A cluster created in the second of the
  // start was not handled by an earlier service.
  const startSecond = startedAt.getTime() - startedAt.getMilliseconds()
  return clusters.filter(({ metadata, appliedAt = '' }) => {
    // A cluster that was created or applied since the start already has this release.
    const isOlder = Date.parse(metadata.creationTimestamp ?? '') < startSecond
    const isApplied = Date.parse(appliedAt) >= startSecond && !isAhead(appliedAt)
    const mark = readAnnotation(metadata.annotations, ANNOTATIONS.restartedAt) ?? ''
    const isMarked =
      mark === formatMark(start) || (isRecent(mark, start) && !isAhead(mark.split('/')[0] ?? ''))
    return isOlder && !isApplied && !isMarked && metadata.deletionTimestamp === undefined
  })
}

/** A service that restarts repeatedly must not start a helm run each time; a new release must. */
function isRecent(mark: string, { startedAt, version }: ServiceStart): boolean {
  const [time = '', release] = mark.split('/')
  return release === version && startedAt.getTime() - Date.parse(time) < MARK_TTL_MS
}

/**
 * The patch that sets the mark; the uid makes the API server reject it for another resource of the
 * same name.
 */
export function markPatch({ metadata }: MarkableCluster, start: ServiceStart): object {
  return {
    metadata: { uid: metadata.uid, annotations: { [ANNOTATIONS.restartedAt]: formatMark(start) } },
  }
}

/** Marks clusters in the background until each has its mark; the returned function stops it. */
export function markClustersOnStartup<Cluster extends MarkableCluster>(
  options: StartupMarkOptions<Cluster>,
): () => void {
  const { log } = options
  /** uids of clusters whose patch was rejected, so that they do not block the others. */
  const rejected = new Set<string | undefined>()
  let stopped = false
  let cancel = runAfter(STABLE_AFTER_MS, markAll)

  function runAfter(milliseconds: number, task: () => Promise<void>): () => void {
    return options.timers.setTimeout(() => {
      task().catch((error: unknown) => {
        log.warn({ err: error }, 'start marks delayed: API not available')
        scheduleNext(RETRY_DELAY_MS, markAll)
      })
    }, milliseconds)
  }

  function scheduleNext(milliseconds: number, task: () => Promise<void>): void {
    if (!stopped) cancel = runAfter(milliseconds, task)
  }

  async function markAll(): Promise<void> {
    const candidates = clustersToMark(await options.list(), options, options.now())
    const pending = candidates.filter(({ metadata }) => !rejected.has(metadata.uid))
    log.info({ clusters: pending.length }, 'marking clusters after the start')
    await markFirst(pending.slice(0, MARKS_PER_LIST))
  }

  async function markFirst([cluster, ...rest]: Cluster[]): Promise<void> {
    if (cluster === undefined || stopped) return
    await mark(cluster)
    // The list becomes outdated: a cluster applied in the meantime needs no mark any more.
    scheduleNext(MARK_INTERVAL_MS, rest.length === 0 ? markAll : () => markFirst(rest))
  }

  async function mark(cluster: Cluster): Promise<void> {
    const { namespace, name, uid } = cluster.metadata
    try {
      const done = await options.patch(cluster, markPatch(cluster, options))
      log.debug({ namespace, name, done }, 'start mark')
      if (!done) rejected.add(uid)
    } catch (error) {
      if (!isRejection(error)) throw error
      rejected.add(uid)
      log.warn(
        { err: error, namespace, name },
        'writing start mark failed: no helm run after this start',
      )
    }
  }

  return () => {
    stopped = true
    cancel()
  }
}

/**
 * Whether the API server or admission rejects the patch for this cluster, as opposed to a failure
 * that affects all calls.
 */
function isRejection(error: unknown): boolean {
  if (!(error instanceof KubernetesError) || error.status === undefined) return false
  const { status } = error
  return status >= 400 && status < 500 && ![401, 408, 429].includes(status)
}

function formatMark({ startedAt, version }: ServiceStart): string {
  return `${startedAt.toISOString()}/${version}`
}
