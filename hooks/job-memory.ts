/** Memory of a Job by what it may have to upload: no object of a cluster is larger than a data volume. */
import { amountOf } from '../crds/quantity.ts'
import { jobBytesFor } from '../crds/parts.ts'
import type { JobResources } from './protocol.ts'

const MIB = 2 ** 20

/**
 * The resources with a limit under which an object of this size can be uploaded. Parts are kept in memory
 * until the store has them, for a stream cannot be read twice; of an object of several terabytes two parts
 * are more than the usual limit. Without a limit, nothing needs to be raised.
 */
export function resourcesFor(resources: JobResources, volume: string): JobResources {
  const needed = jobBytesFor(amountOf(volume))
  const limit = amountOf(resources.limits['memory'] ?? '')
  // False also where one of the two is no amount.
  if (!(needed > limit)) return resources
  const request = amountOf(resources.requests['memory'] ?? '')
  const raised = Number.isNaN(request) ? needed : request + (needed - limit)
  return {
    requests: { ...resources.requests, memory: inMebibytes(raised) },
    limits: { ...resources.limits, memory: inMebibytes(needed) },
  }
}

function inMebibytes(bytes: number): string {
  return `${Math.ceil(bytes / MIB)}Mi`
}
