/** The steps of a resharding, planned on views. */
import t from 'tap'
import type { ReshardingRecord } from '../../../../crds/contract/shards-job.ts'
import { planShards } from '../../../../jobs/cluster/shards/plan.ts'
import {
  copiedPoints,
  currentResharding,
  stillCopied,
} from '../../../../jobs/cluster/shards/resharding.ts'
import { planAll } from '../../../../jobs/cluster/shards/simulate.ts'
import type {
  ClusterView,
  CollectionView,
  DesiredShards,
  ReplicaView,
} from '../../../../jobs/cluster/shards/view.ts'
import { DESIRED } from './model.ts'

const OWNER = '0123456789abcdef'
const UUID = '01234567-89ab-cdef-0000-000000000001'
const FOREIGN = 'ffffffff-89ab-cdef-0000-000000000001'

const active = (...peers: number[]): ReplicaView[] =>
  peers.map((peer) => ({ peer, state: 'Active' }))

function viewOf(collection: Partial<CollectionView>, nodes = 3): ClusterView {
  return {
    nodes,
    peers: Array.from({ length: nodes }, (_, ordinal) => ({
      ...{ id: ordinal + 1, ordinal, isMember: true, freeBytes: 10_000 },
    })),
    collections: [{ name: 'docs', factor: 1, shards: [], ...collection }],
    transfers: [],
  }
}

function desired(shards: number, current?: Partial<ReshardingRecord>): DesiredShards {
  const numbers = [{ collection: 'docs', shards }]
  return {
    ...DESIRED,
    resharding: {
      ...{ owner: OWNER, numbers, mayStart: true },
      ...(current !== undefined && { current: { ...RECORD, ...current } }),
    },
  }
}

const RECORD: ReshardingRecord = {
  ...{ collection: 'docs', uuid: UUID, direction: 'up', shard: 2, peer: 3 },
  ...{ stage: 'migrate', done: [] },
}
const TWO = [
  { id: 0, bytes: 300, replicas: active(1) },
  { id: 1, bytes: 300, replicas: active(2) },
]
const up = { uuid: UUID, direction: 'up' as const, shard: 2, peer: 3 }
const added = (state: ReplicaView['state'], ...others: ReplicaView[]) => ({
  ...{ id: 2, bytes: 200, replicas: [{ peer: 3, state }, ...others] },
})
const stepOf = (view: ClusterView, goal: DesiredShards) => {
  const plan = planShards(view, goal)
  return plan.is === 'step' ? plan.step : plan
}

t.test('each number of shards is reached, in the order that loses no point', async (t) => {
  for (const factor of [1, 2]) {
    for (const [from, to] of [
      [1, 3],
      [2, 6],
      [6, 3],
      [3, 1],
    ] as const) {
      const shards = Array.from({ length: from }, (_, id) => ({
        ...{ id, bytes: 100 },
        replicas: active(...[id % 3, (id + 1) % 3].slice(0, factor).map((peer) => peer + 1)),
      }))
      const { steps, end } = planAll(viewOf({ shards, factor }), desired(to))
      const title = `${from} -> ${to}, factor ${factor}`
      t.strictSame(end, { is: 'done' }, title)
      const order = steps.map(({ step }) => step.do)
      const changes = order.filter((step) => step === 'startResharding').length
      t.equal(changes, Math.abs(to - from), `${title}: one shard at a time`)
      let holders = 0
      let cleaned = 0
      for (const { step } of steps) {
        if (step.do === 'startResharding') {
          holders = step.direction === 'up' ? step.shard * factor : 0
          cleaned = 0
        }
        if (step.do === 'cleanReplica') cleaned += 1
        if (step.do === 'commitWrite') t.equal(cleaned, holders, `${title}: every holder is clean`)
      }
      const stages = order.filter((step) => !['replicate', 'drop'].includes(step))
      const once = stages.filter((step, index) => step !== stages[index - 1])
      t.strictSame(
        once,
        Array.from({ length: changes }, (_, change) => [
          'startResharding',
          // The replicas that get points of a removed shard are called Active one by one.
          ...Array.from({ length: to > from ? 1 : (from - 1 - change) * factor }, () => [
            ...['streamPoints', 'finishMigration'],
          ]).flat(),
          'commitRead',
          ...(to > from ? ['cleanReplica'] : []),
          ...['commitWrite', 'finishResharding', 'checkReplica'],
        ]).flat(),
        title,
      )
    }
  }
})

