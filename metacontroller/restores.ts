/** Which VecRestores read a backup, by its name or by its place in a bucket: a purge waits for them. */
import { Type, type Static } from '@sinclair/typebox'
import { AnyObject } from '../crds/kubernetes.ts'
import { backupFolder } from '../crds/layout.ts'
import type { S3Target } from '../crds/storage.ts'
import { trimmedEnd } from '../crds/text.ts'
import type { ObjectIdentity, ObjectName, Reader } from '../hooks/backup/ports.ts'
import type { Kubernetes } from '../jobs/clients/kubernetes.ts'
import { listed } from './common-ports.ts'
import { restores, served } from './places.ts'

const Optional = Type.Optional(Type.String())

/** No more than tells what it reads: one that an older CRD let in may be at work too. */
const Restore = Type.Object({
  ...AnyObject.properties,
  spec: Type.Object({
    backupRef: Type.Optional(Type.Object({ name: Type.String(), namespace: Optional })),
    source: Type.Optional(
      Type.Object({
        s3: Type.Object({ bucket: Type.String(), path: Type.String(), endpoint: Optional }),
      }),
    ),
  }),
})
type Restore = Static<typeof Restore>

export interface Backup extends ObjectName {
  storage: S3Target
}

/** VecRestores of the namespaces served that read this backup, read live. */
export async function restoresOf(
  kubernetes: Kubernetes,
  namespaces: string[],
  backup: Backup,
): Promise<Reader[]> {
  const all = await listed(kubernetes, served(restores, namespaces), Restore)
  return all.flatMap((restore) => {
    const by = reads(restore, backup)
    return by === undefined ? [] : [{ ...identity(restore), by }]
  })
}

function reads({ metadata, spec }: Restore, backup: Backup): Reader['by'] | undefined {
  const { backupRef, source } = spec
  if (source !== undefined) return isPlaceOf(source.s3, backup) ? 'place' : undefined
  const namespace = backupRef?.namespace ?? metadata.namespace
  const isNamed = backupRef?.name === backup.name && namespace === backup.namespace
  return isNamed ? 'name' : undefined
}

/** One store may have several addresses: a restore by another one records itself in the bucket. */
function isPlaceOf(
  { bucket, path, endpoint }: NonNullable<Restore['spec']['source']>['s3'],
  { name, storage }: Backup,
): boolean {
  return (
    bucket === storage.bucket &&
    backupFolder({ prefix: path, name: '' }) === backupFolder({ prefix: storage.prefix, name }) &&
    addressOf(endpoint) === addressOf(storage.endpoint)
  )
}

/** Without what makes no difference: the case of the host, and slashes at its end. */
function addressOf(endpoint: string | undefined): string {
  return trimmedEnd((endpoint ?? '').toLowerCase(), '/')
}

function identity({ metadata: { namespace = '', name, uid = '' } }: Restore): ObjectIdentity {
  return { namespace, name, uid }
}
