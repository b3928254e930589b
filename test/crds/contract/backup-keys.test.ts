/** Keys of the objects of a backup: restores and users find the objects by these keys in every release. */
import t from 'tap'
import {
  backupFolder,
  collectionFolder,
  collectionKey,
  manifestKey,
  nodeFolder,
  ownerKey,
  nodeCheckpointKey,
  s3Path,
  shardFolder,
  shardFolderPrefix,
  shardCheckpointKey,
  shardSnapshotKey,
  isShardSnapshotKey,
  snapshotKey,
} from '../../../crds/contract/backup-keys.ts'

const FOLDER = 'nightly/b/'

t.test('a folder is prefix and name; slashes that enclose nothing do not count', async (t) => {
  for (const prefix of ['nightly', '/nightly/', '//nightly//']) {
    t.equal(backupFolder({ prefix, name: 'b' }), FOLDER)
  }
  t.equal(backupFolder({ prefix: '', name: 'b' }), 'b/')
  t.equal(backupFolder({ prefix: 'a/c', name: 'b' }), 'a/c/b/')
  t.equal(s3Path({ bucket: 'store', prefix: '/nightly', name: 'b' }), 's3://store/nightly/b')
})

t.test('the files of a backup by node', async (t) => {
  t.equal(manifestKey(FOLDER), 'nightly/b/manifest.json')
  t.equal(ownerKey(FOLDER), 'nightly/b/owner.json')
  t.equal(collectionFolder(FOLDER, 'docs'), 'nightly/b/docs/')
  t.equal(collectionKey(FOLDER, 'docs'), 'nightly/b/docs/collection.json')
  t.equal(nodeFolder(FOLDER, 'docs', 2), 'nightly/b/docs/node-2/')
  t.equal(nodeCheckpointKey(FOLDER, 'docs', 2), 'nightly/b/docs/node-2/checkpoint.json')
  t.equal(snapshotKey(FOLDER, 'docs', 2, 'x.snapshot'), 'nightly/b/docs/node-2/x.snapshot')
})

t.test('the files of a backup by shard', async (t) => {
  t.equal(shardFolderPrefix(FOLDER, 'docs'), 'nightly/b/docs/shard-')
  t.equal(shardFolder(FOLDER, 'docs', 7), 'nightly/b/docs/shard-7/')
  t.equal(shardCheckpointKey(FOLDER, 'docs', 7), 'nightly/b/docs/shard-7/checkpoint.json')
  t.equal(
    shardSnapshotKey(FOLDER, { collection: 'docs', shardId: 7, attempt: '0a1b2c3d' }),
    'nightly/b/docs/shard-7/docs-7-0a1b2c3d.snapshot',
  )
})

for (const [name, part] of [
  ['docs', 'docs'],
  ['ünï code', 'ünï code'],
  ['a/b', 'a%2Fb'],
  ['a\\b', 'a%5Cb'],
  ['100%', '100%25'],
  ['%2F', '%252F'],
  ['line\nbreak', 'line%0Abreak'],
  ['\u0000\u001f\u007f', '%00%1F%7F'],
  ['manifest.json', '%6Danifest.json'],
  ['owner.json', '%6Fwner.json'],
  ['.', '%2E'],
  ['..', '%2E.'],
] as const) {
  t.test(`a collection named ${JSON.stringify(name)} has a separate folder`, async (t) => {
    t.equal(collectionFolder(FOLDER, name), `${FOLDER}${part}/`)
    const key = shardSnapshotKey(FOLDER, { collection: name, shardId: 0, attempt: '0a1b2c3d' })
    t.equal(key, `${FOLDER}${part}/shard-0/${part}-0-0a1b2c3d.snapshot`)
    t.ok(isShardSnapshotKey(key, name, 0))
    t.ok(isShardSnapshotKey(key.replace('-0a1b2c3d', ''), name, 0), 'of an earlier release')
    t.notOk(isShardSnapshotKey(key, name, 1))
    t.notOk(isShardSnapshotKey(key.replace('-0a1b2c3d', '-elsewhere'), name, 0))
    t.notOk(isShardSnapshotKey(key, `${name}-0`, 0))
    t.equal(snapshotKey(FOLDER, 'docs', 0, name), `${FOLDER}docs/node-0/${part}`)
  })
}
