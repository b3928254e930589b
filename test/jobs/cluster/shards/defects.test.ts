/** For how long each replica and node is defective, as far as observations prove it. */
import t from 'tap'
import {
  Defects,
  nodeDefect,
  replicaDefect,
  transferDefect,
} from '../../../../jobs/cluster/shards/defects.ts'
import type { ClusterView } from '../../../../jobs/cluster/shards/view.ts'
import { THREE_NODES, viewOf, type Model } from './model.ts'

const START = Date.parse('2026-01-01T00:00:00Z')
const [OLD, RECENT] = [replicaDefect('docs', 0, 2), replicaDefect('docs', 1, 3)]

t.test('a replica that dies later does not inherit the time of another one', (t) => {
  const defects = observed([
    [0, healthy({ 'docs/0': { 1: 'Active', 2: 'Dead' } })],
    [600, healthy({ 'docs/0': { 1: 'Active', 2: 'Dead' } })],
    [1200, healthy({ 'docs/0': { 1: 'Active', 2: 'Dead' }, 'docs/1': { 1: 'Active', 3: 'Dead' } })],
  ])
  t.equal(defects.secondsOf(OLD, at(1230)), 1230)
  t.equal(defects.secondsOf(RECENT, at(1230)), 30)
  t.strictSame(defects.list(at(1230)), { [OLD]: 1230, [RECENT]: 30 })
  t.end()
})

t.test('a replica that was Active meanwhile starts again, and so does one in a resharding', (t) => {
  for (const state of ['Active', 'Resharding'] as const) {
    const defects = observed([
      [0, healthy({ 'docs/0': { 1: 'Active', 2: 'Dead' } })],
      [300, healthy({ 'docs/0': { 1: 'Active', 2: state } })],
      [600, healthy({ 'docs/0': { 1: 'Active', 2: 'Dead' } })],
    ])
    t.equal(defects.secondsOf(OLD, at(610)), 10, state)
  }
  t.end()
})

t.test('transfers of the engine that fail again and again do not restart the time', (t) => {
  const state = (replica: 'Dead' | 'InTransfer') =>
    healthy({ 'docs/0': { 1: 'Active', 2: replica } })
  const defects = observed([
    [0, state('Dead')],
    [60, state('InTransfer')],
    [300, state('Dead')],
    [360, state('InTransfer')],
    [600, state('Dead')],
  ])
  t.equal(defects.secondsOf(OLD, at(610)), 610)
  defects.observe(healthy({ 'docs/0': { 1: 'Active', 2: 'Active' } }), at(620))
  t.equal(defects.secondsOf(OLD, at(620)), 0, 'Active')
  t.end()
})

t.test('a transfer is no defect: the time of a new replica begins when it has failed', (t) => {
  const state = (replica: 'Dead' | 'InTransfer') =>
    healthy({ 'docs/0': { 1: 'Active', 2: replica } })
  const defects = observed([[0, state('InTransfer')]])
  t.strictSame(defects.list(at(300)), {})
  defects.observe(state('Dead'), at(300))
  t.equal(defects.secondsOf(OLD, at(310)), 10)
  t.end()
})

t.test('the time of a transfer begins again whenever it makes progress', (t) => {
  const transfer = (comment?: string) => ({
    ...{ collection: 'docs', shard: 0, from: 1, to: 2 },
    ...(comment !== undefined && { comment }),
  })
  const copied = (comment?: string): ClusterView => ({
    ...healthy({ 'docs/0': { 1: 'Active', 2: 'InTransfer' } }),
    transfers: [transfer(comment)],
  })
  const secondsAfter = (seconds: number, ...views: [number, ClusterView][]) => {
    const defects = observed(views)
    const last = views.at(-1)?.[1].transfers.at(-1)
    return last && defects.secondsOf(transferDefect(last), at(seconds))
  }
  const downloading = (seconds: number) => copied(`downloading (${seconds}.00s)`)
  t.equal(secondsAfter(910, [0, downloading(1)], [600, downloading(601)]), 910, 'its clock')
  t.equal(secondsAfter(910, [0, downloading(1)], [600, copied('unpacking')]), 310)
  t.equal(secondsAfter(910, [0, copied('records (5/9)')], [600, copied('records (6/9)')]), 310)
  t.equal(secondsAfter(910, [0, copied()], [600, copied()]), 910, 'without a description')
  const ended = healthy({ 'docs/0': { 1: 'Active', 2: 'Active' } })
  const again = [downloading(1), ended, downloading(1)] as const
  t.equal(secondsAfter(910, [0, again[0]], [300, again[1]], [600, again[2]]), 310, 'another one')
  const others = [{ shard: 1 }, { from: 3 }, { to: 3 }, { toShard: 1 }, { collection: 'other' }]
  const keys = [transfer(), ...others.map((other) => ({ ...transfer(), ...other }))]
  t.equal(new Set(keys.map(transferDefect)).size, keys.length)
  t.end()
})

