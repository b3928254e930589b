/** Ctrl-C and SIGTERM, where something must be ended before the process is. */

const SIGNALS = ['SIGINT', 'SIGTERM'] as const

type Signal = (typeof SIGNALS)[number]

/**
 * Ends what was started, then lets the process die of that signal; further ones change nothing.
 * Answers how to take that back.
 */
export function endOnSignal(end: (signal: Signal) => Promise<void>): () => void {
  let ending = false
  const forget = () => {
    for (const signal of SIGNALS) process.off(signal, onSignal)
  }
  function onSignal(signal: Signal): void {
    // We go on listening meanwhile: to tap a signal nobody listens to is the end of the process.
    if (ending) return
    ending = true
    void end(signal)
      .catch((error: unknown) => console.error(error))
      .then(() => {
        forget()
        process.kill(process.pid, signal)
      })
  }
  for (const signal of SIGNALS) process.on(signal, onSignal)
  return () => {
    if (!ending) forget()
  }
}