t.test(
  'a new shard is added on the node with the least data, and copied from each other one',
  async (t) => {
    const start = { do: 'startResharding', collection: 'docs', direction: 'up', shard: 2, peer: 3 }
    t.strictSame(stepOf(viewOf({ shards: TWO }), desired(3)), start)
    const view = viewOf({ shards: [...TWO, added('Resharding')], resharding: up })
    const copy = { do: 'streamPoints', collection: 'docs', toShard: 2, to: 3 }
    t.match(stepOf(view, desired(3, {})), { ...copy, shard: 0, from: 1 })
    t.match(stepOf(view, desired(3, { done: ['0/3'] })), { ...copy, shard: 1, from: 2 })
    t.match(stepOf(view, desired(3, { done: ['0/3', '1/3'] })), {
      do: 'finishMigration',
      shard: 2,
      peer: 3,
    })
    const busy = {
      ...view,
      transfers: [{ collection: 'docs', shard: 0, from: 1, to: 3, toShard: 2 }],
    }
    t.match(stepOf(busy, desired(3, { done: ['1/3'] })), { is: 'waiting' })
  },
)

t.test(
  'a shard that another client calls Active before all points are copied is aborted',
  async (t) => {
    const view = viewOf({ shards: [...TWO, added('Active')], resharding: up })
    t.match(stepOf(view, desired(3, { done: ['0/3'] })), { do: 'abortResharding' })
    t.match(stepOf(view, desired(3, { done: ['0/3', '1/3'] })), { do: 'commitRead' })
    t.match(stepOf(viewOf({ shards: TWO, resharding: up }), desired(3, {})), {
      do: 'abortResharding',
    })
  },
)

t.test('a new shard gets its replicas before reads use it', async (t) => {
  const shards = [
    { id: 0, bytes: 300, replicas: active(1, 2) },
    { id: 1, bytes: 300, replicas: active(2, 1) },
  ]
  const done = ['0/3', '1/3']
  const one = viewOf({ shards: [...shards, added('Active')], resharding: up, factor: 2 })
  t.match(stepOf(one, desired(3, { done })), { do: 'replicate', shard: 2, from: 3 })
  const two = viewOf({
    ...{ shards: [...shards, added('Active', ...active(1))], resharding: up, factor: 2 },
  })
  t.match(stepOf(two, desired(3, { done })), { do: 'commitRead' })
})

t.test(
  'it is aborted when the number is set back, as long as reads use the former shards',
  async (t) => {
    const view = viewOf({ shards: [...TWO, added('Resharding')], resharding: up })
    t.match(stepOf(view, desired(2, {})), { do: 'abortResharding' })
    t.match(stepOf(view, desired(4, {})), { do: 'streamPoints' })
    const committed = viewOf({ shards: [...TWO, added('Active')], resharding: up })
    t.match(stepOf(committed, desired(2, { stage: 'commit', done: ['read'] })), {
      do: 'cleanReplica',
    })
    const down = { uuid: UUID, direction: 'down' as const, shard: 1, peer: 2 }
    const removing = viewOf({ shards: TWO, resharding: down })
    const record = { direction: 'down' as const, shard: 1, peer: 2 }
    t.match(stepOf(removing, desired(2, record)), { do: 'abortResharding' })
    t.match(stepOf(removing, desired(1, record)), {
      do: 'streamPoints',
      shard: 1,
      toShard: 0,
      to: 1,
    })
  },
)

