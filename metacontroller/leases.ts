/** Leases by the real API: taken and given back by resourceVersion, so that only one of two succeeds. */
import { Job, Lease } from '../crds/kubernetes.ts'
import { LABELS } from '../crds/names.ts'
import type { LeasePorts } from '../hooks/lease.ts'
import type { Kubernetes } from '../jobs/clients/kubernetes.ts'
import { put, remove } from './optimistic.ts'
import { jobs, leases } from './places.ts'

export function leasePorts(kubernetes: Kubernetes): LeasePorts {
  return {
    lease: (namespace, name) => kubernetes.get(leases(namespace), name, Lease),
    jobsOf: (namespace, parentUid) =>
      kubernetes.list(jobs(namespace), Job, { labelSelector: `${LABELS.parent}=${parentUid}` }),
    takeLease: (lease) => put(kubernetes, leases(lease.metadata.namespace), lease),
    dropLease: (lease) => remove(kubernetes, leases(lease.metadata.namespace), lease),
  }
}
