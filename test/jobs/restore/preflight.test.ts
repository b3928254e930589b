/** Restores that are rejected before any change, each with its message. */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import type { NodeManifest } from '../../../crds/contract/manifest.ts'
import type { RestoreSpec } from '../../../crds/restore.ts'
import { rejectPriority } from '../../../jobs/restore/collection-checks.ts'
import { matchWhole } from '../../match-whole.ts'
import { ask } from './collection-state.ts'
import { FROM_BUCKET } from './external-manifest.ts'
import {
  MANIFEST,
  isRecovery,
  createKeyedCollection,
  run,
  runToDone,
  restoreFixture,
  type RestoreFixture,
} from './restore-fixture.ts'

interface Rejection {
  title: string
  spec?: Partial<RestoreSpec>
  manifest?: (manifest: NodeManifest) => unknown
  arrange?: (stage: RestoreFixture) => unknown
  error: RegExp | string
}

const [first, second] = ['docs', 'other']
const OWNER = 'nightly/b/owner.json'

const REJECTIONS: Rejection[] = [
  {
    title:
      'Backup was taken from N nodes but target cluster has M, with a hint at the method that fits',
    manifest: (manifest) => {
      manifest.nodeCount = 2
      for (const collection of manifest.collections) {
        collection.snapshots = collection.snapshots.slice(0, 2)
        for (const shard of collection.shards) shard.nodes = shard.nodes.filter((node) => node < 2)
      }
    },
    error:
      /^Backup was taken from 2 nodes but target cluster has 3; a backup with spec\.method Shard is restored into any number of nodes$/,
  },
  {
    title: 'Collections not present in backup',
    spec: { collections: ['docs', 'nope', 'none'] },
    error: 'Collections not present in backup: nope, none',
  },
  {
    title: 'a mapping with two sources for one target',
    spec: { collectionMapping: { docs: 'x', other: 'x' } },
    error: 'collectionMapping: docs and other would both become x',
  },
  {
    title: 'a mapping of what is not restored, such as a name that was misspelt',
    spec: { collectionMapping: { dosc: 'docs-copy' } },
    error: 'collectionMapping names collections that are not restored: dosc',
  },
  {
    title: 'no manifest',
    arrange: ({ store }) => store().objects.delete(MANIFEST),
    error: `s3://backups/${MANIFEST} not found: the backup did not finish`,
  },
  {
    title: 'a manifest that is no JSON',
    arrange: ({ store }) => store().put(MANIFEST, Buffer.from('{"a":')),
    error: `s3://backups/${MANIFEST} is not JSON`,
  },
  {
    title: 'a manifest that is too large to be one',
    arrange: ({ store }) => store().put(MANIFEST, Buffer.alloc(65 * 2 ** 20, 32)),
    error: `s3://backups/${MANIFEST} has 65 MiB, more than 64 MiB`,
  },
  {
    title: 'a manifest that was edited by hand',
    manifest: ({ collections: [docs] }) => Object.assign(docs ?? {}, { shards: 'three' }),
    error: /^manifest\.json: \/collections\/0\/shards/,
  },
  {
    title: 'a manifest of a newer version',
    manifest: (manifest) => Object.assign(manifest, { manifestVersion: 99 }),
    error: /^manifest\.json: manifestVersion 99 is newer than this operator reads/,
  },
  {
    title: 'the location of a backup that failed, without two of its collections',
    spec: FROM_BUCKET,
    arrange: ({ store }) => {
      const owner = JSON.parse(store().text(OWNER) ?? '') as { collections: string[] }
      const collections = [...owner.collections, 'lost', 'broken']
      store().put(OWNER, Buffer.from(JSON.stringify({ ...owner, collections })))
    },
    error: `s3://backups/${MANIFEST} is that of a backup that failed, without lost, broken: use another backup, or name the collections to restore in spec.collections`,
  },
  {
    title: 'a manifest of another backup',
    manifest: (manifest) => (manifest.uid = 'another'),
    error: /is that of another backup: its uid is another$/,
  },
  {
    title: 'a key with ../ in it',
    manifest: ({ collections: [docs] }) =>
      docs?.snapshots.forEach((one) => (one.key = one.key.replace('docs/', 'docs/../../../x/'))),
    error: /^manifest\.json: key .* is not in the folder of this backup$/,
  },
  {
    title: 'a key of another folder',
    manifest: ({ collections: [docs] }) =>
      docs?.snapshots.forEach((one) => (one.key = `secrets/${one.key}`)),
    error: /^manifest\.json: key secrets\/.* is not in the folder of this backup$/,
  },
  {
    title: 'an engine that is older than the backup',
    manifest: takenBy('1.19.0'),
    error: /^Backup was taken by engine 1\.19\.0 but the target runs 1\.18\.3/,
  },
  {
    title: 'an engine two minor versions above the backup',
    manifest: takenBy('1.16.2'),
    error: /^Backup was taken by engine 1\.16\.2 but the target runs 1\.18\.3/,
  },
  {
    title: 'consensus that does not work on every node',
    arrange: ({ engine }) => engine.stopConsensus(1, 'Failed to handle committed entries'),
    error:
      'consensus is stopped_with_err on node 1, which a restart of its pod repairs: Failed to handle committed entries',
  },
  {
    title: 'snapshots larger than the disks of a node',
    manifest: ({ collections: [docs] }) =>
      docs?.snapshots.forEach((one) => (one.sizeBytes = 2 ** 50)),
    error: /^node 0 has disks of 100 GiB, but a snapshot of 1 PiB is to go there$/,
  },
]

