/** Many collections, unusual names, and collections that appear during the backup. */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { MAX_PROGRESS_BYTES } from '../../../crds/contract/limits.ts'
import { collectionKey, ownerKey, snapshotKey } from '../../../crds/contract/backup-keys.ts'
import type { NodeCollection } from '../../../crds/contract/manifest.ts'
import { parseManifest } from '../../../jobs/manifest-check.ts'
import { ANNOTATIONS, API_VERSION } from '../../../crds/contract/names.ts'
import type { Owner } from '../../../jobs/backup/owner.ts'
import { addSeal } from '../../../jobs/backup/objects.ts'
import { snapshotFiles } from '../../doubles/engine/snapshots.ts'
import { JOB, START } from '../job-fixture.ts'
import { backupFixture } from './fixture.ts'

const numbered = (count: number) =>
  Array.from({ length: count }, (_, index) => `collection-${String(index).padStart(4, '0')}`)

t.test('100 collections are backed up one after another', async (t) => {
  const { engine, world, manifest, result } = await backupFixture(t, {
    engineCollections: numbered(100),
    nodes: 1,
  })
  const { code, log } = await world.run()
  t.equal(code, EXIT.done, log.slice(-2000))
  t.strictSame(
    parseManifest(manifest()).collections.map(({ name }) => name),
    numbered(100),
  )
  t.match(await result(), { total: 100, completed: 100, failed: 0 })
  t.equal(snapshotFiles(engine).size, 0)
})

t.test(
  'status larger than etcd takes (2,000 collections): summarised, nothing lost, the manifest has all',
  async (t) => {
    const names = numbered(2000)
    const [good = '', bad = '', ...earlier] = names.toReversed()
    const { nodes, world, store, manifest, result } = await backupFixture(t, {
      engineCollections: [good, bad],
      nodes: 1,
    })
    // All but two are complete from an earlier attempt; uploading them here would only take time.
    const put = (key: string, value: object) => store().put(key, Buffer.from(JSON.stringify(value)))
    put(ownerKey(world.folder), ownerWith(world.uid, names))
    for (const name of earlier) {
      const collection = completedCollection(name, world.folder)
      const key = collectionKey(world.folder, name)
      put(key, addSeal(key, { uid: world.uid, collection }, { tools: { jobUid: JOB } }))
      put(collection.snapshots[0]?.key ?? '', {})
    }
    nodes[0]?.misbehave(({ method, path }) =>
      method === 'POST' && path[1] === bad ? { status: 400, body: 'no' } : undefined,
    )
    const { code, log } = await world.run()
    t.equal(code, EXIT.failed, log.slice(-2000))
    const { collections = [], unlisted, ...counts } = await result()
    t.match(counts, { total: 2000, completed: 1999, failed: 1, error: /answered 400/ })
    t.match(
      collections.find(({ status }) => status === 'Failed'),
      { name: bad },
      'as many as fit',
    )
    t.equal(collections.length + (unlisted?.completed ?? 0), 2000)
    const reference = { apiVersion: API_VERSION, kind: 'VecBackup', namespace: 'ns', name: 'b' }
    const found = await world.api.get(reference)
    const text = found?.metadata.annotations?.[ANNOTATIONS.progress] ?? ''
    t.ok(Buffer.byteLength(text) <= MAX_PROGRESS_BYTES, `${text.length} bytes`)
    t.strictSame(
      parseManifest(manifest()).collections.map(({ name }) => name),
      names.filter((name) => name !== bad),
    )
  },
)

t.test('owner.json adds no collection that the spec does not name', async (t) => {
  const { world, store, manifest } = await backupFixture(t, {
    engineCollections: ['public', 'payroll'],
    nodes: 1,
    collections: ['public'],
  })
  const owner = ownerWith(world.uid, ['public', 'payroll', '..'])
  store().put(ownerKey(world.folder), Buffer.from(JSON.stringify(owner)))
  const { code, log } = await world.run()
  t.equal(code, 0, log.slice(-2000))
  t.strictSame(
    manifest().collections.map(({ name }) => name),
    ['public'],
  )
  t.notOk(
    store()
      .keys()
      .some((key) => key.includes('payroll')),
  )
})

function ownerWith(uid: string, collections: string[]): Owner {
  const cluster = { namespace: 'ns', name: 'a' }
  return { uid, namespace: 'ns', name: 'b', cluster, startedAt: START.toISOString(), collections }
}

/** Of one small object. */
function completedCollection(name: string, folder: string): NodeCollection {
  const snapshotName = `${name}-1-2030-01-01-00-00-00.snapshot`
  const key = snapshotKey(folder, name, 0, snapshotName)
  const sha256 = '0'.repeat(64)
  return {
    ...{ name, config: { params: {} }, payloadIndexes: {} },
    ...{ aliases: [], shardKeys: [], shards: [{ shardId: 0, nodes: [0] }] },
    snapshots: [
      { nodeIndex: 0, key, snapshotName, sizeBytes: 2, sha256, localShards: [{ shardId: 0 }] },
    ],
  }
}

const ODD = ['a b', '100%', '%2F', 'ü€😀', 'a+b&c=d', '#1?', "it's", '[x]{y}', '~tilde', '..a']

t.test('collection names that need escaping are backed up under separate keys', async (t) => {
  const { engine, world, keys, manifest } = await backupFixture(t, {
    engineCollections: ODD,
    nodes: 1,
  })
  const { code, log } = await world.run()
  t.equal(code, EXIT.done, log.slice(-2000))
  t.strictSame(
    parseManifest(manifest())
      .collections.map(({ name }) => name)
      .sort(),
    ODD.toSorted(),
  )
  t.equal(keys().filter((key) => key.endsWith('.snapshot')).length, ODD.length)
  t.equal(snapshotFiles(engine).size, 0)
  const proof = await world.verify('s3://backups/nightly/b')
  t.equal(proof.code, EXIT.done, proof.log)
})

t.test('a collection that is created during the backup is not part of it', async (t) => {
  const { engine, nodes, world, manifest, result } = await backupFixture(t, {
    engineCollections: ['a', 'b'],
  })
  nodes[0]?.misbehave(({ method, path }) => {
    if (method === 'POST' && path[1] === 'a' && !engine.collections.has('aa')) {
      engine.createCollection('aa', 2)
    }
    return undefined
  })
  t.equal((await world.run()).code, EXIT.done)
  t.strictSame(
    manifest().collections.map(({ name }) => name),
    ['a', 'b'],
  )
  t.match(await result(), { total: 2, completed: 2 })
})
