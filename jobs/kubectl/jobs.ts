/** The Jobs of a resource and their pods, newest first. */
import { AnyObject, Job, Pod } from '../../crds/kubernetes.ts'
import { LABELS } from '../../crds/contract/names.ts'
import { jobs, pods } from '../clients/kubernetes/api-resources.ts'
import type { Kubernetes } from '../clients/kubernetes/client.ts'

export async function listJobs(
  kubernetes: Kubernetes,
  { metadata: { namespace = '', uid = '' } }: AnyObject,
): Promise<Job[]> {
  const labelSelector = `${LABELS.parent}=${uid}`
  const found = await kubernetes.list(jobs(namespace), Job, { labelSelector })
  return found.toSorted(newestFirst)
}

export async function listPods(
  kubernetes: Kubernetes,
  { metadata: { namespace = '', name } }: Job,
): Promise<Pod[]> {
  const labelSelector = `job-name=${name}`
  const found = await kubernetes.list(pods(namespace), Pod, { labelSelector })
  return found.toSorted(newestFirst)
}

interface Created {
  metadata: { name: string; creationTimestamp?: string | undefined }
}

function newestFirst(left: Created, right: Created): number {
  return sortKey(right).localeCompare(sortKey(left))
}

function sortKey({ metadata }: Created): string {
  return `${metadata.creationTimestamp ?? ''} ${metadata.name}`
}
