/** Writes Events about resources: each one once, and a limited number per minute and resource. */
import { hostname } from 'node:os'
import { KubernetesError } from '../../crds/contract/errors.ts'
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import { isRecent } from '../../hooks/conditions.ts'
import { MANAGED_BY } from '../../crds/contract/names.ts'
import type { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import { events } from '../../jobs/clients/kubernetes/api-resources.ts'
import type { Log } from '../runtime.ts'

/** Per resource. An update of three nodes fits, and the publication of a key right after it. */
export const MAX_EVENTS_PER_MINUTE = 20
/** Log message for an Event that was not written. */
export const RATE_LIMITED = 'event held back: too many in a minute'
const MINUTE_MS = 60_000

interface EventDependencies {
  kubernetes: Kubernetes
  log: Log
}

/** Events only inform users; nothing depends on whether one was written. */
export function eventWriter({
  kubernetes,
  log,
}: EventDependencies): (event: KubernetesEvent) => Promise<void> {
  const limiter = new EventRateLimiter()
  return async (event) => {
    const { reason, involvedObject, at, metadata } = event
    if (limiter.count(involvedObject.uid, at) >= MAX_EVENTS_PER_MINUTE) {
      // The condition has the same information and remains.
      const { kind, namespace, name } = involvedObject
      log.info({ kind, namespace, name, reason }, RATE_LIMITED)
      return
    }
    try {
      await kubernetes.create(events(metadata.namespace), toApiObject(event))
      limiter.record(involvedObject.uid, at)
    } catch (error) {
      // The name is derived from the content: a repeated Event already exists.
      if (error instanceof KubernetesError && error.status === 409) return
      log.warn({ err: error, namespace: metadata.namespace, reason }, 'writing event failed')
    }
  }
}

function toApiObject({ metadata, at, ...rest }: KubernetesEvent) {
  const component = MANAGED_BY
  return {
    apiVersion: 'v1',
    kind: 'Event',
    metadata,
    ...rest,
    firstTimestamp: at,
    lastTimestamp: at,
    count: 1,
    source: { component },
    reportingComponent: component,
    reportingInstance: hostname(),
  }
}

/** Times of the Events written within the last minute, by the uid of the resource. */
class EventRateLimiter {
  readonly #times = new Map<string, number[]>()

  count(uid: string, at: string): number {
    const now = Date.parse(at)
    return this.#times.get(uid)?.filter((time) => isRecent(time, MINUTE_MS, now)).length ?? 0
  }

  record(uid: string, at: string): void {
    const now = Date.parse(at)
    const isOfMinute = (time: number) => isRecent(time, MINUTE_MS, now)
    const times = (this.#times.get(uid) ?? []).filter(isOfMinute)
    // Reinsert the key so that the map is in order of the latest Event; the loop stops at the first
    // entry that is still recent.
    this.#times.delete(uid)
    this.#times.set(uid, [...times, now])
    for (const [other, times] of this.#times) {
      if (times.some(isOfMinute)) return
      this.#times.delete(other)
    }
  }
}
