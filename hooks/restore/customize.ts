/** A VecRestore is shown its target VecCluster and its VecBackup, by name and namespace. */
import { API_VERSION } from '../../crds/names.ts'
import type { VecRestore } from '../../crds/restore.ts'
import type { RelatedRule } from '../protocol.ts'
import { backupOf, targetOf } from '../../crds/rules/restore-places.ts'

export function customize(restore: VecRestore): RelatedRule[] {
  const target = targetOf(restore)
  const backup = backupOf(restore)
  const rule = (resource: string, { namespace, name }: typeof target): RelatedRule => ({
    apiVersion: API_VERSION,
    resource,
    namespace,
    names: [name],
  })
  return [
    rule('vecclusters', target),
    ...(backup === undefined ? [] : [rule('vecbackups', backup)]),
  ]
}
