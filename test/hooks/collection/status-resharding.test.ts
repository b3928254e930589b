/** The condition Resharding of a VecCollection. */
import t from 'tap'
import type { VecCluster } from '../../../crds/cluster.ts'
import type { VecCollection } from '../../../crds/collection.ts'
import { immutableDifferences, isReshardable } from '../../../hooks/collection/reconcile-config.ts'
import { reshardingCondition } from '../../../hooks/collection/status.ts'

const collection = (spec: object, conditions: object[] = []) =>
  ({ metadata: { name: 'docs', namespace: 'ns' }, spec, status: { conditions } }) as VecCollection
const cluster = (status: object = {}, namespace = 'ns') =>
  ({ metadata: { name: 'a', namespace }, status }) as unknown as VecCluster
const DESIRED = { clusterRef: { name: 'a' }, shardNumber: 6, shardingMethod: 'auto' }
const running = (direction: 'up' | 'down', name = 'docs') => ({
  shards: { resharding: { collection: name, direction, shard: 3, stage: 'migrate' } },
})

t.test('the condition names the shard and the stage of the work in progress', async (t) => {
  t.strictSame(reshardingCondition(collection(DESIRED), cluster(running('up')), 3), {
    ...{ type: 'Resharding', status: 'True', reason: 'Resharding' },
    message:
      'shard 3 is being added, stage migrate; desired are 6 shards; setting spec.shardNumber to 3 aborts it',
  })
  const two = collection({ ...DESIRED, shardNumber: 2 })
  t.match(reshardingCondition(two, cluster(running('down')), 4), {
    message:
      'shard 3 is being removed, stage migrate; desired are 2 shards; setting spec.shardNumber to 4 aborts it',
  })
})

t.test(
  'it says that it is aborted, or from the commit on that it can only be completed',
  async (t) => {
    const outlook = (direction: 'up' | 'down', stage: string, shardNumber: number) => {
      const { shards } = running(direction)
      const resharding = { ...shards.resharding, stage }
      const condition = reshardingCondition(
        collection({ ...DESIRED, shardNumber }),
        cluster({ shards: { resharding } }),
        3,
      )
      return condition?.message.split(' shards; ').at(-1)
    }
    const completed = 'it can only be completed: reads use the new number of shards'
    const aborted = 'it is aborted, because spec.shardNumber was set back'
    for (const stage of ['commit', 'check']) {
      t.equal(outlook('up', stage, 6), completed)
      t.equal(outlook('up', stage, 3), completed, 'also if the number was set back')
      t.equal(outlook('down', stage, 2), completed)
    }
    t.equal(outlook('up', 'migrate', 4), 'setting spec.shardNumber to 3 aborts it')
    t.equal(outlook('up', 'migrate', 3), aborted)
    t.equal(outlook('down', 'migrate', 3), 'setting spec.shardNumber to 4 aborts it')
    t.equal(outlook('down', 'migrate', 4), aborted)
    t.equal(
      outlook('up', 'unknown', 4),
      'it is aborted, if that is still possible: its record is lost',
    )
  },
)

t.test('the condition has the number of copied points', async (t) => {
  const { shards } = running('up')
  const resharding = { ...shards.resharding, points: { copied: 120, total: 400 } }
  t.match(reshardingCondition(collection(DESIRED), cluster({ shards: { resharding } }), 3), {
    message:
      'shard 3 is being added, stage migrate, about 120 of 400 points are copied; desired are 6 shards; setting spec.shardNumber to 3 aborts it',
  })
})

