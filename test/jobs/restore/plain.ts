/** What another program that follows the specification leaves in a bucket: snapshots, and their list. */
import type { NodeManifest } from '../../../crds/manifest.ts'
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

export type Specified = ReturnType<typeof specified>

/** The backup in the bucket becomes one of another program: no other field, no other object. */
export function makePlain(
  store: BucketStore,
  change: (manifest: Specified) => void = () => undefined,
): void {
  const manifest = specified(JSON.parse(store.text(MANIFEST) ?? '{}') as NodeManifest)
  change(manifest)
  const named = manifest.collections.flatMap(({ snapshots }) => snapshots.map(({ key }) => key))
  for (const key of store.keys(FOLDER)) if (!named.includes(key)) store.objects.delete(key)
  store.put(MANIFEST, Buffer.from(JSON.stringify(manifest)))
}

/** The fields that the specification has. */
function specified({ backupName, cluster, nodeCount, createdAt, collections }: NodeManifest) {
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
