/** The pods of a Job: killed as a node that dies would, and how it is seen that another one works. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ApiClient, ApiObject } from '../world/client.ts'

const POLL_MS = 250
/** A Job that has failed for good has no further pod. */
const SUCCESSOR_MS = 30_000
const ENDED = ['Succeeded', 'Failed']

/** Kills what still works, and answers once another pod is at it or the Job has ended. */
export async function killPodsOf(
  api: ApiClient,
  { namespace, job }: { namespace: string; job: string },
): Promise<void> {
  const pods = async () =>
    (await api.list('v1', 'Pod', { namespace, labelSelector: `job-name=${job}` })).items
  const killed = (await pods()).filter((pod) => !ENDED.includes(phaseOf(pod)))
  if (killed.length === 0) return
  for (const { metadata } of killed) {
    // As the pod garbage collector does it for a lost node: immediately, without a grace period.
    const path = `/api/v1/namespaces/${namespace}/pods/${metadata.name}`
    await api.raw('DELETE', `${path}?gracePeriodSeconds=0`)
  }
  // The object is deleted before the process ends: once another pod runs, the kubelet has killed this one.
  const names = killed.map(({ metadata }) => metadata.name)
  const end = Date.now() + SUCCESSOR_MS
  const works = (pod: ApiObject) =>
    !names.includes(pod.metadata.name) && ['Running', ...ENDED].includes(phaseOf(pod))
  while (Date.now() < end && !(await pods()).some(works)) await sleep(POLL_MS)
}

function phaseOf({ status }: ApiObject): string {
  return (status as { phase?: string } | undefined)?.phase ?? ''
}
