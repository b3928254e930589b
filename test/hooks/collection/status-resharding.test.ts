/** The condition Resharding of a VecCollection. */
import t from 'tap'
import type { VecCluster } from '../../../crds/cluster.ts'
import type { VecCollection } from '../../../crds/collection.ts'
import { immutableDifferences, isReshardable } from '../../../hooks/collection/reconcile-config.ts'
import { reshardingCondition } from '../../../hooks/collection/status.ts'

const collection = (spec: object, conditions: object[] = []) =>
  ({ metadata: { name: 'docs', namespace: 'ns' }, spec, status: { conditions } }) as VecCollection
const cluster = (status: object = {}) => ({ status }) as unknown as VecCluster
const DESIRED = { clusterRef: { name: 'a' }, shardNumber: 6, shardingMethod: 'auto' }
const running = (direction: 'up' | 'down', name = 'docs') => ({
  shards: { resharding: { collection: name, direction, shard: 3, stage: 'migrate' } },
})

t.test('it names the shard and the stage while the cluster works on the collection', async (t) => {
  t.strictSame(reshardingCondition(collection(DESIRED), cluster(running('up')), 3), {
    ...{ type: 'Resharding', status: 'True', reason: 'Resharding' },
    message: 'shard 3 is being added, stage migrate; desired are 6 shards',
  })
  t.match(reshardingCondition(collection(DESIRED), cluster(running('down')), 3), {
    message: 'shard 3 is being removed, stage migrate; desired are 6 shards',
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
      `shard 3 is being added, stage migrate: ${step}, 2 KiB/s, about 40 s left; desired are 6 shards`,
    )
    t.equal(
      message({ step: 'docs: reading from the new shards' }),
      'shard 3 is being added, stage migrate: docs: reading from the new shards; desired are 6 shards',
    )
    t.equal(
      message({ step: 'docs-2/0: replicating from node 0 to node 1', bytesPerSecond: 2048 }),
      'shard 3 is being added, stage migrate; desired are 6 shards',
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
