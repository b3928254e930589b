/**
 * A manifest of exactly the fields of the specification, as another program writes it: what it does not
 * say is read from the snapshots.
 */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { tarOf } from '../../doubles/engine/tar.ts'
import { matchWhole } from '../../match-whole.ts'
import { ask } from './collection-state.ts'
import { FROM_BUCKET, makeExternal, type ExternalManifest } from './external-manifest.ts'
import { createKeyedCollection, run, runToDone, restoreFixture } from './restore-fixture.ts'

const NOTE =
  'manifest.json is of another program: it has no engine version, aliases and counts of points to compare'

t.test(
  'points, configuration, indexes, shard keys and replicas are restored from it',
  async (t) => {
    const stood = await restoreFixture(t, {
      collections: ['docs'],
      prepare: async (engine, url) => {
        await createKeyedCollection(engine, url)
        const index = { field_name: 'name', field_schema: { type: 'keyword', is_tenant: true } }
        await ask(url, 'PUT', '/collections/docs/index?wait=true', index)
      },
    })
    makeExternal(stood.store())
    stood.deleteCollections('docs', 'keyed')
    stood.engine.aliases.clear()
    const restore = await stood.world.restore(FROM_BUCKET)
    await runToDone(t, restore)
    await stood.assertRestored('docs')
    t.strictSame(await stood.currentState('keyed'), { ...stood.stateBefore('keyed'), aliases: [] })
    matchWhole(t, await restore.result(), {
      total: 2,
      completed: 2,
      notes: [NOTE, unrecorded('docs', 10), unrecorded('keyed', 6)],
    })
    t.match(await restore.progress(), { message: `Restored 2/2; ${NOTE}` })
  },
)

/** Manifests of others have no number of points. */
const unrecorded = (name: string, points: number) =>
  `${name} has ${points} points; the backup recorded no number to compare with`

t.test('such a backup is restored over a collection; a subset reads no more', async (t) => {
  const stood = await restoreFixture(t, { collections: ['docs', 'other'] })
  makeExternal(stood.store())
  await ask(stood.urls[0] ?? '', 'POST', '/collections/docs/points/delete?wait=true', {
    points: [1, 2],
  })
  stood.deleteCollections('other')
  stood.s3.calls.length = 0
  const restore = await stood.world.restore({ ...FROM_BUCKET, collections: ['docs'] })
  t.equal((await run(restore)).code, EXIT.done)
  await stood.assertRestored('docs')
  t.notOk(stood.engine.find('other'))
  t.strictSame(
    stood.s3.calls.filter(({ key }) => key.includes('/other/')),
    [],
  )
})

t.test('without checksums sizes alone are compared, and the status says so', async (t) => {
  const stood = await restoreFixture(t, { nodes: 1, replicationFactor: 1 })
  makeExternal(stood.store(), ({ collections }) => {
    for (const { snapshots } of collections) for (const one of snapshots) delete one.checksum
  })
  stood.deleteCollections('docs')
  const restore = await stood.world.restore(FROM_BUCKET)
  t.equal((await run(restore)).code, EXIT.done)
  await stood.assertRestored('docs')
  const bare = '1 snapshots have no checksum: only their sizes were compared'
  matchWhole(t, await restore.result(), { notes: [NOTE, bare, unrecorded('docs', 10)] })
})

for (const checksum of ['', null]) {
  t.test(`a checksum ${JSON.stringify(checksum)} is none`, async (t) => {
    const stood = await restoreFixture(t, { nodes: 1, replicationFactor: 1 })
    makeExternal(stood.store(), ({ collections }) => {
      for (const { snapshots } of collections)
        for (const one of snapshots) Object.assign(one, { checksum })
    })
    stood.deleteCollections('docs')
    const restore = await stood.world.restore(FROM_BUCKET)
    const { code, log } = await run(restore)
    t.equal(code, EXIT.done, log)
    await stood.assertRestored('docs')
    const bare = '1 snapshots have no checksum: only their sizes were compared'
    matchWhole(t, await restore.result(), { notes: [NOTE, bare, unrecorded('docs', 10)] })
  })
}

