/** Ctrl-C and SIGTERM, where something must be ended before the process is. */

const SIGNALS = ['SIGINT', 'SIGTERM'] as const

type Signal = (typeof SIGNALS)[number]

export interface Shutdown {
  /** Shuts down without a signal; a shutdown runs once, whichever trigger comes first. */
  shutDown: () => Promise<void>
  /** Leaves it to itself. */
  unregister: () => void
}

/** A signal ends what was started, then the process dies of it; further ones change nothing. */
export function shutDownOnSignal(shutDown: (signal?: Signal) => Promise<void>): Shutdown {
  let shutdown: Promise<void> | undefined
  const shutDownOnce = (signal?: Signal) => (shutdown ??= shutDown(signal))
  const unregister = () => {
    for (const signal of SIGNALS) process.off(signal, onSignal)
  }
  function onSignal(signal: Signal): void {
    // Keep listening meanwhile: without a listener a second signal would end the process.
    void shutDownOnce(signal)
      .catch((error: unknown) => console.error(error))
      .then(() => {
        unregister()
        process.kill(process.pid, signal)
      })
  }
  for (const signal of SIGNALS) process.on(signal, onSignal)
  return { shutDown: () => shutDownOnce().finally(unregister), unregister }
}
