/**
 * The Job controller: makes pods, counts how they end, and writes the conditions in the order in which
 * Kubernetes does: the target first, the end once no pod is left. Suspension and indexes are not known.
 */
import { timestamp } from '../api/metadata.ts'
import type { Resources } from '../api/resources.ts'
import { controllerOf, controllerReference, isDeleting, type ApiObject } from '../client.ts'
import type { Clock } from '../clock.ts'
import {
  backoffMs,
  conditionOf,
  endedAt,
  failureOf,
  finalOf,
  isFailed,
  targetOf,
  type FailureRule,
} from './job-outcome.ts'
import {
  hasEnded,
  isReady,
  podsOf,
  suffix,
  type Condition,
  type Pod,
  type Template,
} from './objects.ts'
import type { Controller } from './queue.ts'

interface JobSpec {
  parallelism: number
  completions: number
  backoffLimit: number
  activeDeadlineSeconds?: number
  podFailurePolicy?: { rules: FailureRule[] }
  template: Template
}

interface JobStatus {
  active?: number
  ready?: number
  terminating?: number
  succeeded?: number
  failed?: number
  startTime?: string
  completionTime?: string
  conditions?: Condition[]
}

type Job = ApiObject & { spec: JobSpec; status?: JobStatus }

/** Holds a pod until it was counted. */
const TRACKING = 'batch.kubernetes.io/job-tracking'

/** Keys are `namespace/name` of a Job. */
export function jobController(resources: Resources, clock: Clock): Controller {
  /** Failures in a row, by uid; forgotten when the controller restarts, as in Kubernetes. */
  const failures = new Map<string, { count: number; last: number }>()
  return {
    keys(object) {
      const { namespace = '', name } = object.metadata
      if (object.kind === 'Job') return [`${namespace}/${name}`]
      const owner = object.kind === 'Pod' ? controllerOf(object) : undefined
      return owner?.kind === 'Job' ? [`${namespace}/${owner.name}`] : []
    },
    sync(key, again) {
      const [namespace = '', name = ''] = key.split('/')
      const job = resources.find(resources.kinds.of('batch/v1', 'Job'), namespace, name)
      letGo(resources, namespace, name, job?.metadata.uid)
      if (job !== undefined) new Pass(resources, clock, job as Job, failures, again).run()
    },
  }
}

/** Frees the pods of a Job that is no more. */
function letGo(resources: Resources, namespace: string, name: string, uid: string | undefined) {
  const pods = resources.store.list(resources.kinds.of('v1', 'Pod'), namespace)
  for (const pod of pods) {
    const owner = controllerOf(pod)
    const lost = owner?.kind === 'Job' ? owner.name === name && owner.uid !== uid : false
    if (lost || owner === undefined) untrack(resources, pod)
  }
}

function untrack(resources: Resources, pod: ApiObject): void {
  const { namespace = '', name, finalizers = [] } = pod.metadata
  if (!finalizers.includes(TRACKING)) return
  resources.update(resources.kinds.of('v1', 'Pod'), { namespace, name }, (old) => ({
    ...old,
    metadata: { ...old.metadata, finalizers: finalizers.filter((one) => one !== TRACKING) },
  }))
}

/** One sync of one Job. */
class Pass {
  readonly #resources: Resources
  readonly #clock: Clock
  readonly #job: Job
  readonly #failures: Map<string, { count: number; last: number }>
  readonly #again: (ms: number) => void

  constructor(
    resources: Resources,
    clock: Clock,
    job: Job,
    failures: Map<string, { count: number; last: number }>,
    again: (ms: number) => void,
  ) {
    this.#resources = resources
    this.#clock = clock
    this.#job = job
    this.#failures = failures
    this.#again = again
  }

