/**
 * How a controller of the embedded world is run: changes become keys, keys are synced one by one, and
 * a sync that fails is tried again. Syncs work on the resources directly and never wait.
 */
import { ApiFailure } from '../api/failure.ts'
import type { Resources } from '../api/resources.ts'
import type { Change } from '../api/store.ts'
import type { ApiObject } from '../client.ts'
import type { Clock } from '../clock.ts'

export interface Controller {
  /** Keys to sync when an object changes or is deleted. */
  keys(object: ApiObject, change: Change['type']): string[]
  /** Syncs one key. `again` asks for another sync after this many milliseconds. */
  sync(key: string, again: (ms: number) => void): void
}

export interface Running {
  busy(): boolean
  stop(): void
}

const FIRST_RETRY_MS = 200
const LONGEST_RETRY_MS = 60_000

/** Starts with every object that is there, as after a restart. */
export function run(resources: Resources, clock: Clock, controller: Controller): Running {
  const queue = new Set<string>()
  const failures = new Map<string, number>()
  const timers = new Map<string, () => void>()
  let scheduled: NodeJS.Immediate | undefined

  const add = (keys: string[]) => {
    for (const key of keys) queue.add(key)
    // Delayed: the writer must finish first, as over a network.
    if (queue.size > 0) scheduled ??= setImmediate(work)
  }
  const later = (key: string, ms: number) => {
    timers.get(key)?.()
    const cancel = clock.setTimeout(() => {
      timers.delete(key)
      add([key])
    }, ms)
    timers.set(key, cancel)
  }
  const work = () => {
    scheduled = undefined
    const keys = [...queue]
    queue.clear()
    for (const key of keys) {
      try {
        controller.sync(key, (ms) => later(key, ms))
        failures.delete(key)
      } catch (error) {
        if (!(error instanceof ApiFailure)) throw error
        const failed = (failures.get(key) ?? 0) + 1
        failures.set(key, failed)
        later(key, Math.min(FIRST_RETRY_MS * 2 ** failed, LONGEST_RETRY_MS))
      }
    }
  }

  const end = resources.store.subscribe(({ object, type }) => add(controller.keys(object, type)))
  for (const kind of resources.kinds.all()) {
    for (const object of resources.store.list(kind)) add(controller.keys(object, 'ADDED'))
  }
  return {
    busy: () => queue.size > 0,
    stop() {
      end()
      clearImmediate(scheduled)
      queue.clear()
      for (const cancel of timers.values()) cancel()
    },
  }
}
