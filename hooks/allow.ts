/**
 * Which namespaces may use the key of a VecCluster or the bucket credentials of a VecBackup: the
 * annotation allow-from, and for clusters without it the setting of the installation.
 */
import type { VecBackup } from '../crds/backup.ts'
import type { VecCluster } from '../crds/cluster.ts'
import { ANNOTATIONS } from '../crds/names.ts'
import { allowedBy, hasList, isNamed, type CrossNamespace, type Owner } from './allow-from.ts'

export interface Refusal {
  reason: 'NotAllowed'
  message: string
}

/** Why resources of a namespace may not use this cluster; undefined when they may. */
export function clusterRefusal(
  cluster: Pick<VecCluster, 'metadata'>,
  from: string,
  settings: CrossNamespace,
): Refusal | undefined {
  if (allowedBy(cluster, settings)(from)) return undefined
  const wayOut = hasList(cluster) ? '' : ', or set the chart value crossNamespace to open'
  return refusal('cluster', cluster, from, wayOut)
}

/** The same for a backup's bucket credentials, which belong to its own namespace alone by default. */
export function backupRefusal(
  backup: Pick<VecBackup, 'metadata'>,
  from: string,
): Refusal | undefined {
  return isNamed(backup, from) ? undefined : refusal('backup', backup, from, '')
}

function refusal(
  kind: 'cluster' | 'backup',
  { metadata: { namespace, name } }: Owner,
  from: string,
  wayOut: string,
): Refusal {
  const list = `the annotation ${ANNOTATIONS.allowFrom} of the ${kind}`
  return {
    reason: 'NotAllowed',
    message: `${kind} ${namespace}/${name} does not allow namespace ${from}: add it to ${list}${wayOut}`,
  }
}
