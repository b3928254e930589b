/** What a VecRestore names: its target, its backup, and the bucket that is read. */
import t from 'tap'
import {
  backupOf,
  bucketNamespaceOf,
  sourceName,
  sourceOf,
  targetOf,
} from '../../../crds/rules/restore-places.ts'
import { backup } from '../../hooks/backup/objects.ts'
import { direct, restore } from '../../hooks/restore/objects.ts'

const far = restore({
  spec: {
    backupRef: { name: 'b', namespace: 'archive' },
    targetClusterRef: { name: 'a', namespace: 'search' },
  },
})

t.test('names without a namespace are those of its own', async (t) => {
  t.strictSame(targetOf(restore()), { namespace: 'ns', name: 'a' })
  t.strictSame(backupOf(restore()), { namespace: 'ns', name: 'b' })
  t.strictSame(targetOf(far), { namespace: 'search', name: 'a' })
  t.strictSame(backupOf(far), { namespace: 'archive', name: 'b' })
})

t.test(
  'the credentials of the bucket stand beside the backup, or beside the restore',
  async (t) => {
    t.equal(bucketNamespaceOf(far), 'archive')
    t.equal(bucketNamespaceOf(restore()), 'ns')
    t.equal(bucketNamespaceOf(direct()), 'ns')
    t.equal(backupOf(direct()), undefined)
  },
)

t.test('the manifest lies in the folder of the backup, under its prefix', async (t) => {
  const { bucket, region, forcePathStyle, credentialsSecretRef } = backup().spec.storage.s3
  const store = { bucket, region, forcePathStyle, credentialsSecretRef }
  t.strictSame(sourceOf(restore(), backup()), { ...store, path: 'daily/b' })
  t.equal(sourceOf(restore(), undefined), undefined, 'the backup is not known yet')
})

t.test('a bucket that is named directly is read as it is named, whatever the backup', async (t) => {
  const { source } = direct().spec
  t.strictSame(sourceOf(direct(), undefined), source?.s3)
  t.strictSame(sourceOf(direct(), backup()), source?.s3)
})

t.test('people read the name of the backup, or its address without idle slashes', async (t) => {
  t.equal(sourceName(restore()), 'b')
  t.equal(sourceName(direct()), 's3://store/daily/b')
  const { s3 } = direct().spec.source ?? {}
  const named = direct()
  if (s3 !== undefined) named.spec.source = { s3: { ...s3, path: '//a//b//' } }
  t.equal(sourceName(named), 's3://store/a//b')
})
