/** The Jobs of a resource and their pods, newest first. */
import { AnyObject, Job, Pod } from '../../crds/kubernetes.ts'
import { LABELS } from '../../crds/contract/names.ts'
import type { Kubernetes } from '../clients/kubernetes/client.ts'

export async function listJobs(
  kubernetes: Kubernetes,
  { metadata: { namespace = '', uid = '' } }: AnyObject,
): Promise<Job[]> {
  const apiResource = { apiVersion: 'batch/v1', plural: 'jobs', namespace }
  const jobs = await kubernetes.list(apiResource, Job, { labelSelector: `${LABELS.parent}=${uid}` })
  return jobs.toSorted(newestFirst)
}

export async function listPods(
  kubernetes: Kubernetes,
  { metadata: { namespace = '', name } }: Job,
): Promise<Pod[]> {
  const apiResource = { apiVersion: 'v1', plural: 'pods', namespace }
  const pods = await kubernetes.list(apiResource, Pod, { labelSelector: `job-name=${name}` })
  return pods.toSorted(newestFirst)
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
