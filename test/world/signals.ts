/** Ctrl-C and SIGTERM, where something must be ended before the process is. */

const SIGNALS = ['SIGINT', 'SIGTERM'] as const

type Signal = (typeof SIGNALS)[number]

export interface Ending {
  /** Ends it without a signal; whoever comes first, it is ended once. */
  end: () => Promise<void>
  /** Leaves it to itself. */
  forget: () => void
}

/** A signal ends what was started, then the process dies of it; further ones change nothing. */
export function endOnSignal(end: (signal?: Signal) => Promise<void>): Ending {
  let ended: Promise<void> | undefined
  const endOnce = (signal?: Signal) => (ended ??= end(signal))
  const forget = () => {
    for (const signal of SIGNALS) process.off(signal, onSignal)
  }
  function onSignal(signal: Signal): void {
    // We go on listening meanwhile: to tap a signal nobody listens to is the end of the process.
    void endOnce(signal)
      .catch((error: unknown) => console.error(error))
      .then(() => {
        forget()
        process.kill(process.pid, signal)
      })
  }
  for (const signal of SIGNALS) process.on(signal, onSignal)
  return { end: () => endOnce().finally(forget), forget }
}
