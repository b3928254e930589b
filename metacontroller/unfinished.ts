/** Jobs of ours that run or are about to. What has succeeded is left out by the API server. */
import { endOf, Job } from '../crds/kubernetes.ts'
import { LABELS, MANAGED_BY } from '../crds/names.ts'
import type { Collection, Kubernetes } from '../jobs/clients/kubernetes.ts'

export async function unfinishedJobs(
  kubernetes: Kubernetes,
  places: Collection[],
  labels: Record<string, string>,
): Promise<Job[]> {
  const wanted = Object.entries({ [LABELS.managedBy]: MANAGED_BY, ...labels })
  const selection = {
    labelSelector: wanted.map(([label, value]) => `${label}=${value}`).join(','),
    fieldSelector: 'status.successful=0',
  }
  const lists = places.map((place) => kubernetes.list(place, Job, selection))
  return (await Promise.all(lists)).flat().filter((job) => endOf(job) === undefined)
}
