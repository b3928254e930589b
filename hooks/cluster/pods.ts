/** Why pods are not ready, in the words of the scheduler, the kubelet and the container. */
import type { ContainerStatus, Pod } from '../../crds/kubernetes.ts'

/** Named one by one; of more only the number is shown. */
const MAX_PODS = 3
const MAX_CAUSE = 200

/** `vec-docs-0: ...; vec-docs-1: ...`, the pods that are not ready; undefined where none says why. */
export function causeOf(pods: readonly Pod[]): string | undefined {
  const causes = pods
    .toSorted((one, other) => (one.metadata.name < other.metadata.name ? -1 : 1))
    .flatMap((pod) => {
      const cause = causeOfPod(pod)
      return cause === undefined ? [] : [`${pod.metadata.name}: ${oneLine(cause)}`]
    })
  if (causes.length === 0) return undefined
  const more = causes.length > MAX_PODS ? `; and ${causes.length - MAX_PODS} more` : ''
  return causes.slice(0, MAX_PODS).join('; ') + more
}

function causeOfPod({ metadata, status = {} }: Pod): string | undefined {
  if (condition(status, 'Ready')?.status === 'True') return undefined
  if (metadata.deletionTimestamp !== undefined) return 'is terminating'
  const scheduled = condition(status, 'PodScheduled')
  if (scheduled?.status === 'False') return scheduled.message ?? scheduled.reason
  const init = firstCause(status.initContainerStatuses ?? [])
  if (init !== undefined) return `init container ${init}`
  const main = firstCause(status.containerStatuses ?? [])
  return main === undefined ? undefined : `container ${main}`
}

function condition({ conditions = [] }: NonNullable<Pod['status']>, wanted: string) {
  return conditions.find(({ type }) => type === wanted)
}

function firstCause(containers: readonly ContainerStatus[]): string | undefined {
  for (const container of containers) {
    const cause = causeOfContainer(container)
    if (cause !== undefined) return `${container.name}: ${cause}`
  }
  return undefined
}

/**
 * The message of CrashLoopBackOff tells how long the kubelet waits, which changes all the time; how the
 * container ended is what helps.
 */
function causeOfContainer({ state, lastState }: ContainerStatus): string | undefined {
  const ended = state?.terminated ?? lastState?.terminated
  const exit = ended === undefined || ended.exitCode === 0 ? undefined : exitOf(ended)
  const reason = state?.waiting?.reason
  if (reason === undefined) return exit
  if (reason === 'CrashLoopBackOff') return exit === undefined ? reason : `${reason}, ${exit}`
  // What every container goes through.
  if (reason === 'PodInitializing') return undefined
  const message = state?.waiting?.message
  return message === undefined ? reason : `${reason}: ${message}`
}

function exitOf({
  exitCode,
  reason,
  message,
}: {
  exitCode: number
  reason?: string
  message?: string
}) {
  const words = [reason === 'Error' ? undefined : reason, message].filter(
    (word) => word !== undefined && word !== '',
  )
  return [`exit code ${exitCode}`, ...words].join(', ')
}

function oneLine(text: string): string {
  return text
    .slice(0, MAX_CAUSE * 2)
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .trim()
    .slice(0, MAX_CAUSE)
}
