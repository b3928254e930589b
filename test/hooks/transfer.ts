/** What the tests of the rooms with Jobs that move data share: such a Job, what it tells, Leases, and the ports of all of them. */
import type { Progress } from '../../crds/command.ts'
import type { Job, Lease } from '../../crds/kubernetes.ts'
import { API_VERSION } from '../../crds/names.ts'
import type { TransferPorts } from '../../hooks/transfer-ports.ts'
import { ago, jobOf, progress, type JobParts } from '../builders.ts'

/** Whose Job it is; `plan` is the hash of the one that is wanted. */
export interface Transfer {
  kind: string
  uid: string
  plan: string
}

export function transferJobOf({ kind, uid, plan }: Transfer, parts: JobParts = {}): Job {
  return jobOf({ kind, verb: 'run', uid }, { plan, ...parts })
}

/** What such a Job tells while it works. */
export function reportOf({ uid, plan }: Transfer, parts: Partial<Progress> = {}): Progress {
  const times = { at: ago(30), startedAt: ago(200) }
  return progress({ uid, plan, verb: 'run', state: 'Started', ...times, ...parts })
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
export function sharedPorts(written: string[]): TransferPorts {
  return {
    lease: async () => undefined,
    jobsOf: async () => [],
    takeLease: async ({ metadata }) => written.push(`take ${metadata.name}`) > 0,
    dropLease: async ({ metadata }) => written.push(`drop ${metadata.name}`) > 0,
    secret: async () => undefined,
    copy: async () => undefined,
    writeCopy: async ({ metadata }) => void written.push(`copy ${metadata.name}`),
    deleteCopy: async ({ name }) => void written.push(`delete copy ${name}`),
    cluster: async () => undefined,
    deleteJob: async ({ name }) => void written.push(`stop ${name}`),
    writeEvent: async ({ reason }) => void written.push(`event ${reason}`),
  }
}

/** The same ports, and what each of them was asked: `<port> <namespace>/<name>`. */
export function noting<Ports extends object>(ports: Ports): { ports: Ports; asked: string[] } {
  const asked: string[] = []
  const noted = Object.entries(ports).map(([port, call]) => [
    port,
    (...about: unknown[]) => {
      asked.push(`${port} ${placeOf(about)}`)
      return (call as (...about: unknown[]) => unknown)(...about)
    },
  ])
  return { ports: Object.fromEntries(noted) as Ports, asked }
}

function placeOf([first, second]: unknown[]): string {
  if (typeof first === 'string') return `${first}/${String(second)}`
  const { namespace, name } = first as { namespace: string; name: string }
  return `${namespace}/${name}`
}
