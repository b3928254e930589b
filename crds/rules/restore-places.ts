/** What a VecRestore names: its target, its backup, and the bucket that is read. */
import type { VecBackup } from '../backup.ts'
import { backupFolder } from '../layout.ts'
import type { VecRestore } from '../restore.ts'
import type { S3Source } from '../storage.ts'

interface Place {
  namespace: string
  name: string
}

export function targetOf({ metadata, spec }: VecRestore): Place {
  const { name, namespace = metadata.namespace } = spec.targetClusterRef
  return { namespace, name }
}

/** Undefined where the bucket is named directly. */
export function backupOf({ metadata, spec }: VecRestore): Place | undefined {
  if (spec.backupRef === undefined) return undefined
  const { name, namespace = metadata.namespace } = spec.backupRef
  return { namespace, name }
}

/** Where the manifest lies; undefined as long as the backup is not known. */
export function sourceOf(
  { spec }: VecRestore,
  backup: VecBackup | undefined,
): S3Source | undefined {
  if (spec.source !== undefined) return spec.source.s3
  if (backup === undefined) return undefined
  const { prefix, ...rest } = backup.spec.storage.s3
  return { ...rest, path: backupFolder({ prefix, name: backup.metadata.name }).slice(0, -1) }
}

/** Whose namespace holds the credentials of the bucket. */
export function bucketNamespaceOf(restore: VecRestore): string {
  return backupOf(restore)?.namespace ?? restore.metadata.namespace
}

/** For people: the name of the backup, or its address. */
export function sourceName(restore: VecRestore): string {
  const { backupRef, source } = restore.spec
  if (backupRef !== undefined) return backupRef.name
  return `s3://${source?.s3.bucket ?? ''}/${source?.s3.path.replace(/^\/+|\/+$/g, '') ?? ''}`
}
