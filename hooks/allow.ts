/**
 * Which namespaces may use the key of a VecCluster or the bucket credentials of a VecBackup: the
 * annotation allow-from, and for clusters without it the setting of the installation.
 */
import type { VecBackup } from '../crds/backup.ts'
import type { VecCluster } from '../crds/cluster.ts'
import { ANNOTATIONS } from '../crds/names.ts'
import type { WorkRules } from './at-work.ts'
import type { Context, Settings } from './protocol.ts'

export type CrossNamespace = Pick<Settings, 'crossNamespace'>

type Owner = Pick<VecCluster, 'metadata'> | Pick<VecBackup, 'metadata'>

export interface Refusal {
  reason: 'NotAllowed'
  message: string
}

/** Why resources of a namespace may not use this cluster; undefined when they may. */
export function clusterRefusal(
  cluster: Pick<VecCluster, 'metadata'>,
  from: string,
  { crossNamespace }: CrossNamespace,
): Refusal | undefined {
  const isListed = cluster.metadata.annotations?.[ANNOTATIONS.allowFrom] !== undefined
  const isOpen = !isListed && crossNamespace === 'open'
  if (isOpen || isAllowed(cluster, from)) return undefined
  const wayOut = isListed ? '' : ', or set the chart value crossNamespace to open'
  return refusal('cluster', cluster, from, wayOut)
}

/** The namespaces whose resources count at this cluster. */
export function allowedBy(
  cluster: Pick<VecCluster, 'metadata'>,
  settings: CrossNamespace,
): (namespace: string) => boolean {
  return (namespace) => clusterRefusal(cluster, namespace, settings) === undefined
}

/** Which Jobs hold up the work on a cluster; on one that does not exist, any. */
export function workAt(
  cluster: Pick<VecCluster, 'metadata'> | undefined,
  { now, settings }: Pick<Context, 'now' | 'settings'>,
): WorkRules {
  const isAllowed = cluster === undefined ? () => true : allowedBy(cluster, settings)
  return { isAllowed, jobKeys: settings.jobKeys, now }
}

/** The same for a backup's bucket credentials, which belong to its own namespace alone by default. */
export function backupRefusal(
  backup: Pick<VecBackup, 'metadata'>,
  from: string,
): Refusal | undefined {
  return isAllowed(backup, from) ? undefined : refusal('backup', backup, from, '')
}

function isAllowed({ metadata }: Owner, from: string): boolean {
  if (metadata.namespace === from) return true
  const list = metadata.annotations?.[ANNOTATIONS.allowFrom] ?? ''
  return list.split(',').some((name) => [from, '*'].includes(name.trim()))
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
