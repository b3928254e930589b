/**
 * Preloaded into the processes of pods: their clock shows the time of the embedded world, which may be
 * hours ahead, as a node's clock shows the time of its cluster. With EMBEDDED_TIME_FACTOR it runs that many
 * times as fast from the start of the process, and pauses end as much earlier. All other timers, for example
 * limits of calls, are those of the machine.
 */
import { syncBuiltinESMExports } from 'node:module'
import timers from 'node:timers/promises'

const offset = Number(process.env['EMBEDDED_CLOCK_OFFSET_MS'] ?? 0)
const factor = Number(process.env['EMBEDDED_TIME_FACTOR'] ?? 1)
const SystemDate = Date
const started = SystemDate.now()
const now = () => Math.round(started + (SystemDate.now() - started) * factor) + offset

globalThis.Date = new Proxy(SystemDate, {
  construct(target, values, newTarget) {
    const given = values.length === 0 ? [now()] : values
    return Reflect.construct(target, given, newTarget) as Date
  },
  get(target, name, receiver): unknown {
    if (name === 'now') return now
    return Reflect.get(target, name, receiver)
  },
})

if (factor !== 1) {
  const pause = timers.setTimeout
  timers.setTimeout = (ms = 0, value, options) => pause(ms / factor, value, options)
  syncBuiltinESMExports()
  const elapsed = performance.now.bind(performance)
  const origin = elapsed()
  performance.now = () => origin + (elapsed() - origin) * factor
}
