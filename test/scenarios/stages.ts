/**
 * Coordinates scenarios that disturb the operator. One that stops the service for long lets the others
 * finish first: after an absence Metacontroller pauses for about as long again.
 */
import type { Stage } from './scenario.ts'

export class Stages {
  /** Scenarios that have begun, and neither wait nor are calm. */
  #restless = 0
  readonly #waiting: (() => void)[] = []

  /** For a scenario that begins; `calmed` is called, perhaps more than once, when it disturbs no other. */
  enter(calmed: () => void): Stage {
    let isRestless = true
    this.#restless += 1
    const settle = () => {
      if (isRestless) this.#restless -= 1
      isRestless = false
      if (this.#restless === 0) this.#waiting.splice(0).forEach((goOn) => goOn())
    }
    return {
      quiet: () => {
        const { promise, resolve } = Promise.withResolvers<undefined>()
        this.#waiting.push(() => resolve(undefined))
        settle()
        return promise.then(() => undefined)
      },
      calm: () => {
        settle()
        calmed()
      },
    }
  }
}
