/** Healthy requests while the service is attacked: each is answered, and the process stays below the memory of its pod. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { Attack } from './attack.ts'
import { memoryLimit, MIB, type Ground } from './ground.ts'
import { requestHealthy } from './healthy.ts'

/** The least time between two requests. */
const PAUSE_MS = 50

/** Sends one healthy request after the other until it is stopped. */
export class Patient {
  readonly #url: string
  readonly #stopping = new AbortController()
  readonly #ended: Promise<void>
  #statuses: (number | string)[] = []

  constructor({ url }: { url: string }) {
    this.#url = url
    this.#ended = this.#run()
  }

  /** Status codes of all requests since this was last called, the one that is being sent included. */
  async statuses(): Promise<(number | string)[]> {
    const before = this.#statuses.length
    // The first to end may have been sent before the attack; the one after it was not.
    while (this.#statuses.length < before + 2) await sleep(PAUSE_MS)
    return this.#statuses.splice(0)
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#ended
  }

  async #run(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      this.#statuses.push(await requestHealthy(this.#url))
      await sleep(PAUSE_MS)
    }
  }
}

/** What the service had to do all the time; how long an answer takes is measured by the bench. */
export async function stillServes(t: Test, ground: Ground, patient: Patient): Promise<void> {
  const statuses = await patient.statuses()
  t.strictSame(
    statuses.filter((status) => status !== 200),
    [],
    `${statuses.length} healthy hooks are answered`,
  )
  t.equal((await fetch(`${ground.url}/healthz`)).status, 200)
  const peak = ground.peak()
  t.ok(peak > 0 && peak < memoryLimit(), `${Math.round(peak / MIB)} MiB are below the limit`)
}

/** A test for each attack: the service stays alive and serves while it lasts, and when it has ended. */
export function showAttacks(t: Test, attacks: Attack[], ground: Ground, patient: Patient): void {
  for (const { title, begin } of attacks) {
    void t.test(title, async (t) => {
      const { problems, end } = await begin(ground)
      t.strictSame(problems, [])
      t.ok(ground.isAlive())
      await stillServes(t, ground, patient)
      if (end === undefined) return
      await end()
      await stillServes(t, ground, patient)
    })
  }
}