t.test(
  'points that are copied: those of an added shard, or the part of a removed one',
  async (t) => {
    const counted = (
      points: number,
      [first, ...more]: readonly CollectionView['shards'][number][],
    ) => [{ ...first, points }, ...more] as CollectionView['shards']
    const sources = TWO.map((shard) => ({ ...shard, points: 300 }))
    const adding = viewOf({
      shards: [...sources, { ...added('Resharding'), points: 120 }],
      resharding: up,
    })
    t.strictSame(copiedPoints(adding, RECORD), { copied: 120, total: 200 })
    t.equal(copiedPoints(adding, { ...RECORD, stage: 'commit' }), undefined)
    const more = viewOf({ shards: [...sources, { ...added('Resharding'), points: 230 }] })
    t.strictSame(copiedPoints(more, RECORD), { copied: 230, total: 230 }, 'an estimate')
    t.equal(copiedPoints(viewOf({ shards: TWO }), RECORD), undefined)

    const down = { ...RECORD, direction: 'down' as const, shard: 2, peer: 1 }
    const shards = [
      { id: 0, bytes: 300, replicas: active(1, 2), points: 300 },
      { id: 1, bytes: 300, replicas: active(2, 3), points: 300 },
      ...counted(400, [{ id: 2, bytes: 300, replicas: active(1) }]),
    ]
    const removing = viewOf({ shards })
    const copied = (view: ClusterView, done: string[]) => copiedPoints(view, { ...down, done })
    t.strictSame(copied(removing, []), { copied: 0, total: 400 })
    t.strictSame(copied(removing, ['0/1', '0/2']), { copied: 200, total: 400 })
    const transfer = { collection: 'docs', shard: 2, from: 1, to: 2, toShard: 1 }
    const comment = 'transferring (0.52s) | Transferring records (100/200), ETA: 1.00s'
    const running = { ...removing, transfers: [{ ...transfer, comment }] }
    t.strictSame(copied(running, ['0/1', '0/2']), { copied: 250, total: 400 })
    const unknown = { ...removing, transfers: [{ ...transfer, comment: 'proxifying (0.01s)' }] }
    t.strictSame(copied(unknown, ['0/1', '0/2', '1/2', '1/3']), { copied: 400, total: 400 })
  },
)

t.test(
  'while a shard is removed, a replica that was repaired or moved gets its points again',
  async (t) => {
    const down = { ...up, direction: 'down' as const }
    const record: ReshardingRecord = {
      ...{ ...RECORD, direction: 'down', done: ['0/1', '0/2', '1/1', '1/3'] },
    }
    const view = viewOf({
      factor: 2,
      resharding: down,
      shards: [
        { id: 0, bytes: 300, replicas: [...active(1), { peer: 2, state: 'Resharding' }] },
        { id: 1, bytes: 300, replicas: [...active(2), { peer: 3, state: 'Dead' }] },
        added('Active'),
      ],
    })
    t.strictSame(stillCopied(view, record), ['0/1', '0/2'])
    // A node that has not applied the same changes may not list a replica.
    t.strictSame(stillCopied({ ...view, unsettled: 'changing' }, record), ['0/1', '0/2', '1/1'])
    t.strictSame(stillCopied(view, { ...record, stage: 'commit' }), record.done)
    t.strictSame(stillCopied(view, { ...record, direction: 'up' }), record.done)
  },
)

t.test('what was committed is completed, from any record', async (t) => {
  const view = viewOf({ shards: [...TWO, added('Active')], resharding: up })
  const after = (...done: string[]) => stepOf(view, desired(3, { stage: 'commit', done }))
  t.match(after(), { do: 'commitRead' })
  t.match(after('read'), { do: 'cleanReplica', shard: 0, peer: 1, target: 2 })
  t.match(after('read', '0/1'), { do: 'cleanReplica', shard: 1, peer: 2, target: 2 })
  t.match(after('read', '0/1', '1/2'), { do: 'commitWrite' })
  t.match(after('read', '0/1', '1/2', 'write'), { do: 'finishResharding' })
  const finished = viewOf({ shards: [...TWO, added('Active')] })
  const end = desired(3, { stage: 'commit', done: ['read', 'write'] })
  t.match(stepOf(finished, end), { do: 'checkReplica', shard: 0, peer: 1 })
  const checked = desired(3, { stage: 'check', done: ['0/1', '1/2', '2/3'] })
  t.strictSame(stepOf(finished, checked), { is: 'done' })
  t.equal(currentResharding(finished, checked), undefined)
})

