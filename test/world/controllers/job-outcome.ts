/** How the pods of a Job are counted and when that ends it: pod failure policy, back-off limit, conditions. */
import { hasEnded, type Condition, type Pod } from './objects.ts'

export interface FailureRule {
  action: 'FailJob' | 'Ignore' | 'Count'
  onExitCodes?: { containerName?: string; operator: 'In' | 'NotIn'; values: number[] }
  onPodConditions?: { type: string; status?: string }[]
}

interface Match {
  action: FailureRule['action']
  message: string
}

/** The action of the first rule that matches a failed pod; without one the failure counts. */
export function failureOf(pod: Pod, rules: FailureRule[]): Match {
  for (const [index, rule] of rules.entries()) {
    const message = matchesExitCode(pod, rule, index) ?? matchesCondition(pod, rule, index)
    if (message !== undefined) return { action: rule.action, message }
  }
  return { action: 'Count', message: '' }
}

function matchesExitCode(pod: Pod, { action, onExitCodes }: FailureRule, index: number) {
  if (onExitCodes === undefined) return undefined
  for (const { name, state } of pod.status.containerStatuses ?? []) {
    const code = state.terminated?.exitCode ?? 0
    if (code === 0 || (onExitCodes.containerName ?? name) !== name) continue
    if (onExitCodes.values.includes(code) !== (onExitCodes.operator === 'In')) continue
    const { namespace = '', name: podName } = pod.metadata
    return `Container ${name} for pod ${namespace}/${podName} failed with exit code ${code} matching ${action} rule at index ${index}`
  }
  return undefined
}

function matchesCondition(pod: Pod, { action, onPodConditions }: FailureRule, index: number) {
  const found = pod.status.conditions?.find((condition) =>
    onPodConditions?.some(
      ({ type, status = 'True' }) => type === condition.type && status === condition.status,
    ),
  )
  if (found === undefined) return undefined
  const { namespace = '', name } = pod.metadata
  return `Pod ${namespace}/${name} has condition ${found.type} matching ${action} rule at index ${index}`
}

export interface Desired {
  backoffLimit: number
  completions: number
  rules: FailureRule[]
  deadlinePassed: boolean
}

/** Why the Job is about to end; undefined while it is not. */
export function targetOf(
  desired: Desired,
  counts: { failed: number; succeeded: number; active: number },
  failed: Pod[],
): Pick<Condition, 'type' | 'reason' | 'message'> | undefined {
  const matched = failed
    .map((pod) => failureOf(pod, desired.rules))
    .find(({ action }) => action === 'FailJob')
  const failure = (reason: string, message: string) => ({ type: 'FailureTarget', reason, message })
  if (matched !== undefined) return failure('PodFailurePolicy', matched.message)
  if (counts.failed > desired.backoffLimit) {
    return failure('BackoffLimitExceeded', 'Job has reached the specified backoff limit')
  }
  if (desired.deadlinePassed) {
    return failure('DeadlineExceeded', 'Job was active longer than specified deadline')
  }
  if (counts.succeeded < desired.completions || counts.active > 0) return undefined
  const message = 'Reached expected number of succeeded pods'
  return { type: 'SuccessCriteriaMet', reason: 'CompletionsReached', message }
}

/** The condition that ends a Job whose target condition this is. */
export function finalOf({ type, reason, message }: Condition, now: string): Condition {
  return conditionOf(
    { type: type === 'FailureTarget' ? 'Failed' : 'Complete', ...{ reason, message } },
    now,
  )
}

export function conditionOf(
  {
    type,
    reason,
    message,
  }: { type: string; reason?: string | undefined; message?: string | undefined },
  now: string,
): Condition {
  return {
    type,
    status: 'True',
    lastProbeTime: now,
    lastTransitionTime: now,
    ...(reason !== undefined && { reason }),
    ...(message !== undefined && { message }),
  }
}

/** Failed pods in a row since the last that succeeded set how long to wait for the next. */
export function backoffMs(failures: number): number {
  return failures === 0 ? 0 : Math.min(10_000 * 2 ** (failures - 1), 600_000)
}

export function endedAt(pod: Pod): number {
  const times = (pod.status.containerStatuses ?? []).map(({ state }) =>
    Date.parse(state.terminated?.finishedAt ?? ''),
  )
  return Math.max(0, ...times.filter((time) => !Number.isNaN(time)))
}

export function isFailed(pod: Pod): boolean {
  return hasEnded(pod) && pod.status.phase === 'Failed'
}
