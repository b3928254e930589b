/**
 * Coordinates what all scenarios share: the service is down as long as any scenario has stopped it,
 * upgrades run one at a time while none has, and restarts of the controllers run one at a time.
 */
import type { World } from '../world/world.ts'

type Faults = World['faults']

/** The faults as one scenario makes them. */
export interface ServiceHold {
  faults: Faults
  /** Brings back what the scenario left away, however it ended. */
  end: () => Promise<void>
}

export class ServiceLock {
  readonly #faults: Faults
  readonly #service = queue()
  readonly #controllers = queue()
  #absence: Absence | undefined

  constructor(faults: Faults) {
    this.#faults = faults
  }

  take(): ServiceHold {
    let held: Absence | undefined
    const start = async () => {
      const absence = held
      held = undefined
      await absence?.leave()
    }
    return {
      faults: {
        ...this.#faults,
        stopService: async () => {
          held ??= this.#join()
          await held.begun
        },
        startService: start,
        upgradeService: (version) => this.#service(() => this.#faults.upgradeService(version)),
        rotateToken: () => this.#service(() => this.#faults.rotateToken()),
        restartControllers: () => this.#controllers(() => this.#faults.restartControllers()),
      },
      end: start,
    }
  }

  /** The absence there is, as long as it is not to end; else another one. */
  #join(): Absence {
    if (this.#absence?.enter() === true) return this.#absence
    this.#absence = new Absence(this.#faults, this.#service)
    return this.#absence
  }
}

/** From the first scenario that stops the service to the last that starts it. */
class Absence {
  readonly begun: Promise<void>
  readonly #ended: Promise<void>
  readonly #last = Promise.withResolvers<undefined>()
  #holders = 1

  constructor(faults: Faults, enqueue: Queue) {
    const { promise, resolve, reject } = Promise.withResolvers<undefined>()
    this.begun = promise
    this.#ended = enqueue(async () => {
      await faults.stopService().then(() => resolve(undefined), reject)
      await this.#last.promise
      await faults.startService()
    })
  }

  /** False once the last holder has left. */
  enter(): boolean {
    if (this.#holders === 0) return false
    this.#holders += 1
    return true
  }

  /** Answers once the service is back, which takes until all have left. */
  async leave(): Promise<void> {
    this.#holders -= 1
    if (this.#holders === 0) this.#last.resolve(undefined)
    await this.#ended
  }
}

type Queue = <Result>(work: () => Promise<Result>) => Promise<Result>

/** One after the other, in the order in which they came; a failure is no hindrance for the next. */
function queue(): Queue {
  let last: Promise<unknown> = Promise.resolve()
  return (work) => {
    const result = last.then(work)
    last = result.catch(() => undefined)
    return result
  }
}
