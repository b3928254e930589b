/** What tests of data Jobs share: a Job, its report, Leases, and common ports. */
import type { ClusterStatus } from '../../../crds/cluster.ts'
import type { Progress } from '../../../crds/contract/job.ts'
import type { Job, Lease } from '../../../crds/kubernetes.ts'
import { API_VERSION } from '../../../crds/contract/names.ts'
import type { DataJobPorts } from '../../../hooks/data-job/observe.ts'
import { ago, newJob, progress, type JobOverrides } from '../../builders.ts'

/** The owner of the Job; `plan` is the hash of the desired plan. */
export interface DataJobIdentity {
  kind: string
  name: string
  uid: string
  plan: string
}

export function dataJobOf(
  { kind, name, uid, plan }: DataJobIdentity,
  overrides: JobOverrides = {},
): Job {
  return newJob({ kind, verb: 'run', resource: name, uid }, { plan, ...overrides })
}

/** The report of a running Job. */
export function progressReport(
  { uid, plan }: DataJobIdentity,
  overrides: Partial<Progress> = {},
): Progress {
  const times = { at: ago(30), startedAt: ago(200) }
  return progress({ uid, plan, verb: 'run', state: 'Started', ...times, ...overrides })
}

/** Status of a cluster of which one node has the new version, and no further one gets it. */
export const HALF_UPDATED: ClusterStatus = {
  phase: 'Upgrading',
  podVersions: ['1.16.3', '1.17.1'],
  conditions: [
    {
      ...{ type: 'Progressing', status: 'False', reason: 'LastCopy' },
      message: 'docs/2 is Active only on node 1',
      lastTransitionTime: ago(60),
    },
  ],
}

/** A Lease of cluster `a`, in the hands of `Kind/namespace/name/uid`. */
export function leaseOf(kind: string, holder: string, secondsAgo = 5, owner = 'uid-a'): Lease {
  return {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: {
      name: `vec-a-${kind}`,
      namespace: 'ns',
      uid: 'uid-lease',
      resourceVersion: '7',
      ownerReferences: [{ apiVersion: API_VERSION, kind: 'VecCluster', name: 'a', uid: owner }],
    },
    spec: { holderIdentity: holder, acquireTime: ago(secondsAgo) },
  }
}

/** Ports that find nothing, and note what is written through them. */
export function fakeDataJobPorts(writes: string[]): DataJobPorts {
  return {
    lease: async () => undefined,
    jobsOf: async () => [],
    holderState: async () => 'unfinished',
    writeLease: async ({ metadata }) => writes.push(`take ${metadata.name}`) > 0,
    deleteLease: async ({ metadata }) => writes.push(`drop ${metadata.name}`) > 0,
    secret: async () => undefined,
    secretCopy: async () => undefined,
    writeSecretCopy: async ({ metadata }) => void writes.push(`copy ${metadata.name}`),
    deleteSecretCopy: async ({ name }) => void writes.push(`delete copy ${name}`),
    cluster: async () => undefined,
    deleteJob: async ({ name }) => void writes.push(`stop ${name}`),
    writeEvent: async ({ reason }) => void writes.push(`event ${reason}`),
  }
}

/** The same ports, and what each of them was asked: `<port> <namespace>/<name>`. */
export function recordCalls<Ports extends object>(ports: Ports): { ports: Ports; calls: string[] } {
  const calls: string[] = []
  const recorded = Object.entries(ports).map(([port, call]) => [
    port,
    (...args: unknown[]) => {
      calls.push(`${port} ${formatTarget(args)}`)
      return (call as (...args: unknown[]) => unknown)(...args)
    },
  ])
  return { ports: Object.fromEntries(recorded) as Ports, calls }
}

function formatTarget([first, second]: unknown[]): string {
  if (typeof first === 'string') return `${first}/${String(second)}`
  const { namespace, name } = first as { namespace: string; name: string }
  return `${namespace}/${name}`
}
