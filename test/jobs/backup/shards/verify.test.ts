/** `backup verify` of a backup by shard: what is wrong with it is found from the bucket alone. */
import t from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import { EXIT_CODES } from '../../../../jobs/kubectl/command.ts'
import { shardFixture, type ShardFixture } from './fixture.ts'

const TARGET = 's3://backups/nightly/b'

function keyOf({ manifest }: ShardFixture, shard: number): string {
  return manifest().collections[0]?.snapshots[shard]?.key ?? ''
}

type Snapshots = ReturnType<ShardFixture['manifest']>['collections'][number]['snapshots']

const CORRUPTIONS: [string, (fixture: ShardFixture) => unknown, RegExp][] = [
  [
    'a shard that is missing',
    (fixture) => fixture.store().objects.delete(keyOf(fixture, 1)),
    /docs-1-[0-9a-f]{8}\.snapshot is missing/,
  ],
  [
    'a shard with other bytes',
    (fixture) => fixture.store().objects.get(keyOf(fixture, 1))?.body.fill('x'),
    /docs-1-[0-9a-f]{8}\.snapshot has the SHA-256 [0-9a-f]{64}, not [0-9a-f]{64}/,
  ],
  [
    'two shards swapped in the bucket',
    (fixture) => {
      const store = fixture.store()
      const other = store.objects.get(keyOf(fixture, 0))?.body ?? Buffer.alloc(0)
      store.put(keyOf(fixture, 1), other)
    },
    /docs-1-[0-9a-f]{8}\.snapshot has the SHA-256/,
  ],
  ['a manifest without a shard', rewrite((all) => all.pop()), /has no snapshot of shard 2/],
  [
    'a manifest that has a shard twice',
    rewrite((all) => all.push(...all.slice(0, 1))),
    /has two snapshots of shard 0/,
  ],
  [
    'a manifest with two shards swapped',
    rewrite(([one, other]) => {
      if (one !== undefined && other !== undefined) [one.key, other.key] = [other.key, one.key]
    }),
    /docs-1-[0-9a-f]{8}\.snapshot as the snapshot of shard 0/,
  ],
]

for (const [what, spoil, words] of CORRUPTIONS) {
  t.test(`${what} is found and named`, async (t) => {
    const fixture = await shardFixture(t, { nodes: 1, shards: 3, snapshotBytes: 4096 })
    t.equal((await fixture.world.run()).code, EXIT.done)
    spoil(fixture)
    const { code, log } = await fixture.world.verify(TARGET)
    t.equal(code, EXIT_CODES.failure)
    t.match(log, words)
  })
}

t.test('a line for each object names its shard and its source pod', async (t) => {
  const fixture = await shardFixture(t, { nodes: 2, shards: 2 })
  const { world } = fixture
  await world.run()
  const { code, log } = await world.verify(TARGET)
  t.equal(code, EXIT_CODES.success)
  for (const shard of [0, 1]) {
    t.match(log, `ok ${keyOf(fixture, shard)} collection=docs node=${shard} shard=${shard}`)
  }
})

function rewrite(change: (snapshots: Snapshots) => unknown) {
  return ({ manifest, store }: ShardFixture) => {
    const found = manifest()
    delete found.manifestSha256
    change(found.collections[0]?.snapshots ?? [])
    store().put('nightly/b/manifest.json', Buffer.from(JSON.stringify(found)))
  }
}