t.test(
  'nothing is cleaned or written to the new shards alone while a node does not answer',
  async (t) => {
    const view = viewOf({ shards: [...TWO, added('Active')], resharding: up }, 4)
    view.peers = view.peers.map((peer) => (peer.id === 4 ? { ...peer, isMember: false } : peer))
    for (const done of [['read'], ['read', '0/1', '1/2']]) {
      const plan = stepOf(view, { ...desired(3, { stage: 'commit', done }), nodes: 4 })
      t.match(plan, { is: 'waiting', message: 'node 3 does not answer' })
    }
    const lost = { ...desired(3, { stage: 'commit', done: ['read'] }), nodes: 4, lost: [4] }
    t.match(
      stepOf(view, lost),
      { do: 'cleanReplica' },
      'its data is lost: it joins as another peer',
    )
  },
)

t.test('a peer that drives a resharding is not removed, although it is lost', async (t) => {
  const shards = [
    { id: 0, bytes: 300, replicas: active(1) },
    { id: 1, bytes: 300, replicas: active(2) },
    { id: 2, bytes: 200, replicas: active(1) },
  ]
  const view = viewOf({ shards, resharding: up })
  view.peers = view.peers.map((peer) => (peer.id === 3 ? { ...peer, isMember: false } : peer))
  const done = ['read', '0/1', '1/2']
  const plan = stepOf(view, { ...desired(3, { stage: 'commit', done }), lost: [3] })
  t.match(plan, { do: 'commitWrite' })
  const ended = { ...view, collections: [{ name: 'docs', factor: 1, shards }] }
  t.match(stepOf(ended, { ...DESIRED, lost: [3] }), { do: 'removePeer', peer: 3 })
})

const FOREIGN_MESSAGE =
  'docs is being resharded by another client, which has to complete or abort it. If no client does: POST /collections/docs/cluster with {"abort_resharding":{}}'

t.test(
  'one of ours without a record is aborted, that of another client is left alone',
  async (t) => {
    const view = viewOf({ shards: [...TWO, added('Resharding')], resharding: up })
    t.match(stepOf(view, desired(3)), { do: 'abortResharding' })
    const foreign = viewOf({
      ...{ shards: [...TWO, added('Resharding')], resharding: { ...up, uuid: FOREIGN } },
    })
    for (const goal of [desired(3), desired(2), DESIRED]) {
      t.match(stepOf(foreign, goal), {
        ...{ is: 'refused', reason: 'ForeignResharding' },
        message: FOREIGN_MESSAGE,
      })
    }
  },
)

t.test('nothing is checked or cleaned while another client reshards the collection', async (t) => {
  const operation = { ...up, uuid: FOREIGN, shard: 3 }
  const shards = [...TWO, added('Active'), { id: 3, bytes: 1, replicas: active(1) }]
  const view = viewOf({ shards, resharding: operation })
  for (const stage of ['commit', 'check'] as const) {
    t.match(stepOf(view, desired(3, { stage, done: ['0/1'] })), {
      ...{ is: 'refused', reason: 'ForeignResharding' },
      message: FOREIGN_MESSAGE,
    })
  }
  const { resharding: _, ...idle } = view.collections[0] ?? { name: '', factor: 1, shards: [] }
  const ended = { ...view, collections: [idle] }
  t.match(stepOf(ended, desired(3, { stage: 'check', done: ['0/1'] })), { do: 'checkReplica' })
})

t.test('what the engine has aborted is forgotten and started again', async (t) => {
  const view = viewOf({ shards: TWO })
  t.equal(currentResharding(view, desired(3, {})), undefined)
  t.equal(currentResharding(view, desired(3, { stage: 'unknown' })), undefined)
  t.equal(currentResharding(view, desired(3, { stage: 'commit' })), undefined, 'by a user')
  t.match(stepOf(view, desired(3, {})), { do: 'startResharding' })
  const gone = { ...view, collections: [] }
  t.equal(currentResharding(gone, desired(3, { stage: 'check' })), undefined)
})

