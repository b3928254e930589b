/** What a VecRestore names: its target, its backup, and the bucket that is read. */
import t from 'tap'
import {
  restoreBackupRef,
  bucketNamespace,
  formatRestoreSource,
  restoreSource,
  restoreTarget,
} from '../../crds/restore.ts'
import { backup } from '../hooks/backup/objects.ts'
import { directRestore, restore } from '../hooks/restore/objects.ts'

const far = restore({
  spec: {
    backupRef: { name: 'b', namespace: 'archive' },
    targetClusterRef: { name: 'a', namespace: 'search' },
  },
})

t.test('names without a namespace are those of its own', async (t) => {
  t.strictSame(restoreTarget(restore()), { namespace: 'ns', name: 'a' })
  t.strictSame(restoreBackupRef(restore()), { namespace: 'ns', name: 'b' })
  t.strictSame(restoreTarget(far), { namespace: 'search', name: 'a' })
  t.strictSame(restoreBackupRef(far), { namespace: 'archive', name: 'b' })
})

t.test(
  'the credentials of the bucket stand next to the backup, or next to the restore',
  async (t) => {
    t.equal(bucketNamespace(far), 'archive')
    t.equal(bucketNamespace(restore()), 'ns')
    t.equal(bucketNamespace(directRestore()), 'ns')
    t.equal(restoreBackupRef(directRestore()), undefined)
  },
)

t.test('the manifest is in the folder of the backup, under its prefix', async (t) => {
  const { bucket, region, forcePathStyle, credentialsSecretRef } = backup().spec.storage.s3
  const store = { bucket, region, forcePathStyle, credentialsSecretRef }
  t.strictSame(restoreSource(restore(), backup()), { ...store, path: 'daily/b' })
  t.equal(restoreSource(restore(), undefined), undefined, 'the backup is not known yet')
})

t.test('spec.source is used as written, without regard to any VecBackup', async (t) => {
  const { source } = directRestore().spec
  t.strictSame(restoreSource(directRestore(), undefined), source?.s3)
  t.strictSame(restoreSource(directRestore(), backup()), source?.s3)
})

t.test('the status names the backup, or its address without redundant slashes', async (t) => {
  t.equal(formatRestoreSource(restore()), 'b')
  t.equal(formatRestoreSource(directRestore()), 's3://store/daily/b')
  const { s3 } = directRestore().spec.source ?? {}
  const named = directRestore()
  if (s3 !== undefined) named.spec.source = { s3: { ...s3, path: '//a//b//' } }
  t.equal(formatRestoreSource(named), 's3://store/a//b')
})
