/** The condition Capacity, and what the status says about the volumes of the nodes. */
import t from 'tap'
import { capacityCondition } from '../../../hooks/cluster/capacity.ts'
import type { Decision } from '../../../hooks/cluster/decision.ts'
import { cluster, context } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { condition, running, sync } from './decisions.ts'
import { member, observedShards, threeNodes } from './shards.ts'

const GIB = 2 ** 30
const VOLUME = 10 * GIB

/** Three nodes with volumes of 10 GiB and this many percent of data; undefined for an unknown size. */
function nodesWith(...percents: (number | undefined)[]) {
  return percents.map((percent, ordinal) => ({
    ordinal,
    volume: `volume-${ordinal}`,
    volumeBytes: VOLUME,
    ...(percent !== undefined && { dataBytes: (percent / 100) * VOLUME }),
  }))
}

function capacityOf(...percents: (number | undefined)[]) {
  return condition(sync(observedShards({}, { nodes: nodesWith(...percents) }), context), 'Capacity')
}

t.test('volumes with less than 70 % of data have space', async (t) => {
  t.strictSame(capacityOf(10, 69.9, 0), [
    ...['True', 'SpaceAvailable', 'the data take at most 69 % of a volume'],
  ])
})

t.test(
  'from 70 % on the optimizer may not find its space, from 90 % on writes fail soon',
  async (t) => {
    t.strictSame(capacityOf(10, 70, 0), [
      'False',
      'VolumeLow',
      'node 1 has about 70 % of its volume of 10 GiB in use: raise spec.persistence.size',
    ])
    t.strictSame(capacityOf(75, 10, 90), [
      'False',
      'VolumeFull',
      'node 2 has about 90 % of its volume of 10 GiB in use, node 0 has about 75 % of its volume of 10 GiB in use: raise spec.persistence.size',
    ])
    t.equal(capacityOf(89.9, 1, 1)?.[1], 'VolumeLow')
  },
)

t.test('many crowded nodes are counted', async (t) => {
  const spec = { replicas: 5 }
  const nodes = nodesWith(71, 75, 74, 73, 72)
  const peers = nodes.map(({ ordinal }) => member(ordinal))
  const observed = observedShards({ cluster: threeNodes({ spec }) }, { nodes, peers })
  const of = (ordinal: number, percent: number) =>
    `node ${ordinal} has about ${percent} % of its volume of 10 GiB in use`
  t.equal(
    capacityCondition(observed)?.message,
    `${of(1, 75)}, ${of(2, 74)}, ${of(3, 73)} and 2 more nodes: raise spec.persistence.size`,
  )
})

t.test('an engine that reports no sizes, or a volume without capacity, is Unknown', async (t) => {
  const message =
    'node 0, node 2 did not report the size of the data, or the volume has no capacity'
  const expected = ['Unknown', 'CapacityUnknown', message]
  t.strictSame(capacityOf(undefined, 10, undefined), expected)
  const nodes = nodesWith(10, 10, 10).map(({ volumeBytes, ...node }) =>
    node.ordinal === 1 ? { ...node, volumeBytes } : node,
  )
  t.strictSame(condition(sync(observedShards({}, { nodes }), context), 'Capacity'), expected)
  t.equal(capacityOf(undefined, 95, 1)?.[1], 'VolumeFull', 'a full volume is reported all the same')
})

t.test('a node that does not answer for a moment changes nothing', async (t) => {
  const before = sync(observedShards({}, { nodes: nodesWith(10, 75, 10) }), context).status
  const observed = { cluster: threeNodes({ status: before }) }
  const peers = [member(0), { ...member(1), isMember: false }, member(2)]
  const silent = sync(
    observedShards(observed, { nodes: nodesWith(10, undefined, 10), peers }),
    context,
  )
  t.equal(condition(silent, 'Capacity')?.[1], 'VolumeLow')
  const { shards: _, ...unasked } = observedShards(observed)
  t.equal(condition(sync(unasked, context), 'Capacity')?.[1], 'VolumeLow')
  const back = sync(observedShards(observed, { nodes: nodesWith(10, 20, 10) }), context)
  t.equal(condition(back, 'Capacity')?.[1], 'SpaceAvailable')
})

t.test('clusters that are not asked for their shards have no such condition', async (t) => {
  t.equal(capacityCondition(running()), undefined)
  const single = cluster({
    spec: { cluster: { enabled: false, p2p: { port: 6335, enableTls: false } } },
    status: { phase: 'Running', appliedRun: 1 },
  })
  const { shards } = observedShards({}, { nodes: nodesWith(95, 95, 95) })
  const observed = { ...running(), ...(shards && { shards }) }
  t.equal(capacityCondition(observed)?.reason, 'VolumeFull')
  t.equal(capacityCondition({ ...observed, cluster: single }), undefined)
})

t.test('the status has data and capacity of each node, in steps of a hundredth', async (t) => {
  const nodesOf = (percent: number) =>
    sync(observedShards({}, { nodes: nodesWith(percent, 0, 0) }), context).status.nodes
  matchWhole(t, nodesOf(12.3), [
    { ordinal: 0, used: Math.round(VOLUME * 0.12), capacity: VOLUME },
    { ordinal: 1, used: 0, capacity: VOLUME },
    { ordinal: 2, used: 0, capacity: VOLUME },
  ])
  t.strictSame(nodesOf(12.3), nodesOf(12.9))
  const [unknown] =
    sync(observedShards({}, { nodes: nodesWith(undefined, 1, 1) }), context).status.nodes ?? []
  t.notOk(unknown !== undefined && 'used' in unknown)
  t.equal(unknown?.capacity, VOLUME)
})

t.test('each change of the reason is one Event, whatever the percentage', async (t) => {
  const reasons = ({ events = [] }: Decision) =>
    events
      .map(({ type, reason }) => `${type} ${reason}`)
      .filter((text) => /Volume|Space|Capacity/.test(text))
  const after = (before: Decision | undefined, ...percents: (number | undefined)[]) => {
    const observed = before && { cluster: threeNodes({ status: before.status }) }
    return sync(observedShards(observed, { nodes: nodesWith(...percents) }), context)
  }
  const first = after(undefined, 10, 10, 10)
  t.strictSame(reasons(first), [])
  const low = after(first, 10, 71, 10)
  t.strictSame(reasons(low), ['Warning VolumeLow'])
  const more = after(low, 10, 75, 80)
  t.strictSame(reasons(more), [])
  const full = after(more, 10, 75, 91)
  t.strictSame(reasons(full), ['Warning VolumeFull'])
  t.strictSame(reasons(after(first, undefined, 10, 10)), [])
  t.strictSame(reasons(after(full, 10, 10, 10)), ['Normal SpaceAvailable'])
})