for (const { title, spec = {}, manifest, arrange, error } of REJECTIONS) {
  t.test(`${title}: Failed without a change`, async (t) => {
    const stood = await restoreFixture(t, { collections: [first, second] })
    if (manifest !== undefined) stood.rewrite(manifest)
    arrange?.(stood)
    const before = JSON.stringify(stood.engine)
    const restore = await stood.world.restore(spec)
    const { code } = await run(restore)
    t.equal(code, EXIT.failed)
    t.match(await restore.progress(), { state: 'Failed' })
    t.match(await restore.result(), { error, phase: 'Downloading' })
    t.equal(JSON.stringify(stood.engine), before)
  })
}

const FAILURES: Rejection[] = [
  {
    title: 'an object that is missing',
    arrange: ({ store, manifest }) =>
      store().objects.delete(manifest().collections[0]?.snapshots[0]?.key ?? ''),
    error: /\/docs\/node-0\/.* is missing$/,
  },
  {
    title: 'an object of another size',
    arrange: ({ store, manifest }) =>
      store().put(manifest().collections[0]?.snapshots[2]?.key ?? '', Buffer.from('cut')),
    error: /\/docs\/node-2\/.* has 3 bytes, not the \d+ of the manifest$/,
  },
  {
    title: 'a target of other vectors',
    arrange: async ({ engine, urls }) => {
      engine.removeCollection('docs')
      const body = { vectors: { size: 7, distance: 'Dot' }, shard_number: 3 }
      await ask(urls[0] ?? '', 'PUT', '/collections/docs', body)
    },
    error: /^collection docs is at the target with other vectors than in the backup: .*"size":7/,
  },
  {
    title: 'a target of another number of shards',
    arrange: ({ engine }) => {
      engine.removeCollection('docs')
      engine.createCollection('docs', 5)
    },
    error:
      /^collection docs is at the target with other shard_number than in the backup: 5 instead of 3: restore it under another name with spec\.collectionMapping, delete the collection, or set spec\.shardNumber of its VecCollection to 3 and wait until it has them$/,
  },
  {
    title: 'a name that is an alias at the target',
    arrange: ({ engine }) => {
      engine.removeCollection('docs')
      engine.aliases.set('docs', 'other')
    },
    error: 'docs is an alias of collection other at the target: use collectionMapping',
  },
  {
    title: 'priority replica where another node holds a copy',
    spec: { priority: 'replica' },
    error:
      /^priority replica is refused for collection docs: it stops the consensus of engines from 1\.18 on for good/,
  },
  {
    title: 'priority no_sync where another node will hold a copy',
    spec: { priority: 'no_sync' },
    arrange: ({ deleteCollections }) => deleteCollections('docs'),
    error: /^priority no_sync is refused for collection docs: it leaves copies that differ/,
  },
]

for (const { title, spec = {}, arrange, error } of FAILURES) {
  t.test(`${title}: that collection failed without a change`, async (t) => {
    const stood = await restoreFixture(t, { collections: [first, second] })
    await arrange?.(stood)
    const before = JSON.stringify(stood.engine.collections.get('docs'))
    const restore = await stood.world.restore({ ...spec, collections: ['docs'] })
    t.equal((await run(restore)).code, EXIT.failed)
    matchWhole(t, await restore.result(), {
      error,
      collections: [{ name: 'docs', status: 'Failed' }],
    })
    t.equal(JSON.stringify(stood.engine.collections.get('docs')), before)
  })
}

t.test(
  'shard keys with other ids at the target are rejected, because points would be in other shards',
  async (t) => {
    const { urls, world, deleteCollections, engine } = await restoreFixture(t, {
      collections: [],
      prepare: createKeyedCollection,
    })
    const [url = ''] = urls
    const { config } = engine.find('keyed') ?? {}
    deleteCollections('keyed')
    await ask(url, 'PUT', '/collections/keyed', { ...config?.params, replication_factor: 2 })
    for (const shard_key of ['a', 7]) {
      await ask(url, 'PUT', '/collections/keyed/shards', { shard_key, shards_number: 1 })
    }
    const before = JSON.stringify(engine.collections.get('keyed'))
    const restore = await world.restore()
    t.equal((await run(restore)).code, EXIT.failed)
    t.match(await restore.result(), {
      error: 'collection keyed is at the target with other shards or shard keys than in the backup',
    })
    t.equal(JSON.stringify(engine.collections.get('keyed')), before)
  },
)

