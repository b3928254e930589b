/**
 * Start marks: once the service has been well for a minute, each VecCluster that was there before it
 * gets an annotation with the time of the start, one a second. A new mark makes one helm run due: on startup
 * a cluster gets one helm upgrade, spread over time. One that was applied since the start needs none, nor does
 * one that was marked for the same release within the last hour.
 */
import { KubernetesError } from '../crds/contract/errors.ts'
import type { AnyObject } from '../crds/kubernetes.ts'
import { ANNOTATIONS } from '../crds/contract/names.ts'
import type { Timers } from './timers.ts'

/** Which start of the service. */
export interface ServiceStart {
  startedAt: Date
  /** Release of the operator. */
  version: string
}

export interface StartupMarkOptions<Cluster> extends ServiceStart {
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

const STABLE_AFTER_MS = 60_000
const MARK_INTERVAL_MS = 1_000
const RETRY_DELAY_MS = 30_000
/** A mark of the same release is good for so long. */
const MARK_TTL_MS = 3_600_000
/** So many are marked by one list. */
const MARKS_PER_LIST = 20

/** A cluster as far as its start mark depends on it. */
export interface MarkableCluster {
  metadata: AnyObject['metadata']
  /** When a helm run was applied last. */
  appliedAt?: string
}

/** Clusters that still need this mark: they were here before the start and are to stay. */
export function clustersToMark<Cluster extends MarkableCluster>(
  clusters: Cluster[],
  start: ServiceStart,
): Cluster[] {
  const { startedAt } = start
  // Kubernetes writes times to the second; what was made in that of the start found no other service.
  const startSecond = startedAt.getTime() - startedAt.getMilliseconds()
  return clusters.filter(({ metadata, appliedAt = '' }) => {
    // What was made since the start was installed by this very release, and so was what was applied since.
    const isOlder = Date.parse(metadata.creationTimestamp ?? '') < startSecond
    const isApplied = Date.parse(appliedAt) >= startSecond
    const mark = metadata.annotations?.[ANNOTATIONS.startMark]
    return (
      isOlder && !isApplied && !isRecent(mark, start) && metadata.deletionTimestamp === undefined
    )
  })
}

/** A service that ends again and again starts no helm run each time; one of another release does. */
function isRecent(mark: string | undefined, { startedAt, version }: ServiceStart): boolean {
  const [time = '', release] = (mark ?? '').split('/')
  return release === version && startedAt.getTime() - Date.parse(time) < MARK_TTL_MS
}

/** The patch that marks a cluster; its uid makes the API refuse it on a namesake. */
export function markPatch({ metadata }: MarkableCluster, start: ServiceStart): object {
  return {
    metadata: { uid: metadata.uid, annotations: { [ANNOTATIONS.startMark]: formatMark(start) } },
  }
}

/** Marks in the background until every cluster has its mark; calling what it returns stops that. */
export function markClustersOnStartup<Cluster extends MarkableCluster>(
  options: StartupMarkOptions<Cluster>,
): () => void {
  const { log } = options
  /** By uid, those that refuse their mark: the others do not wait for them. */
  const rejected = new Set<string | undefined>()
  let stopped = false
  let cancel = runAfter(STABLE_AFTER_MS, markAll)

  function runAfter(milliseconds: number, task: () => Promise<void>): () => void {
    return options.timers.setTimeout(() => {
      task().catch((error: unknown) => {
        log.warn({ err: error }, 'start marks wait: the API cannot be used')
        scheduleNext(RETRY_DELAY_MS, markAll)
      })
    }, milliseconds)
  }

  function scheduleNext(milliseconds: number, task: () => Promise<void>): void {
    if (!stopped) cancel = runAfter(milliseconds, task)
  }

  async function markAll(): Promise<void> {
    const candidates = clustersToMark(await options.list(), options)
    const pending = candidates.filter(({ metadata }) => !rejected.has(metadata.uid))
    log.info({ clusters: pending.length }, 'marking clusters after the start')
    await markFirst(pending.slice(0, MARKS_PER_LIST))
  }

  async function markFirst([cluster, ...rest]: Cluster[]): Promise<void> {
    if (cluster === undefined || stopped) return
    await mark(cluster)
    // A list grows old: what was applied meanwhile needs no mark any more.
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
      log.warn({ err: error, namespace, name }, 'start mark refused: no helm run after this start')
    }
  }

  return () => {
    stopped = true
    cancel()
  }
}

/** The API server, or admission, does not allow it of this cluster; not that it cannot be used at all. */
function isRejection(error: unknown): boolean {
  if (!(error instanceof KubernetesError) || error.status === undefined) return false
  const { status } = error
  return status >= 400 && status < 500 && ![401, 408, 429].includes(status)
}

function formatMark({ startedAt, version }: ServiceStart): string {
  return `${startedAt.toISOString()}/${version}`
}
