/**
 * Preloaded into the processes of pods: their clock shows the time of the embedded world, which may be
 * hours ahead, as a node's clock shows the time of its cluster. Timers run as ever.
 */
const offset = Number(process.env['EMBEDDED_CLOCK_OFFSET_MS'] ?? 0)
const SystemDate = Date

globalThis.Date = new Proxy(SystemDate, {
  construct(target, values, newTarget) {
    const given = values.length === 0 ? [SystemDate.now() + offset] : values
    return Reflect.construct(target, given, newTarget) as Date
  },
  get(target, name, receiver): unknown {
    if (name === 'now') return () => SystemDate.now() + offset
    return Reflect.get(target, name, receiver)
  },
})
