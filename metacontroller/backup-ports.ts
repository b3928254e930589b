/** What the VecBackup room reads and writes, by the real clients of jobs/clients. */
import { Type } from '@sinclair/typebox'
import type { Progress } from '../crds/command.ts'
import { KubernetesError } from '../crds/errors.ts'
import { AnyObject } from '../crds/kubernetes.ts'
import { ANNOTATIONS } from '../crds/names.ts'
import type { SchedulePolicy } from '../hooks/backup/fate.ts'
import type { BackupPorts, ObjectIdentity } from '../hooks/backup/ports.ts'
import { purge } from '../jobs/backup/purge.ts'
import { pathOf, type Kubernetes } from '../jobs/clients/kubernetes.ts'
import { openBucket, type BucketTools } from './buckets.ts'
import { hasStatus } from './common-ports.ts'
import { helmJobsAt } from './others.ts'
import { backups, namespaces, schedules } from './places.ts'
import { restoresOf, type Backup } from './restores.ts'
import { transferPorts } from './transfer-ports.ts'

export interface BackupTools extends BucketTools {
  kubernetes: Kubernetes
  /** Those the service may read; empty means all. */
  namespaces: string[]
}

/** No more than is asked for: one that an older CRD let in decides too. */
const Policy = Type.Object({
  ...AnyObject.properties,
  spec: Type.Object({ deletionPolicy: Type.Optional(Type.String()) }),
})

async function schedulePolicy(
  kubernetes: Kubernetes,
  namespace: string,
  name: string,
): Promise<SchedulePolicy | undefined> {
  const found = await kubernetes.get(schedules(namespace), name, Policy)
  if (found === undefined) return undefined
  const { metadata, spec } = found
  return {
    uid: metadata.uid ?? '',
    ...(metadata.annotations !== undefined && { annotations: metadata.annotations }),
    ...(spec.deletionPolicy !== undefined && { deletionPolicy: spec.deletionPolicy }),
  }
}

/** Any read tells it. */
async function apiTime(kubernetes: Kubernetes, namespace: string): Promise<Date | undefined> {
  const { date = '' } = await kubernetes.call('GET', pathOf(namespaces(), namespace))
  const time = new Date(date)
  return Number.isNaN(time.getTime()) ? undefined : time
}

async function replaceReport(
  { kubernetes, log }: BackupTools,
  { namespace, name, uid }: ObjectIdentity,
  report: Progress,
): Promise<void> {
  const annotations = { [ANNOTATIONS.progress]: JSON.stringify(report) }
  try {
    await kubernetes.patch(backups(namespace), name, { metadata: { uid, annotations } })
  } catch (error) {
    // It is written to save space: nothing waits for it, and the next sync tries again.
    if (!(error instanceof KubernetesError)) throw error
    if (hasStatus(error, 404, 409, 422)) return
    log.warn({ err: error, parent: `VecBackup ${namespace}/${name}` }, 'report not shortened')
  }
}

export function backupPorts(tools: BackupTools): BackupPorts {
  const { kubernetes, namespaces, log } = tools
  return {
    ...transferPorts(tools),
    deleteBackup: ({ namespace, name, uid }: ObjectIdentity) =>
      kubernetes.delete(backups(namespace), name, { uid }),
    replaceReport: (backup, report) => replaceReport(tools, backup, report),
    restoresOf: (backup: Backup) => restoresOf(kubernetes, namespaces, backup),
    apiTime: (namespace) => apiTime(kubernetes, namespace),
    helmJobsAt: (cluster) => helmJobsAt(tools, cluster),
    schedulePolicy: (namespace, name) => schedulePolicy(kubernetes, namespace, name),
    async purge({ namespace, name, uid, storage, survey }, signal) {
      const bucket = await openBucket(tools, namespace, storage)
      try {
        const target = { prefix: storage.prefix, name, uid }
        return await purge(bucket, target, { signal, survey, now: tools.time.now() })
      } finally {
        bucket.close()
      }
    },
    warn: ({ namespace, name }, message) =>
      log.warn({ parent: `VecBackup ${namespace}/${name}` }, message),
  }
}
