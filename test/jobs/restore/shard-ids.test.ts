/** Which ids shards have at the target, and how they come to them. */
import t from 'tap'
import type { ShardKey } from '../../../crds/contract/manifest.ts'
import {
  MAX_SKIPPED,
  withTargetIds,
  keyPlan,
  checkShardIds,
  type KeyStep,
} from '../../../jobs/restore/shard-ids.ts'
import type { RestoreItem } from '../../../jobs/manifest-check.ts'

type Recorded = [ShardKey, ...number[]][]

/** A collection with these keys and the ids of their shards, and nothing else. */
function restoreItem(method: 'Node' | 'Shard', recorded: Recorded): RestoreItem {
  const all = recorded.flatMap(([shardKey, ...ids]) =>
    ids.map((shardId) => ({ shardId, shardKey })),
  )
  const source = {
    shardKeys: recorded.map(([key, ...shardIds]) => ({ key, shardIds })),
    shards: all.map((shard) => ({ ...shard, nodes: [0] })),
    snapshots: all.map((shard) => ({ ...shard, key: `docs/shard-${shard.shardId}` })),
  }
  return { method, source, name: 'docs' } as unknown as RestoreItem
}

/** The result of the steps in the engine: the ids of each key that is left, and the most shards at once. */
function played(steps: readonly KeyStep[]) {
  const keys = new Map<ShardKey, number[]>()
  let most = 0
  for (const step of steps) {
    if ('drop' in step) keys.delete(step.drop)
    else {
      const next = 1 + Math.max(0, ...[...keys.values()].flat())
      keys.set(
        step.create,
        Array.from({ length: step.shards }, (_, index) => next + index),
      )
    }
    most = Math.max(most, [...keys.values()].flat().length)
  }
  return { keys: [...keys], most }
}

t.test('by node every id is the recorded one, however large the gaps', async (t) => {
  const recorded: Recorded = [
    [7, 5, 6],
    ['a', 2],
    ['7', 7],
    ['late', 2500],
  ]
  const plan = keyPlan(restoreItem('Node', recorded))
  const { keys, most } = played(plan.steps)
  t.strictSame(keys, [
    ['a', [2]],
    [7, [5, 6]],
    ['7', [7]],
    ['late', [2500]],
  ])
  t.equal(plan.skipped, 2495)
  t.ok(most < 50, `${most} shards at once`)
  t.ok(plan.steps.every((step) => 'drop' in step || step.shards <= 20))
})

t.test('by shard a key with one shard takes the next id, and nothing is skipped', async (t) => {
  const recorded: Recorded = [
    ['b', 4000],
    ['a', 17],
    [3, 2500],
  ]
  const plan = keyPlan(restoreItem('Shard', recorded))
  t.strictSame(played(plan.steps).keys, [
    ['a', [1]],
    [3, [2]],
    ['b', [3]],
  ])
  t.equal(plan.skipped, 0)
  const { source } = withTargetIds(restoreItem('Shard', recorded), undefined)
  t.strictSame(
    source.snapshots.map((snapshot) => ({ ...snapshot })),
    [
      { shardId: 3, shardKey: 'b', key: 'docs/shard-4000' },
      { shardId: 1, shardKey: 'a', key: 'docs/shard-17' },
      { shardId: 2, shardKey: 3, key: 'docs/shard-2500' },
    ],
    'the object of a shard goes to the shard of its key',
  )
})

t.test(
  'by shard a key with more shards keeps its ids: they decide where points belong',
  async (t) => {
    const recorded: Recorded = [
      ['one', 30],
      ['two', 4, 5],
      ['other', 40],
    ]
    const plan = keyPlan(restoreItem('Shard', recorded))
    t.strictSame(played(plan.steps).keys, [
      ['one', [1]],
      ['other', [2]],
      ['two', [4, 5]],
    ])
    t.equal(plan.skipped, 1, 'the keys with one shard fill the gap first')
    const planned = withTargetIds(restoreItem('Shard', recorded), undefined)
    t.strictSame(played(keyPlan(planned).steps), played(plan.steps), 'planned again it is the same')
  },
)

t.test('of a collection that is there, its shards have their ids by their keys', async (t) => {
  const keys = new Map<number, ShardKey>([
    [1, 'b'],
    [2, 'a'],
    [3, 7],
  ])
  const view = { replicas: [], keys, peers: [] }
  const { source } = withTargetIds(
    restoreItem('Shard', [
      ['a', 9],
      ['b', 11],
      ['7', 12],
    ]),
    view,
  )
  t.strictSame(
    source.shards.map(({ shardId, shardKey }) => [shardId, shardKey]),
    [
      [2, 'a'],
      [1, 'b'],
      [12, '7'],
    ],
    'the key 7 is not the key "7"',
  )
})

t.test('a key of the backup that is called like ours is not deleted', async (t) => {
  const { steps } = keyPlan(restoreItem('Node', [['__vec_operator_gap1', 60]]))
  t.strictSame(played(steps).keys, [['__vec_operator_gap1', [60]]])
})

t.test(
  'what would take too long, or cannot be, is rejected with numbers and a way out',
  async (t) => {
    const last = MAX_SKIPPED + 2
    t.throws(() => checkShardIds(restoreItem('Node', [['a', last]])), {
      message: `${MAX_SKIPPED + 1} shard ids of docs are no longer in use and would have to be skipped, more than the ${MAX_SKIPPED} that are possible: restore a backup with method: Shard`,
    })
    t.doesNotThrow(() => checkShardIds(restoreItem('Node', [['a', last - 1]])))
    t.doesNotThrow(() => checkShardIds(restoreItem('Shard', [['a', last]])))
    t.throws(() => checkShardIds(restoreItem('Shard', [['a', last, last + 1]])), {
      message: /: copy it with a VecMigration$/,
    })
    t.throws(() => checkShardIds(restoreItem('Shard', [['a', 1, 2, 4]])), {
      message: /^shards 1, 2, 4 of shard key "a" of docs are not consecutive/,
    })
  },
)
