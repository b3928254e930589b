/** What the tests of the rooms with Jobs that move data share: such a Job, and the ports of all of them. */
import type { Job } from '../../crds/kubernetes.ts'
import { ANNOTATIONS, LABELS, jobName } from '../../crds/names.ts'
import type { TransferPorts } from '../../hooks/transfer-ports.ts'
import { ago, settings } from '../builders.ts'

/** Ages in seconds. */
export interface TransferJobParts {
  namespace?: string
  run?: number
  ended?: ['Complete' | 'Failed', number]
  plan?: string
  image?: string
  createdAgo?: number
  failed?: number
  deletionTimestamp?: string
}

/** The Job of a resource; `plan` is the hash of the one that is wanted. */
export function jobOf(
  { kind, uid, plan: wanted }: { kind: string; uid: string; plan: string },
  parts: TransferJobParts = {},
): Job {
  const { run = 1, ended, plan = wanted, createdAgo = 60, failed, deletionTimestamp } = parts
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name: jobName(kind, 'run', uid, run),
      namespace: parts.namespace ?? 'ns',
      uid: `job-${run}`,
      creationTimestamp: ago(createdAgo),
      labels: { [LABELS.parent]: uid, [LABELS.verb]: 'run' },
      annotations: { [ANNOTATIONS.plan]: plan },
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
    },
    spec: { template: { spec: { containers: [{ image: parts.image ?? settings.image }] } } },
    status: {
      ...(failed !== undefined && { failed }),
      ...(ended !== undefined && {
        conditions: [{ type: ended[0], status: 'True', lastTransitionTime: ago(ended[1]) }],
      }),
    },
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
