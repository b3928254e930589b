/** Waiting for one of the helm Jobs that may run at once: many clusters do after a restart of the service. */
import type { VecCluster } from '../../crds/cluster.ts'
import { jitterOf } from '../collection/jitter.ts'
import { conditionOf } from '../conditions.ts'
import type { Settings } from '../protocol.ts'

const MIN_SECONDS = 10
const MAX_SECONDS = 20

/** The same words for all of a wait: the number that runs changes all the time. */
export function slotsMessage({ maxHelmJobs }: Pick<Settings, 'maxHelmJobs'>): string {
  return `${maxHelmJobs} helm Jobs are running`
}

/** The last pass found no slot, and gave its Lease back: until there is one, nothing more need be read. */
export function waitsForSlot(
  cluster: Pick<VecCluster, 'metadata' | 'status'>,
  settings: Pick<Settings, 'maxHelmJobs'>,
): boolean {
  return conditionOf(cluster, 'Applied')?.message === slotsMessage(settings)
}

/** When it looks again; those that wait together do not all look at once. */
export function slotSeconds({ metadata }: Pick<VecCluster, 'metadata'>): number {
  return MIN_SECONDS + jitterOf(metadata.uid) * (MAX_SECONDS - MIN_SECONDS)
}