t.test(
  'it has the step of the Job, its throughput and the time left, if they are known',
  async (t) => {
    const { shards } = running('up')
    const message = (more: object) =>
      reshardingCondition(collection(DESIRED), cluster({ shards: { ...shards, ...more } }), 3)
        ?.message
    const step = 'docs/0: copying points to shard 3, from node 0 to node 1 (62 %)'
    t.equal(
      message({ step, bytesPerSecond: 2048, secondsLeft: 40 }),
      `shard 3 is being added, stage migrate: ${step}, 2 KiB/s, about 40 s left; desired are 6 shards; setting spec.shardNumber to 3 aborts it`,
    )
    t.equal(
      message({ step: 'docs: reading from the new shards' }),
      'shard 3 is being added, stage migrate: docs: reading from the new shards; desired are 6 shards; setting spec.shardNumber to 3 aborts it',
    )
    t.equal(
      message({ step: 'docs-2/0: replicating from node 0 to node 1', bytesPerSecond: 2048 }),
      'shard 3 is being added, stage migrate; desired are 6 shards; setting spec.shardNumber to 3 aborts it',
      'a step of another collection is not its own',
    )
  },
)

t.test(
  'otherwise it compares the number of shards, and names what the cluster waits for',
  async (t) => {
    const placed = {
      type: 'ShardsPlaced',
      status: 'False',
      reason: 'NoCapacity',
      message: 'too small',
    }
    t.strictSame(reshardingCondition(collection(DESIRED), cluster(running('up', 'other')), 6), {
      ...{ type: 'Resharding', status: 'False', reason: 'ShardNumberReached' },
      message: '6 shards, as in spec.shardNumber',
    })
    t.strictSame(reshardingCondition(collection(DESIRED), cluster({ conditions: [placed] }), 2), {
      ...{ type: 'Resharding', status: 'False', reason: 'ReshardingPending' },
      message: '2 shards, desired 6: the cluster has NoCapacity: too small',
    })
    t.match(
      reshardingCondition(
        collection(DESIRED),
        cluster({ conditions: [{ ...placed, status: 'True' }] }),
        2,
      ),
      { message: '2 shards, desired 6' },
    )
  },
)

t.test('the collections of a cluster in another namespace are not named', async (t) => {
  const placed = {
    ...{ type: 'ShardsPlaced', status: 'False', reason: 'LastReplicaLost' },
    message: 'no replica of shard 2 of "secret-project" is left',
  }
  const other = cluster({ conditions: [placed] }, 'platform')
  const condition = reshardingCondition(collection(DESIRED), other, 2)
  t.equal(
    condition?.message,
    '2 shards, desired 6: the cluster has LastReplicaLost; the condition ShardsPlaced of the VecCluster, in namespace platform, has the details',
  )
})

t.test('the previous condition stays while the engine has not answered', async (t) => {
  const previous = {
    type: 'Resharding',
    status: 'False',
    reason: 'ReshardingPending',
    message: 'm',
  }
  t.strictSame(reshardingCondition(collection(DESIRED, [previous]), cluster(), undefined), previous)
  t.equal(reshardingCondition(collection(DESIRED), cluster(), undefined), undefined)
})

t.test('there is none if the number is not the operator’s', async (t) => {
  const { shardNumber: _, ...unset } = DESIRED
  t.equal(reshardingCondition(collection(DESIRED), undefined, 6), undefined)
  t.equal(reshardingCondition(collection(unset), cluster(), 6), undefined)
  const custom = { ...DESIRED, shardingMethod: 'custom' }
  t.equal(reshardingCondition(collection(custom), cluster(), 6), undefined)
})

t.test(
  'the number of shards is immutable without resharding and under custom sharding',
  async (t) => {
    const config = { params: { shard_number: 2, sharding_method: 'custom' } } as never
    const differing = (spec: object, may?: boolean) =>
      immutableDifferences(collection(spec).spec, config, may).map(({ path }) => path)
    const custom = { ...DESIRED, shardingMethod: 'custom' }
    t.strictSame(differing(custom), ['shardNumber'])
    t.strictSame(differing(custom, true), ['shardNumber'])
    t.strictSame(differing(DESIRED, true), ['shardingMethod'])
    t.strictSame(differing(DESIRED, false), ['shardNumber', 'shardingMethod'])
    t.equal(isReshardable(collection(DESIRED).spec, true), true)
  },
)