t.test('nothing is started without space, and the node is named with its numbers', async (t) => {
  const view = viewOf({ shards: TWO })
  view.peers = view.peers.map((peer) => ({ ...peer, freeBytes: 100 }))
  t.strictSame(stepOf(view, desired(3)), {
    ...{ is: 'refused', reason: 'NoCapacity' },
    message:
      'another number of shards of docs needs about 200 bytes on node 0, which has 100 free: enlarge the volumes or delete data',
  })
  t.match(stepOf(view, desired(1)), { reason: 'NoCapacity', message: /about 300 bytes on node 0/ })
})

t.test('a resharding that waits for a shard that cannot be repaired names it', async (t) => {
  const dead = { id: 1, bytes: 300, replicas: [{ peer: 2, state: 'Dead' as const }] }
  const shards = [...TWO.slice(0, 1), dead, added('Resharding')]
  const view = viewOf({ shards, resharding: up })
  const goal = desired(3, {})
  t.strictSame(planShards(view, goal), {
    ...{ is: 'refused', reason: 'NoActiveReplica' },
    message:
      'docs/1 has no Active replica to repair that on node 1 from: restore the collection from a backup',
  })
  const waiting = { is: 'waiting', purpose: 'resharding', message: 'docs/1 on node 1 is Dead' }
  t.strictSame(planShards(view, { ...goal, repair: false }), waiting)
  t.match(stepOf(view, desired(2, {})), { do: 'abortResharding' }, 'the number is set back')

  // Another collection does not end the Job that reshards this one.
  const other = { name: 'broken', factor: 1, shards: [{ ...dead, id: 0 }] }
  const absent = viewOf({ shards: [...TWO, added('Resharding')], resharding: up })
  const peers = absent.peers.map((peer) => (peer.id === 1 ? { ...peer, isMember: false } : peer))
  const collections = [other, ...absent.collections]
  t.strictSame(planShards({ ...absent, peers, collections }, goal), {
    ...waiting,
    message: 'docs/0 on node 0 does not answer',
  })
})

t.test(
  'a collection that cannot be repaired does not delay the resharding of others',
  async (t) => {
    const [good, broken] = [viewOf({ shards: TWO }), [{ peer: 3, state: 'Dead' as const }]]
    const collections = [
      { name: 'broken', factor: 1, shards: [{ id: 0, bytes: 100, replicas: broken }] },
      ...good.collections,
    ]
    const start = { do: 'startResharding', collection: 'docs', direction: 'up', shard: 2 }
    const goal = desired(3)
    t.match(stepOf({ ...good, collections }, goal), start)

    const numbers = [
      { collection: 'broken', shards: 2 },
      { collection: 'docs', shards: 3 },
    ]
    const both = { ...goal, resharding: { owner: OWNER, mayStart: true, numbers } }
    t.match(stepOf({ ...good, collections }, both), start, 'nor if its own number differs')
    t.match(
      stepOf({ ...good, collections }, { ...both, repair: false }),
      start,
      'nor without repair',
    )
    const done = { ...both, resharding: { ...both.resharding, numbers: numbers.slice(0, 1) } }
    t.strictSame(stepOf({ ...good, collections }, done), {
      ...{ is: 'refused', reason: 'NoActiveReplica' },
      message:
        'broken/0 has no Active replica to repair that on node 2 from: restore the collection from a backup',
    })
  },
)

t.test('nothing is started while a replica is not Active, or without the right to', async (t) => {
  const dead: ReplicaView[] = [{ peer: 2, state: 'Dead' }]
  const [first = { id: 0, bytes: 1, replicas: [] }] = TWO
  const view = viewOf({ shards: [first, { id: 1, bytes: 300, replicas: [...active(1), ...dead] }] })
  const unrepaired = { ...desired(3), repair: false }
  t.match(stepOf(view, unrepaired), {
    is: 'waiting',
    message: 'not every replica of docs/1 is Active',
  })
  const { resharding, ...rest } = desired(3)
  const continued = {
    ...rest,
    ...(resharding && { resharding: { ...resharding, mayStart: false } }),
  }
  t.strictSame(stepOf(viewOf({ shards: TWO }), continued), { is: 'done' })
  const keyed = viewOf({ shards: [{ ...first, key: 'a' }] })
  t.match(stepOf(keyed, desired(3)), { is: 'refused', reason: 'ReshardingUnsupported' })
})
