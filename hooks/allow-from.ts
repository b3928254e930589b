/** The annotation allow-from, and for clusters without it the setting of the installation, as predicates. */
import type { VecBackup } from '../crds/backup.ts'
import type { VecCluster } from '../crds/cluster.ts'
import { ANNOTATIONS } from '../crds/names.ts'
import type { WorkRules } from './at-work.ts'
import type { Context, Settings } from './protocol.ts'

export type CrossNamespace = Pick<Settings, 'crossNamespace'>
export type Owner = Pick<VecCluster, 'metadata'> | Pick<VecBackup, 'metadata'>

export function hasList({ metadata }: Owner): boolean {
  return metadata.annotations?.[ANNOTATIONS.allowFrom] !== undefined
}

/** By its annotation, or as the namespace it is in. */
export function isNamed({ metadata }: Owner, from: string): boolean {
  if (metadata.namespace === from) return true
  const list = metadata.annotations?.[ANNOTATIONS.allowFrom] ?? ''
  return list.split(',').some((name) => [from, '*'].includes(name.trim()))
}

/** The namespaces whose resources count at this cluster. */
export function allowedBy(
  cluster: Pick<VecCluster, 'metadata'>,
  { crossNamespace }: CrossNamespace,
): (namespace: string) => boolean {
  const isOpen = !hasList(cluster) && crossNamespace === 'open'
  return (namespace) => isOpen || isNamed(cluster, namespace)
}

/** Which Jobs hold up the work on a cluster; on one that does not exist, any. */
export function workAt(
  cluster: Pick<VecCluster, 'metadata'> | undefined,
  { now, settings }: Pick<Context, 'now' | 'settings'>,
): WorkRules {
  const isAllowed = cluster === undefined ? () => true : allowedBy(cluster, settings)
  return { isAllowed, jobKeys: settings.jobKeys, now }
}
