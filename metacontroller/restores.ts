/** Which VecRestores read a backup: its objects stay while one of them is at work. */
import { Type, type Static } from '@sinclair/typebox'
import { AnyObject } from '../crds/kubernetes.ts'
import { VecRestore } from '../crds/restore.ts'
import type { ObjectIdentity, ObjectName } from '../hooks/backup/ports.ts'
import type { Kubernetes } from '../jobs/clients/kubernetes.ts'
import { listed } from './common-ports.ts'
import { restores, served } from './places.ts'

/** No more than tells what it reads: one that an older CRD let in may be at work too. */
const Reader = Type.Object({
  ...AnyObject.properties,
  spec: Type.Pick(VecRestore.schema.properties.spec, ['backupRef']),
})
type Reader = Static<typeof Reader>

/** VecRestores of the namespaces served that name this backup, read live. */
export async function restoresOf(
  kubernetes: Kubernetes,
  namespaces: string[],
  backup: ObjectName,
): Promise<ObjectIdentity[]> {
  const all = await listed(kubernetes, served(restores, namespaces), Reader)
  return all.filter((restore) => reads(restore, backup)).map(identity)
}

function reads({ metadata, spec: { backupRef } }: Reader, { namespace, name }: ObjectName) {
  return backupRef?.name === name && (backupRef.namespace ?? metadata.namespace) === namespace
}

function identity({ metadata: { namespace = '', name, uid = '' } }: Reader): ObjectIdentity {
  return { namespace, name, uid }
}
