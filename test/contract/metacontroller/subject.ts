/**
 * The subject of the cases: our loop or the real Metacontroller. Both run a CompositeController against an
 * API server, and both have a time that can be let pass.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { ApiClient } from '../../world/client.ts'
import { ManualClock, systemClock, type Clock } from '../../world/clock.ts'
import { startLoop } from '../../world/loop/index.ts'

export interface Subject {
  readonly api: ApiClient
  now(): number
  /** Lets so much time pass, and everything happen that is due meanwhile. */
  pass(seconds: number): Promise<void>
  /** Works on what the controller selects until it is stopped. */
  run(controller: object): Promise<Running>
}

export interface Running {
  stop(): Promise<void>
  /** The process ended unexpectedly. */
  crashed(): boolean
}

/** Our loop; its time is moved where the API server it runs against keeps still meanwhile. */
export function loopSubject(api: ApiClient, clock: Clock = systemClock): Subject {
  let loop: ReturnType<typeof startLoop> | undefined
  return {
    api,
    now: () => clock.now().getTime(),
    pass: (seconds) =>
      clock instanceof ManualClock
        ? passMoved(clock, seconds, () => loop?.idle() ?? true)
        : delay(seconds * 1000),
    run: async (controller) => {
      const started = startLoop({ api, controllers: [controller], clock })
      loop = started
      return {
        stop: () => started.stop(),
        crashed: () => started.failure() !== undefined,
      }
    },
  }
}

/** Goes from one timer to the next, and lets everything come to rest in between. */
async function passMoved(clock: ManualClock, seconds: number, idle: () => boolean): Promise<void> {
  const end = clock.now().getTime() + seconds * 1000
  for (;;) {
    await rest(idle)
    const now = clock.now().getTime()
    clock.advance(Math.min(clock.nextTimerAt() ?? end, end) - now)
    if (now >= end) return
  }
}

const LOOKS = 3
const LOOK_MS = 4
const MOST_LOOKS = 500

/** Idle several times in a row: a watch event may be in transit from the API. */
async function rest(idle: () => boolean): Promise<void> {
  let quiet = 0
  for (let looks = 0; quiet < LOOKS && looks < MOST_LOOKS; looks += 1) {
    await delay(LOOK_MS)
    quiet = idle() ? quiet + 1 : 0
  }
}
