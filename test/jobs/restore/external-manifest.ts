/** What another program that follows the specification leaves in a bucket: snapshots, and their list. */
import type { NodeManifest } from '../../../crds/contract/manifest.ts'
import type { RestoreSpec } from '../../../crds/restore.ts'
import type { BucketStore } from '../../doubles/bucket/store.ts'

const FOLDER = 'nightly/b/'
const MANIFEST = `${FOLDER}manifest.json`

/** A restore of it: there is no VecBackup. */
export const FROM_BUCKET: Partial<RestoreSpec> = {
  source: {
    s3: {
      bucket: 'backups',
      path: 'nightly/b',
      region: 'us-east-1',
      forcePathStyle: true,
      credentialsSecretRef: {
        name: 's3',
        accessKeyIdKey: 'CLOUD_ACCESS_KEY_ID',
        secretAccessKeyKey: 'CLOUD_SECRET_ACCESS_KEY',
      },
    },
  },
}

export type ExternalManifest = ReturnType<typeof externalManifest>

/** The backup in the bucket becomes one of another program: no other field, no other object. */
export function makeExternal(
  store: BucketStore,
  change: (manifest: ExternalManifest) => void = () => undefined,
): void {
  const manifest = externalManifest(JSON.parse(store.text(MANIFEST) ?? '{}') as NodeManifest)
  change(manifest)
  const listedKeys = manifest.collections.flatMap(({ snapshots }) =>
    snapshots.map(({ key }) => key),
  )
  for (const key of store.keys(FOLDER)) if (!listedKeys.includes(key)) store.objects.delete(key)
  store.put(MANIFEST, Buffer.from(JSON.stringify(manifest)))
}

/** The fields that the specification has. */
function externalManifest({
  backupName,
  cluster,
  nodeCount,
  createdAt,
  collections,
}: NodeManifest) {
  return {
    ...{ backupName, cluster, nodeCount, createdAt },
    collections: collections.map(({ name, snapshots }) => ({
      name,
      snapshots: snapshots.map(({ nodeIndex, key, snapshotName, sizeBytes, checksum }) => ({
        ...{ nodeIndex, key, snapshotName, sizeBytes },
        ...(checksum !== undefined && { checksum }),
      })),
    })),
  }
}
