/** The bucket that Jobs of the bench work with: how a resource names it, and the keys its Job finds. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { KEYS } from '../contract/bucket/real.ts'

export const STORAGE = {
  ...{ bucket: 'backups', region: 'us-east-1', forcePathStyle: true },
  credentialsSecretRef: {
    name: 'keys',
    accessKeyIdKey: 'CLOUD_ACCESS_KEY_ID',
    secretAccessKeyKey: 'CLOUD_SECRET_ACCESS_KEY',
  },
}

/** Under the folder of its credentials, as the Secret would be mounted. */
export function mountKeys(folder: string): void {
  const mounted = join(folder, 'credentials', 'bucket')
  const { accessKeyIdKey, secretAccessKeyKey } = STORAGE.credentialsSecretRef
  mkdirSync(mounted, { recursive: true })
  writeFileSync(join(mounted, accessKeyIdKey), KEYS.accessKeyId)
  writeFileSync(join(mounted, secretAccessKeyKey), KEYS.secretAccessKey)
}