t.test('an object whose bytes changed is not restored where there is a checksum', async (t) => {
  const stood = await restoreFixture(t, { nodes: 1, replicationFactor: 1 })
  let key = ''
  makeExternal(stood.store(), ({ collections }) => (key = collections[0]?.snapshots[0]?.key ?? ''))
  const bytes = Buffer.from(stood.store().objects.get(key)?.body ?? '')
  bytes[600] = (bytes[600] ?? 0) ^ 1
  stood.store().put(key, bytes)
  stood.deleteCollections('docs')
  const restore = await stood.world.restore(FROM_BUCKET)
  t.equal((await run(restore)).code, EXIT.failed)
  t.match(await restore.result(), {
    error: / answered 400: Wrong input: Snapshot checksum mismatch: expected /,
  })
})

type Files = Record<string, unknown>

/** Reads the snapshot of a node as a restore does. */
function archiveOf(files: Files): Buffer {
  return tarOf(
    Object.fromEntries(
      Object.entries(files).map(([name, value]) => [name, Buffer.from(JSON.stringify(value))]),
    ),
  )
}

const CONFIG = { params: { vectors: { size: 2, distance: 'Dot' }, shard_number: 1 }, uuid: 'one' }
const state = (ordinal: number, isLocal: boolean, copy = 'Active') => ({
  is_local: isLocal,
  this_peer_id: ordinal + 1,
  peers: { [ordinal + 1]: copy },
})
const node = (ordinal: number, files: Files = {}): Files => ({
  '0/replica_state.json': state(ordinal, true),
  'config.json': CONFIG,
  'shard_key_mapping.json': [],
  'payload_index.json': { schema: {} },
  ...files,
})

const withoutShards = (ordinal: number) =>
  Object.fromEntries(Object.entries(node(ordinal)).filter(([name]) => !name.startsWith('0/')))

const REFUSED: [string, Files[], RegExp][] = [
  [
    'the copy of a shard was not Active',
    [node(0, { '0/replica_state.json': state(0, true, 'Dead') }), node(1)],
    /shard 0 of docs was Dead on node 0 when its snapshot was made/,
  ],
  [
    'no node has a shard',
    [0, 1].map((ordinal) => node(ordinal, { '0/replica_state.json': state(ordinal, false) })),
    /no node has a snapshot of shard 0 of docs/,
  ],
  [
    'one node does not know a shard',
    [node(0), withoutShards(1)],
    /node-1\/\S+ does not know shard 0 of docs/,
  ],
  [
    'the collection was created again meanwhile',
    [node(0), node(1, { 'config.json': { ...CONFIG, uuid: 'other' } })],
    /from nodes 0 and 1 have different configurations or shard keys/,
  ],
  [
    'a shard key came meanwhile',
    [node(0), node(1, { 'shard_key_mapping.json': [{ key: 'a', shard_ids: [0] }] })],
    /from nodes 0 and 1 have different configurations or shard keys/,
  ],
  [
    'a shard is there that is none of the collection',
    [node(0, { '7/replica_state.json': state(0, true) }), node(1)],
    /has shard 7, which is none of docs: it was resharded/,
  ],
  [
    'it is the snapshot of something else',
    [{ 'readme.txt': 'hello' }, node(1)],
    /it has no config\.json: it is no snapshot of a collection/,
  ],
]

for (const [what, files, message] of REFUSED) {
  t.test(`rejected before any change: ${what}`, async (t) => {
    const stood = await restoreFixture(t, { nodes: 2 })
    makeExternal(stood.store(), (manifest) => {
      for (const [ordinal, one] of snapshotsOf(manifest).entries()) {
        const archive = archiveOf(files[ordinal] ?? {})
        stood.store().put(one.key, archive)
        one.sizeBytes = archive.length
        delete one.checksum
      }
    })
    const restore = await stood.world.restore(FROM_BUCKET)
    t.equal((await run(restore)).code, EXIT.failed)
    t.match((await restore.result()).error, message)
    await stood.assertRestored('docs')
  })
}