for (const priority of ['replica', 'no_sync'] as const) {
  t.test(`priority ${priority} is passed through where no other node holds a copy`, async (t) => {
    const stood = await restoreFixture(t, { replicationFactor: 1 })
    const priorities: unknown[] = []
    for (const node of stood.nodes) {
      node.misbehave((request) => {
        if (isRecovery(request)) priorities.push((request.body as { priority: unknown }).priority)
        return undefined
      })
    }
    const { code, log } = await run(await stood.world.restore({ priority }))
    t.equal(code, EXIT.done, code === EXIT.done ? 'done' : log)
    await stood.assertRestored('docs')
    t.strictSame(priorities, [priority, priority, priority])
    const alone = await restoreFixture(t, { nodes: 1, replicationFactor: 1 })
    alone.deleteCollections('docs')
    t.equal((await run(await alone.world.restore({ priority }))).code, EXIT.done)
    await alone.assertRestored('docs')
  })
}

t.test(
  'a priority is allowed only where no node but that of the snapshot holds a copy',
  async (t) => {
    const errorOf = (
      { method = 'Shard', nodes = [1] }: { method?: 'Node' | 'Shard'; nodes?: number[] },
      holders: number[] | undefined,
      { replicas = 3, priority = 'replica' }: { replicas?: number; priority?: string } = {},
    ) => {
      const shards = [
        { shardId: 0, nodes: [0] },
        { shardId: 1, nodes },
      ]
      const item = { method, name: 'docs', source: { name: 'docs', shards } } as never
      const statesOf = (ordinals: number[]) =>
        new Map(ordinals.map((ordinal) => [ordinal, 'Active' as const]))
      const views = new Map([
        [0, statesOf([0])],
        ...(holders === undefined ? [] : ([[1, statesOf(holders)]] as const)),
      ])
      try {
        rejectPriority(item, views, { priority, plan: { cluster: { replicas } } } as never)
        return undefined
      } catch (error) {
        return (error as Error).message
      }
    }
    const refused = /^priority replica is refused for collection docs: /
    t.equal(errorOf({}, [1]), undefined)
    t.equal(errorOf({}, [2]), undefined, 'a shard goes to the node that holds it')
    t.equal(errorOf({}, undefined), undefined, 'no node holds it yet')
    t.match(errorOf({}, [1, 2]), refused)
    t.equal(errorOf({}, [1, 2], { priority: 'snapshot' }), undefined)
    t.equal(errorOf({}, [1, 2], { replicas: 1 }), undefined)
    const method = 'Node'
    t.equal(errorOf({ method }, [1]), undefined)
    t.match(errorOf({ method }, [2]), refused, 'it is on another node than that of the snapshot')
    t.match(errorOf({ method }, undefined), refused, 'no node holds it yet')
    t.match(errorOf({ method, nodes: [1, 2] }, [1, 2]), refused)
  },
)

/** The whole backup, and each of its collections. */
function takenBy(engineVersion: string) {
  return (manifest: NodeManifest) => {
    manifest.engineVersion = engineVersion
    for (const collection of manifest.collections) collection.engineVersion = engineVersion
  }
}

interface OwnerFile {
  uid: string
  collections: string[]
}

const SOURCES: {
  title: string
  spec?: Partial<RestoreSpec>
  owner: (owner: OwnerFile) => unknown
}[] = [
  {
    title: 'that failed, for a restore that names its collections',
    spec: { collections: ['docs', 'other'] },
    owner: (owner) => ({ ...owner, collections: [...owner.collections, 'lost'] }),
  },
  {
    title: 'without a collection that a client deleted during the backup',
    owner: (owner) => ({ ...owner, collections: [...owner.collections, 'deleted'] }),
  },
  {
    title: 'whose owner.json is that of another one',
    owner: (owner) => ({ ...owner, uid: 'another', collections: ['lost'] }),
  },
  { title: 'whose owner.json is none', owner: () => 'none' },
  { title: 'whose owner.json is not JSON', owner: () => undefined },
]

for (const { title, spec = {}, owner } of SOURCES) {
  t.test(`the location of a backup ${title}: is restored`, async (t) => {
    const stood = await restoreFixture(t, { collections: [first, second] })
    const { store } = stood
    stood.rewrite((manifest) => (manifest.deletedCollections = ['deleted']))
    const content = owner(JSON.parse(store().text(OWNER) ?? '') as OwnerFile)
    store().put(OWNER, Buffer.from(content === undefined ? '{' : JSON.stringify(content)))
    stood.deleteCollections(first, second)
    await runToDone(t, await stood.world.restore({ ...FROM_BUCKET, ...spec }))
    await stood.assertRestored(first, second)
  })
}
