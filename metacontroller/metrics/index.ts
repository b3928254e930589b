/**
 * Prometheus metrics of the service: hook calls, calls to external systems, results that Jobs
 * reported, the state of resources, and the process itself. Label values come from closed sets; the
 * number of resources with series of their own is limited (inventory.ts).
 */
import { STATUS_CODES } from 'node:http'
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import { RESOURCES } from '../../crds/crd.ts'
import type { HookMetrics } from '../../hooks/server.ts'
import { Inventory, registerInventory } from './inventory.ts'
import { JobResults } from './job-results.ts'

/** External systems that the service itself calls. */
export type ClientTarget = 'engine' | 'bucket' | 'kubernetes'

/** A call to an external system; `status` is undefined if there was no response. */
export interface ClientCall {
  method: string
  status: number | undefined
  seconds: number
}

export interface ServiceMetrics extends HookMetrics {
  recordCall(target: ClientTarget, call: ClientCall): void
  /** This replica answers hooks from now on; what Jobs reported before, another one has counted. */
  lead(): void
}

/** From 1 % of the usual duration of a hook to the hook timeout of Metacontroller. */
const HOOK_BUCKETS = [
  ...[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05],
  ...[0.1, 0.25, 0.5, 1, 2.5, 5, 10],
]
/** Up to the timeout of a short call. */
const CLIENT_CALL_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

export function serviceMetrics(version: string, now: () => Date): ServiceMetrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const inventory = new Inventory(now)
  registerInventory(inventory, version, registry)
  const jobResults = new JobResults(registry, now())
  const recordCall = callCounters(registry)
  const leader = new Gauge({
    name: 'vec_operator_leader',
    help: '1 on the replica of the service that answers hooks, 0 on one that waits.',
    registers: [registry],
  })
  return {
    lead() {
      leader.set(1)
      jobResults.countFrom(now())
    },
    contentType: registry.contentType,
    ...hookCounters(registry),
    recordCall,
    recordDecision(request, answer) {
      inventory.record(request, answer)
      if (answer.finalized === true) jobResults.remove(request.parent.metadata.uid)
      else jobResults.record(request, now())
    },
    text: () => registry.metrics(),
  }
}

function hookCounters(
  registry: Registry,
): Pick<ServiceMetrics, 'observe' | 'answerRejected' | 'waitTimedOut'> {
  const record = timedCounter(registry, ['kind', 'hook'], {
    total: {
      name: 'vec_operator_hook_requests_total',
      help: 'Hook calls answered, by kind, hook and HTTP status.',
    },
    duration: {
      name: 'vec_operator_hook_duration_seconds',
      help: 'Time from a hook call to its answer.',
      buckets: HOOK_BUCKETS,
    },
  })
  const invalidAnswers = new Counter({
    name: 'vec_operator_invalid_answers_total',
    help: 'Invalid answers of hooks that were not sent; each one is a defect.',
    labelNames: ['route'],
    registers: [registry],
  })
  const waitTimeouts = new Counter({
    name: 'vec_operator_hook_wait_timeouts_total',
    help: 'Hook calls answered with 503 because the memory for large requests was not free in time.',
    labelNames: ['kind', 'hook'],
    registers: [registry],
  })
  for (const { kind, plural } of RESOURCES) {
    for (const hook of ['sync', 'finalize']) invalidAnswers.inc({ route: `/${plural}/${hook}` }, 0)
    for (const hook of ['customize', 'sync', 'finalize']) waitTimeouts.inc({ kind, hook }, 0)
  }
  return {
    observe: (kind, hook, code, seconds) => {
      record({ kind, hook }, code, seconds)
    },
    answerRejected: (route) => {
      invalidAnswers.inc({ route })
    },
    waitTimedOut: (kind, hook) => {
      waitTimeouts.inc({ kind, hook })
    },
  }
}

function callCounters(registry: Registry): ServiceMetrics['recordCall'] {
  const record = timedCounter(registry, ['target', 'method'], {
    total: {
      name: 'vec_operator_client_requests_total',
      help: 'Requests of the service to engines, buckets and the Kubernetes API, by HTTP status; "none" means no response.',
    },
    duration: {
      name: 'vec_operator_client_request_duration_seconds',
      help: 'Time from a request to its response.',
      buckets: CLIENT_CALL_BUCKETS,
    },
  })
  return (target, { method, status, seconds }) => {
    record({ target, method }, statusLabel(status), seconds)
  }
}

/**
 * An engine or object store may return any number: status codes without a standard meaning are
 * counted by their first digit.
 */
function statusLabel(status: number | undefined): string {
  if (status === undefined) return 'none'
  return STATUS_CODES[status] === undefined ? `${Math.floor(status / 100)}xx` : String(status)
}

interface MetricName {
  name: string
  help: string
}

/** Counts calls by their labels and status code, and records their duration by labels. */
function timedCounter<Label extends string>(
  registry: Registry,
  labelNames: Label[],
  { total, duration }: { total: MetricName; duration: MetricName & { buckets: number[] } },
) {
  const registers = [registry]
  const calls = new Counter({ ...total, labelNames: [...labelNames, 'code'], registers })
  const times = new Histogram({ ...duration, labelNames, registers })
  return (labels: Record<Label, string>, code: string | number, seconds: number): void => {
    calls.inc({ ...labels, code })
    times.observe(labels, seconds)
  }
}
