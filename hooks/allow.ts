/** Whose credentials another namespace may use: the annotation allow-from of a VecCluster or VecBackup. */
import { ANNOTATIONS } from '../crds/names.ts'

interface Owner {
  metadata: { namespace: string; annotations?: Record<string, string> }
}

/**
 * Whether a namespace may use what belongs to the owner. Without the annotation the key of a cluster
 * is for all (`*`), the credentials of a bucket for the owner's own namespace (an empty list).
 */
export function allows({ metadata }: Owner, namespace: string, otherwise: '*' | ''): boolean {
  if (metadata.namespace === namespace) return true
  const list = metadata.annotations?.[ANNOTATIONS.allowFrom] ?? otherwise
  return list.split(',').some((name) => [namespace, '*'].includes(name.trim()))
}