  run(): void {
    const { spec, metadata } = this.#job
    const status: JobStatus = { startTime: this.#now(), ...this.#job.status }
    const conditions = status.conditions ?? []
    if (conditions.some(({ type }) => type === 'Complete' || type === 'Failed')) return

    const pods = podsOf(this.#resources, this.#job)
    const uncounted = pods.filter(({ metadata }) => metadata.finalizers?.includes(TRACKING))
    const succeeded = uncounted.filter(({ status }) => status.phase === 'Succeeded')
    const failed = uncounted.filter(isFailed)
    const counted = failed.filter((pod) => failureOf(pod, this.#rules()).action !== 'Ignore')
    this.#remember(succeeded, failed)

    const running = pods.filter((pod) => !hasEnded(pod))
    const active = running.filter((pod) => !isDeleting(pod))
    const next: JobStatus = {
      ...status,
      succeeded: (status.succeeded ?? 0) + succeeded.length,
      failed: (status.failed ?? 0) + counted.length,
    }
    const target =
      conditions.find(({ type }) => TARGETS.has(type)) ?? this.#target(next, running, failed)
    if (target !== undefined) {
      for (const pod of active) this.#delete(pod)
    } else if (metadata.deletionTimestamp === undefined) {
      this.#makePods(running.length, spec, next)
    }
    // Deleted ones end in their own time; what was just made is active.
    const left = podsOf(this.#resources, this.#job).filter((pod) => !hasEnded(pod))
    this.#write(next, left, target, conditions)
    for (const pod of [...succeeded, ...failed]) untrack(this.#resources, pod)
    if (metadata.deletionTimestamp !== undefined) {
      for (const pod of left) untrack(this.#resources, pod)
    }
  }

  #target(counts: JobStatus, running: Pod[], failed: Pod[]): Condition | undefined {
    const { backoffLimit, completions, activeDeadlineSeconds } = this.#job.spec
    const deadline = Date.parse(counts.startTime ?? '') + (activeDeadlineSeconds ?? Infinity) * 1000
    const left = deadline - this.#clock.now().getTime()
    if (Number.isFinite(left) && left > 0) this.#again(left)
    const found = targetOf(
      { backoffLimit, completions, rules: this.#rules(), deadlinePassed: left <= 0 },
      { failed: counts.failed ?? 0, succeeded: counts.succeeded ?? 0, active: running.length },
      failed,
    )
    return found && conditionOf(found, this.#now())
  }

  #makePods(running: number, { parallelism, completions }: JobSpec, status: JobStatus): void {
    const missing = Math.min(parallelism, completions - (status.succeeded ?? 0)) - running
    if (missing <= 0) return
    const { count, last } = this.#failures.get(this.#job.metadata.uid ?? '') ?? {
      count: 0,
      last: 0,
    }
    const wait = last + backoffMs(count) - this.#clock.now().getTime()
    if (wait > 0) this.#again(wait)
    else for (let n = 0; n < missing; n++) this.#makePod()
  }

  #makePod(): void {
    const { metadata, spec } = this.#job
    const { namespace = '', name } = metadata
    this.#resources.create(this.#resources.kinds.of('v1', 'Pod'), namespace, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        name: `${name}-${suffix()}`,
        namespace,
        ...(spec.template.metadata?.labels && { labels: spec.template.metadata.labels }),
        ...(spec.template.metadata?.annotations && {
          annotations: spec.template.metadata.annotations,
        }),
        finalizers: [TRACKING],
        ownerReferences: [controllerReference(this.#job)],
      },
      spec: spec.template.spec,
    })
  }

  #write(next: JobStatus, left: Pod[], target: Condition | undefined, before: Condition[]): void {
    const conditions = [...before]
    const isNew = target !== undefined && !before.some(({ type }) => type === target.type)
    if (isNew) conditions.push(target)
    // The end is another write than the target, and only once no pod is left.
    if (target !== undefined && !isNew && left.length === 0) {
      conditions.push(finalOf(target, this.#now()))
      if (target.type === 'SuccessCriteriaMet') next.completionTime = this.#now()
    }
    const active = left.filter((pod) => !isDeleting(pod))
    const status: JobStatus = {
      ...next,
      active: active.length,
      ready: active.filter(isReady).length,
      terminating: left.length - active.length,
      ...(conditions.length > 0 && { conditions }),
    }
    for (const count of ['active', 'succeeded', 'failed'] as const) {
      if (status[count] === 0) Reflect.deleteProperty(status, count)
    }
    const { namespace = '', name } = this.#job.metadata
    const kind = this.#resources.kinds.of('batch/v1', 'Job')
    this.#resources.update(kind, { namespace, name }, (old) => ({ ...old, status }), 'status')
  }

  #remember(succeeded: Pod[], failed: Pod[]): void {
    const uid = this.#job.metadata.uid ?? ''
    if (succeeded.length > 0) this.#failures.delete(uid)
    if (failed.length === 0) return
    const { count, last } = this.#failures.get(uid) ?? { count: 0, last: 0 }
    this.#failures.set(uid, {
      count: count + failed.length,
      last: Math.max(last, ...failed.map(endedAt)),
    })
  }

  #delete({ metadata }: Pod): void {
    const { namespace = '', name } = metadata
    this.#resources.delete(this.#resources.kinds.of('v1', 'Pod'), { namespace, name })
  }

  #rules(): FailureRule[] {
    return this.#job.spec.podFailurePolicy?.rules ?? []
  }

  #now(): string {
    return timestamp(this.#clock.now())
  }
}

const TARGETS = new Set(['FailureTarget', 'SuccessCriteriaMet'])