t.test('a replica that changes from one defect to another has been defective all the time', (t) => {
  const defects = observed([
    [0, healthy({ 'docs/0': { 1: 'Active', 2: 'Dead' } })],
    [300, healthy({ 'docs/0': { 1: 'Active', 2: 'Incomplete' } })],
  ])
  t.equal(defects.secondsOf(OLD, at(310)), 310)
  t.end()
})

t.test('a pod that is no node counts, and not the replicas on it', (t) => {
  const peers = { ...THREE_NODES.peers, 2: { ordinal: 1, isUp: false } }
  const shards: Model['shards'] = { 'docs/0': { 1: 'Active', 2: 'Dead' } }
  const defects = observed([[0, viewOf({ ...THREE_NODES, peers, shards })]])
  t.strictSame(defects.list(at(60)), { [nodeDefect(1)]: 60 })
  t.end()
})

t.test('nodes that do not agree prove no repair, and a broken cluster proves nothing', (t) => {
  const dead = healthy({ 'docs/0': { 1: 'Active', 2: 'Dead' } })
  const active = healthy({ 'docs/0': { 1: 'Active', 2: 'Active' } })
  const broken = { reason: 'SplitBrain', message: 'x' }
  const empty = { peers: [], nodes: 3, collections: [], transfers: [], broken }
  const unclear: [number, ClusterView][] = [
    [300, { ...active, unsettled: 'they differ' }],
    [400, empty],
  ]
  const secondsAfter = (view: ClusterView) =>
    observed([[0, dead], ...unclear, [500, view]]).list(at(500))
  t.strictSame(secondsAfter(dead), { [OLD]: 500 })
  t.strictSame(secondsAfter(active), {})
  t.strictSame(observed([[0, { ...dead, unsettled: 'they differ' }]]).list(at(60)), { [OLD]: 60 })
  t.end()
})

t.test('what was not observed for twenty minutes starts again', (t) => {
  const dead = healthy({ 'docs/0': { 1: 'Active', 2: 'Dead' } })
  const secondsAfter = (gap: number) =>
    observed([
      [0, dead],
      [gap, dead],
    ]).secondsOf(OLD, at(gap))
  t.equal(secondsAfter(1199), 1199)
  t.equal(secondsAfter(1200), 0)
  t.end()
})

t.test('a Job continues with the defects of its plan, as long as it observes them', (t) => {
  const defects = new Defects({ [OLD]: 700, [RECENT]: 900 }, at(0))
  t.equal(defects.secondsOf(OLD, at(10)), 710)
  defects.observe(healthy({ 'docs/0': { 1: 'Active', 2: 'Dead' } }), at(10))
  t.strictSame(defects.list(at(20)), { [OLD]: 720 })
  t.end()
})

t.test('the list is bounded, and has the oldest ones', (t) => {
  const known = Array.from(
    { length: 1001 },
    (_, shard) => [replicaDefect('docs', shard, 1), shard] as const,
  )
  const listed = new Defects(Object.fromEntries(known), at(0)).list(at(0))
  t.equal(Object.keys(listed).length, 1000)
  t.notOk(replicaDefect('docs', 0, 1) in listed)
  t.end()
})

function observed(views: [number, ClusterView][]): Defects {
  const defects = new Defects()
  for (const [seconds, view] of views) defects.observe(view, at(seconds))
  return defects
}

function healthy(shards: Model['shards']): ClusterView {
  return viewOf({ ...THREE_NODES, shards })
}

function at(seconds: number): number {
  return START + seconds * 1000
}
