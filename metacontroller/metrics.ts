/**
 * What the service counts, for Prometheus: hook calls by kind, hook and code, how long they took,
 * what the guard refused, and the process itself. Labels come from closed sets only.
 */
import { collectDefaultMetrics, Counter, Histogram, Registry } from 'prom-client'
import type { HookMetrics } from '../hooks/server.ts'

/** From a hundredth of a hook's usual time to Metacontroller's time-out. */
const BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

export function hookMetrics(): HookMetrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const requests = new Counter({
    name: 'vec_operator_hook_requests_total',
    help: 'Hook calls answered, by kind, hook and HTTP status.',
    labelNames: ['kind', 'hook', 'code'],
    registers: [registry],
  })
  const duration = new Histogram({
    name: 'vec_operator_hook_duration_seconds',
    help: 'Time from a hook call to its answer.',
    labelNames: ['kind', 'hook'],
    buckets: BUCKETS,
    registers: [registry],
  })
  const refusals = new Counter({
    name: 'vec_operator_guard_refusals_total',
    help: 'Answers the guard kept from the wire; each one is a defect.',
    labelNames: ['route'],
    registers: [registry],
  })
  return {
    contentType: registry.contentType,
    observe(kind, hook, code, seconds) {
      requests.inc({ kind, hook, code })
      duration.observe({ kind, hook }, seconds)
    },
    guardRefused: (route) => {
      refusals.inc({ route })
    },
    text: () => registry.metrics(),
  }
}
