/**
 * A simulated machine: this process with a simulated clock, random numbers, network and programs.
 * The code that runs on it is the real code; its behaviour depends only on the seed.
 */
import { Dice, installDice } from './dice.ts'
import { installNative } from './native.ts'
import { installNetwork, type Network } from './network.ts'
import { installPrograms, type Program, type Watch } from './programs.ts'
import { installTime, MachineClock } from './time.ts'

export interface Machine {
  readonly network: Network
  /** Sets a function that decides whether a program may start. */
  watchPrograms(watch: Watch): void
  /** Starts again with a new clock, at the same date for every seed, new dice, and an empty network. */
  reset(seed: number): { clock: MachineClock; dice: Dice }
}

const START = new Date('2026-03-01T00:00:00Z')

/** Installs the simulated machine in this process. It cannot be uninstalled. */
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
      // The machine has its own dice: what the code draws must not change which faults are drawn.
      dice.set(new Dice(seed ^ 0x5eed))
      return { clock, dice: new Dice(seed) }
    },
  }
}
