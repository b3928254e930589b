/** Writes Events about resources: each of them once, and never more than a few about one in a minute. */
import { hostname } from 'node:os'
import { KubernetesError } from '../../crds/contract/errors.ts'
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import { MANAGED_BY } from '../../crds/contract/names.ts'
import type { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import { events } from './api-resources.ts'
import type { Log } from '../startup-upgrades.ts'

/** About one object: two changes of a spec, each handed to a Job, applied, rolled out and settled. */
export const MAX_EVENTS_PER_MINUTE = 10
/** How the log tells of one that was not written. */
export const RATE_LIMITED = 'event held back: too many in a minute'
const MINUTE_MS = 60_000

interface EventDependencies {
  kubernetes: Kubernetes
  log: Log
}

/** An Event tells people what happened; nothing may depend on whether it was written. */
export function eventWriter({
  kubernetes,
  log,
}: EventDependencies): (event: KubernetesEvent) => Promise<void> {
  const limiter = new EventRateLimiter()
  return async (event) => {
    const { reason, involvedObject, at, metadata } = event
    if (limiter.count(involvedObject.uid, at) >= MAX_EVENTS_PER_MINUTE) {
      // The condition says the same, and stays.
      const { kind, namespace, name } = involvedObject
      log.info({ kind, namespace, name, reason }, RATE_LIMITED)
      return
    }
    try {
      await kubernetes.create(events(metadata.namespace), toApiObject(event))
      limiter.record(involvedObject.uid, at)
    } catch (error) {
      // Its name is derived from what it tells: a repeat finds it there.
      if (error instanceof KubernetesError && error.status === 409) return
      log.warn({ err: error, namespace: metadata.namespace, reason }, 'event lost')
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

/** When Events were written within the last minute, by the uid of what they are about. */
class EventRateLimiter {
  readonly #times = new Map<string, number[]>()

  count(uid: string, at: string): number {
    return this.#times.get(uid)?.filter((time) => Date.parse(at) - time < MINUTE_MS).length ?? 0
  }

  record(uid: string, at: string): void {
    const now = Date.parse(at)
    const isRecent = (time: number) => now - time < MINUTE_MS
    const times = (this.#times.get(uid) ?? []).filter(isRecent)
    // Who was told of last stands last: the search ends at the first that still counts.
    this.#times.delete(uid)
    this.#times.set(uid, [...times, now])
    for (const [other, times] of this.#times) {
      if (times.some(isRecent)) return
      this.#times.delete(other)
    }
  }
}
