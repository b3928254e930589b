/** Which number of shards each collection of a cluster should have. */
import { Value } from '@sinclair/typebox/value'
import t from 'tap'
import { VecCollection } from '../../crds/collection.ts'
import { API_VERSION } from '../../crds/contract/names.ts'
import { isOfCluster, shardNumbersOf } from '../../crds/collection-ownership.ts'

t.test(
  'the number of shards is that of the VecCollection that manages the collection',
  async (t) => {
    const named = (
      name: string,
      spec: Partial<VecCollection['spec']>,
      phase = 'Ready',
      health = 'green',
    ) =>
      Value.Parse(['Default', 'Assert'], VecCollection.schema, {
        ...{ apiVersion: API_VERSION, kind: 'VecCollection' },
        metadata: {
          ...{ name, namespace: 'ns', uid: `uid-${name}`, generation: 1 },
          creationTimestamp: `2026-03-01T00:00:0${name === 'younger' ? 1 : 0}Z`,
        },
        spec: {
          ...{ clusterRef: { name: 'a' }, vectors: [{ size: 4, distance: 'Dot' }], shardNumber: 3 },
          ...spec,
        },
        status: { phase, ...(health !== '' && { health }) },
      }) as VecCollection
    const sourceOf = (name: string) => ({ namespace: 'ns', name })
    t.strictSame(
      shardNumbersOf([
        named('zoo', {}),
        named('younger', { collectionName: 'zoo', shardNumber: 5 }),
        named('books', { collectionName: 'Books' }, 'Failed'),
        named('keys', { shardingMethod: 'custom' }),
        named('other', {}, 'Degraded'),
        // It may turn out to be meant for another collection.
        named('unseen', {}, 'Pending', ''),
      ]),
      [
        { collection: 'Books', shards: 3, source: sourceOf('books') },
        { collection: 'zoo', shards: 3, source: sourceOf('zoo') },
      ],
    )
  },
)

t.test(
  'a VecCollection is of the cluster that its reference names, by default in its namespace',
  async (t) => {
    const of = (clusterRef: VecCollection['spec']['clusterRef']) =>
      isOfCluster({ metadata: { namespace: 'ns' }, spec: { clusterRef } } as VecCollection, {
        ...{ namespace: 'ns', name: 'a' },
      })
    t.equal(of({ name: 'a' }), true)
    t.equal(of({ name: 'a', namespace: 'ns' }), true)
    t.equal(of({ name: 'a', namespace: 'other' }), false)
    t.equal(of({ name: 'b' }), false)
  },
)
