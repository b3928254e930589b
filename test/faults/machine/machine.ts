/**
 * A simulated machine: this process, made to have a clock, dice, a network and programs of its own.
 * Everything that runs on it is the real code; what it does depends on a seed and on nothing else.
 */
import { Dice, installDice } from './dice.ts'
import { installNative } from './native.ts'
import { installNetwork, type Network } from './network.ts'
import { installPrograms, type Program, type Watch } from './programs.ts'
import { installTime, MachineClock } from './time.ts'

export interface Machine {
  readonly network: Network
  /** Asked before each program that is started. */
  watchPrograms(watch: Watch): void
  /** A new clock, at the same date for every seed, new dice, and a network with nobody in it. */
  reset(seed: number): { clock: MachineClock; dice: Dice }
}

const START = new Date('2026-03-01T00:00:00Z')

/** For good: there is no way back to the real machine in this process. */
export function installMachine(programs: Record<string, Program>): Machine {
  const time = installTime()
  const dice = installDice()
  const network = installNetwork()
  const started = installPrograms(programs)
  installNative()
  return {
    network,
    watchPrograms: (watch) => started.watch(watch),
    reset(seed) {
      const clock = new MachineClock(START)
      time.set(clock)
      network.reset()
      // What chance the machine has is not what the faults are drawn from.
      dice.set(new Dice(seed ^ 0x5eed))
      return { clock, dice: new Dice(seed) }
    },
  }
}
