/** Leases by the real API: taken and given back by resourceVersion, so that only one of two succeeds. */
import { KubernetesError } from '../crds/errors.ts'
import { Job, Lease } from '../crds/kubernetes.ts'
import { LABELS } from '../crds/names.ts'
import type { LeasePorts } from '../hooks/lease.ts'
import { pathOf, type Call, type Kubernetes } from '../jobs/clients/kubernetes.ts'

export function leasePorts(kubernetes: Kubernetes): LeasePorts {
  return {
    lease: (namespace, name) => kubernetes.get(leasesIn(namespace), name, Lease),
    jobsOf: (namespace, parentUid) =>
      kubernetes.list({ apiVersion: 'batch/v1', plural: 'jobs', namespace }, Job, {
        labelSelector: `${LABELS.parent}=${parentUid}`,
      }),
    takeLease: (lease) => {
      const { namespace, name, resourceVersion } = lease.metadata
      return resourceVersion === undefined
        ? isDone(kubernetes, 'POST', pathOf(leasesIn(namespace)), { body: lease })
        : isDone(kubernetes, 'PUT', pathOf(leasesIn(namespace), name), { body: lease })
    },
    dropLease: ({ metadata: { namespace, name, uid, resourceVersion } }) =>
      isDone(kubernetes, 'DELETE', pathOf(leasesIn(namespace), name), {
        body: {
          kind: 'DeleteOptions',
          apiVersion: 'v1',
          preconditions: { uid, resourceVersion },
        },
      }),
  }
}

/** False when somebody was quicker: the Lease is another by now, is there already, or is gone. */
async function isDone(
  kubernetes: Kubernetes,
  method: 'POST' | 'PUT' | 'DELETE',
  path: string,
  call: Call,
): Promise<boolean> {
  const { status, text } = await kubernetes.call(method, path, call)
  if (status < 400) return true
  if (status === 404 || status === 409) return false
  throw new KubernetesError(`${method} ${path} answered ${status}: ${text.slice(0, 300)}`, {
    status,
  })
}

function leasesIn(namespace = '') {
  return { apiVersion: 'coordination.k8s.io/v1', plural: 'leases', namespace }
}
