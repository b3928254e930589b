/**
 * What the service counts, for Prometheus: hook calls, calls to the outside, what Jobs reported, how
 * resources are, and the process itself. Labels come from closed sets; where a resource is named, only
 * so many are (census.ts).
 */
import { STATUS_CODES } from 'node:http'
import { collectDefaultMetrics, Counter, Histogram, Registry } from 'prom-client'
import { RESOURCES } from '../crds/resources.ts'
import type { HookMetrics } from '../hooks/server.ts'
import { Census } from './census.ts'
import { showCensus } from './census-metrics.ts'
import { OUTCOMES, Reports } from './reports.ts'

/** Outside systems that the service itself calls. */
export type Outside = 'engine' | 'bucket' | 'kubernetes'

/** A call to the outside; without a status it got no answer. */
export interface OutsideCall {
  method: string
  status: number | undefined
  seconds: number
}

export interface ServiceMetrics extends HookMetrics {
  called(system: Outside, call: OutsideCall): void
}

/** From a hundredth of a hook's usual time to Metacontroller's time-out. */
const HOOK_BUCKETS = [
  ...[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05],
  ...[0.1, 0.25, 0.5, 1, 2.5, 5, 10],
]
/** To the time-out of a short call. */
const CALL_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

/** What Jobs do for a resource of each kind; what else a label or a report says counts as `other`. */
const VERBS_OF: Record<string, readonly string[]> = {
  VecCluster: ['upgrade', 'uninstall'],
  VecBackup: ['run'],
  VecRestore: ['run'],
  VecMigration: ['run'],
}

export function serviceMetrics(version: string, now: () => Date): ServiceMetrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const census = new Census(now)
  showCensus(census, version, registry)
  const reports = new Reports(reportCounters(registry), now())
  const called = callCounters(registry)
  return {
    contentType: registry.contentType,
    ...hookCounters(registry),
    called,
    decided(request, answer) {
      census.note(request, answer)
      if (answer.finalized === true) reports.forget(request.parent.metadata.uid)
      else reports.read(request, now())
    },
    text: () => registry.metrics(),
  }
}

function hookCounters(registry: Registry): Pick<ServiceMetrics, 'observe' | 'guardRefused'> {
  const answered = timedCalls(registry, ['kind', 'hook'], {
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
  const refusals = new Counter({
    name: 'vec_operator_guard_refusals_total',
    help: 'Answers the guard kept from the wire; each one is a defect.',
    labelNames: ['route'],
    registers: [registry],
  })
  for (const { plural } of RESOURCES) {
    for (const hook of ['sync', 'finalize']) refusals.inc({ route: `/${plural}/${hook}` }, 0)
  }
  return {
    observe: (kind, hook, code, seconds) => {
      answered({ kind, hook }, code, seconds)
    },
    guardRefused: (route) => {
      refusals.inc({ route })
    },
  }
}

function callCounters(registry: Registry): ServiceMetrics['called'] {
  const answered = timedCalls(registry, ['system', 'method'], {
    total: {
      name: 'vec_operator_outside_calls_total',
      help: 'Calls of the service to engines, buckets and the Kubernetes API, by HTTP status; "none" got no answer.',
    },
    duration: {
      name: 'vec_operator_outside_call_duration_seconds',
      help: 'Time from a call to the outside to its answer.',
      buckets: CALL_BUCKETS,
    },
  })
  return (system, { method, status, seconds }) => {
    answered({ system, method }, codeOf(status), seconds)
  }
}

/** An engine or a store may answer any number: of those without a meaning only the first digit counts. */
function codeOf(status: number | undefined): string {
  if (status === undefined) return 'none'
  return STATUS_CODES[status] === undefined ? `${Math.floor(status / 100)}xx` : String(status)
}

interface Named {
  name: string
  help: string
}

/** Calls of one sort, counted by their labels and their code, and how long they took by their labels. */
function timedCalls<Label extends string>(
  registry: Registry,
  labelNames: Label[],
  { total, duration }: { total: Named; duration: Named & { buckets: number[] } },
) {
  const registers = [registry]
  const calls = new Counter({ ...total, labelNames: [...labelNames, 'code'], registers })
  const times = new Histogram({ ...duration, labelNames, registers })
  return (labels: Record<Label, string>, code: string | number, seconds: number): void => {
    calls.inc({ ...labels, code })
    times.observe(labels, seconds)
  }
}

function reportCounters(registry: Registry): ConstructorParameters<typeof Reports>[0] {
  const registers = [registry]
  const runs = new Counter({
    name: 'vec_operator_job_runs_total',
    help: 'Runs of Jobs that ended, by kind of the resource, verb and outcome: Done, Failed, Refused or Crashed.',
    labelNames: ['kind', 'verb', 'outcome'],
    registers,
  })
  const bytes = new Counter({
    name: 'vec_operator_transferred_bytes_total',
    help: 'Bytes of snapshots that Jobs reported as moved, by kind of the resource.',
    labelNames: ['kind'],
    registers,
  })
  const points = new Counter({
    name: 'vec_operator_copied_points_total',
    help: 'Points that Jobs reported as copied, by kind of the resource.',
    labelNames: ['kind'],
    registers,
  })
  // Prometheus sees no increase in a series that starts with its first count.
  for (const [kind, verbs] of Object.entries(VERBS_OF)) {
    for (const verb of verbs) {
      for (const outcome of OUTCOMES) runs.inc({ kind, verb, outcome }, 0)
    }
  }
  for (const kind of ['VecBackup', 'VecRestore']) bytes.inc({ kind }, 0)
  points.inc({ kind: 'VecMigration' }, 0)
  return {
    jobEnded: (run) => {
      const isKnown = VERBS_OF[run.kind]?.includes(run.verb) === true
      runs.inc({ ...run, verb: isKnown ? run.verb : 'other' })
    },
    bytesMoved: (kind, amount) => {
      bytes.inc({ kind }, amount)
    },
    pointsCopied: (kind, amount) => {
      points.inc({ kind }, amount)
    },
  }
}