t.test('an object that is not a complete tar file is rejected with what is wrong', async (t) => {
  const CUT: [string, (bytes: Buffer) => Buffer, RegExp][] = [
    ['cut', (bytes) => bytes.subarray(0, bytes.length - 2048), /before the end of its tar/],
    ['no tar', () => Buffer.alloc(4096, 'x'), /has no tar header at byte 0/],
    ['endless', endlessMap, /has a sparse file without end at byte 512/],
  ]
  for (const [what, change, message] of CUT) {
    const stood = await restoreFixture(t, { nodes: 1, replicationFactor: 1 })
    makeExternal(stood.store(), (manifest) => {
      for (const one of snapshotsOf(manifest)) {
        const bytes = change(Buffer.from(stood.store().objects.get(one.key)?.body ?? ''))
        stood.store().put(one.key, bytes)
        one.sizeBytes = bytes.length
      }
    })
    const restore = await stood.world.restore(FROM_BUCKET)
    t.equal((await run(restore)).code, EXIT.failed, what)
    t.match((await restore.result()).error, message)
  }
})

t.test('such a manifest in the folder of a VecBackup is rejected', async (t) => {
  const stood = await restoreFixture(t, { nodes: 1, replicationFactor: 1 })
  makeExternal(stood.store())
  const restore = await stood.world.restore()
  t.equal((await run(restore)).code, EXIT.failed)
  t.match((await restore.result()).error, /it is not that of VecBackup b, .* with spec\.source/)
})

t.test('such a backup is rejected for another number of nodes', async (t) => {
  const stood = await restoreFixture(t, { nodes: 2 })
  makeExternal(stood.store(), (manifest) => {
    manifest.nodeCount = 1
    for (const { snapshots } of manifest.collections) snapshots.length = 1
  })
  const restore = await stood.world.restore(FROM_BUCKET)
  t.equal((await run(restore)).code, EXIT.failed)
  t.match((await restore.result()).error, /^Backup was taken from 1 nodes but target cluster has 2/)
})

/** A sparse file whose map continues in every block. */
function endlessMap(): Buffer {
  const bytes = tarOf({ sparse: Buffer.alloc(11_000 * 512) })
  bytes.write('S', 156)
  for (let block = 0; block < 11_000; block += 1) {
    bytes[block * 512 + (block === 0 ? 482 : 504)] = 1
  }
  bytes.fill(' ', 148, 156)
  const sum = bytes.subarray(0, 512).reduce((all, byte) => all + byte, 0)
  bytes.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return bytes
}

function snapshotsOf({ collections }: ExternalManifest) {
  return collections.flatMap(({ snapshots }) => snapshots)
}

t.test('backup verify reads it, and says what cannot be verified', async (t) => {
  const stood = await restoreFixture(t, { collections: ['docs', 'other'] })
  const owner = stood.store().text('nightly/b/owner.json') ?? ''
  makeExternal(stood.store(), ({ collections }) => {
    for (const one of collections[1]?.snapshots ?? []) delete one.checksum
  })
  const target = 's3://backups/nightly/b'
  const whole = await stood.world.verify(target)
  t.equal(whole.code, EXIT.done, whole.log)
  t.match(whole.log, /3 objects have no checksum in the manifest/)
  t.match(whole.log, /all 6 objects have the right size/)

  const key = stood.store().keys('nightly/b/docs/')[0] ?? ''
  stood.store().objects.get(key)?.body.fill('y', 600, 700)
  const changed = await stood.world.verify(target)
  t.equal(changed.code, EXIT.failed)
  t.match(changed.log, /has the SHA-256 [0-9a-f]{64}, not [0-9a-f]{64}/)

  stood.store().put('nightly/b/owner.json', Buffer.from(owner))
  const downgraded = await stood.world.verify(target)
  t.equal(downgraded.code, EXIT.failed)
  t.match(downgraded.log, /no manifestVersion, but the folder belongs to VecBackup ns\/b/)
})
