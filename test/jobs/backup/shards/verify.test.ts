/** `backup verify` of a backup by shard: what is wrong with it is found from the bucket alone. */
import t from 'tap'
import { EXIT } from '../../../../crds/command.ts'
import { ENDS } from '../../../../jobs/people/command.ts'
import { shardKeyOf, shardStage, type ShardStage } from './stage.ts'

const TARGET = 's3://backups/nightly/b'
const KEY = shardKeyOf('docs', 1)

type Snapshots = ReturnType<ShardStage['manifest']>['collections'][number]['snapshots']

const SPOILT: [string, (scene: ShardStage) => unknown, RegExp][] = [
  [
    'a shard that is missing',
    ({ store }) => store().objects.delete(KEY),
    /docs-1-[0-9a-f]{8}\.snapshot is missing/,
  ],
  [
    'a shard with other bytes',
    ({ store }) => store().objects.get(KEY)?.body.fill('x'),
    /docs-1-[0-9a-f]{8}\.snapshot has the SHA-256 [0-9a-f]{64}, not [0-9a-f]{64}/,
  ],
  [
    'two shards swapped in the bucket',
    ({ store }) => {
      const other = store().objects.get(shardKeyOf('docs', 0))?.body ?? Buffer.alloc(0)
      store().put(KEY, other)
    },
    /docs-1-[0-9a-f]{8}\.snapshot has the SHA-256/,
  ],
  ['a manifest without a shard', rewritten((all) => all.pop()), /has no snapshot of shard 2/],
  [
    'a manifest that has a shard twice',
    rewritten((all) => all.push(...all.slice(0, 1))),
    /has two snapshots of shard 0/,
  ],
  [
    'a manifest with two shards swapped',
    rewritten(([one, other]) => {
      if (one !== undefined && other !== undefined) [one.key, other.key] = [other.key, one.key]
    }),
    /docs-1-[0-9a-f]{8}\.snapshot as the snapshot of shard 0/,
  ],
]

for (const [what, spoil, words] of SPOILT) {
  t.test(`${what} is found and named`, async (t) => {
    const scene = await shardStage(t, { nodes: 1, shards: 3, snapshotBytes: 4096 })
    t.equal((await scene.world.run()).code, EXIT.done)
    spoil(scene)
    const { code, log } = await scene.world.verify(TARGET)
    t.equal(code, ENDS.wrong)
    t.match(log, words)
  })
}

t.test('a line for each object tells its shard and the pod it came from', async (t) => {
  const { world } = await shardStage(t, { nodes: 2, shards: 2 })
  await world.run()
  const { code, log } = await world.verify(TARGET)
  t.equal(code, ENDS.fine)
  for (const shard of [0, 1]) {
    t.match(log, `ok ${shardKeyOf('docs', shard)} collection=docs node=${shard} shard=${shard}`)
  }
})

function rewritten(change: (snapshots: Snapshots) => unknown) {
  return ({ manifest, store }: ShardStage) => {
    const found = manifest()
    delete found.manifestSha256
    change(found.collections[0]?.snapshots ?? [])
    store().put('nightly/b/manifest.json', Buffer.from(JSON.stringify(found)))
  }
}
