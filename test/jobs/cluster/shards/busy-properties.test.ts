/**
 * Properties of the plans for generated clusters in which copies and moves are in progress, volumes are nearly full, shards
 * have keys, and targets of moves have too few points.
 */
import fc from 'fast-check'
import t from 'tap'
import { Dice } from '../../../faults/machine/dice.ts'
import { planShards } from '../../../../jobs/cluster/shards/plan.ts'
import { desiredAfter, viewAfter } from '../../../../jobs/cluster/shards/simulate.ts'
import type { Step } from '../../../../jobs/cluster/shards/step.ts'
import type {
  ClusterView,
  CollectionView,
  DesiredShards,
  Move,
  ReplicaState,
  ReplicaView,
  ShardView,
  TransferView,
} from '../../../../jobs/cluster/shards/view.ts'

const RUNS = 4000
/** As many bytes as a shard has, so often, are enough for another replica of it. */
const PLENTY = 2
const MOST_STEPS = 500
const NAMES = ['docs', 'pictures', 'users']
const MISSING: (ReplicaState | undefined)[] = [undefined, undefined, 'Dead', 'Incomplete']

interface Case {
  view: ClusterView
  desired: DesiredShards
}

/** One for each seed. */
const cases: fc.Arbitrary<Case> = fc.nat().map((seed) => draw(new Dice(seed)))

function draw(dice: Dice): Case {
  const nodes = dice.between(2, 5)
  const random = () => dice.next()
  const below = (limit: number) => Math.floor(random() * limit)
  const chance = (part: number) => random() < part
  const peers = Array.from({ length: nodes }, (_, ordinal) => ({
    ...{ id: ordinal + 1, ordinal, isMember: !chance(0.1) },
    ...(chance(0.5) && { zone: ['a', 'b', 'c'][below(3)] ?? 'a' }),
    ...(chance(0.5) && { freeBytes: below(2500) }),
  }))
  const transfers: TransferView[] = []
  const moves: Move[] = []
  const collections = NAMES.slice(0, 1 + below(3)).map((name): CollectionView => {
    const shards = Array.from({ length: 1 + below(4) }, (_, id) => {
      const { replicas, busy, move } = drawReplicas(nodes, { below, chance })
      const key = chance(0.3) ? `key ${id}` : undefined
      const at = { collection: name, shard: id, ...(key !== undefined && { key }) }
      if (busy !== undefined) transfers.push({ collection: name, shard: id, ...busy })
      if (move !== undefined) moves.push({ ...at, ...move })
      return { id, ...(key !== undefined && { key }), bytes: 1 + below(1000), replicas }
    })
    return { name, factor: 1 + below(3), shards }
  })
  const short = new Set(moves.filter(() => chance(0.3)))
  const seconds = [0, 60, 3600][below(3)] ?? 0
  const own = new Set(transfers.filter(() => chance(0.7)))
  return {
    view: { nodes, peers, collections, transfers },
    desired: {
      ...{ nodes: 1 + below(nodes), repair: chance(0.7), balance: chance(0.7), moves },
      ...{ allowsFewerReplicas: chance(0.3), maxTransfers: 1 + below(3) },
      lost: peers.filter(({ isMember }) => !isMember && chance(0.5)).map(({ id }) => id),
      defectSeconds: () => seconds,
      isOwnCopy: (copy) => own.has(copy),
      hasFewerPoints: (move) => short.has(move),
    },
  }
}

/** Replicas of one shard: maybe one that is copied, or the target of a move. */
function drawReplicas(
  nodes: number,
  { below, chance }: { below: (limit: number) => number; chance: (part: number) => boolean },
) {
  const first = 1 + below(nodes)
  const replicas: ReplicaView[] = [{ peer: first, state: 'Active' }]
  for (let count = below(3); count > 0; count -= 1) {
    const peer = 1 + below(nodes)
    if (replicas.some((replica) => replica.peer === peer)) continue
    replicas.push({ peer, state: MISSING[below(MISSING.length)] ?? 'Active' })
  }
  const free = Array.from({ length: nodes }, (_, index) => index + 1).find(
    (peer) => !replicas.some((replica) => replica.peer === peer),
  )
  if (free === undefined || chance(0.4)) return { replicas }
  const isBusy = chance(0.5)
  replicas.push({ peer: free, state: isBusy ? 'InTransfer' : 'Active' })
  return {
    replicas,
    ...(isBusy && { busy: { from: first, to: free } }),
    ...(chance(0.7) && { move: { from: first, to: free } }),
  }
}

everyStep('a plan ends', (_before, _step, { count }) => count < MOST_STEPS)

everyStep('no more copies are started than may run', (before, step, { desired }) => {
  const isCopy = step.do === 'replicate' || step.do === 'repair'
  return !isCopy || before.transfers.length < desired.maxTransfers
})

everyStep('a shard that is copied is left alone', (before, step) => {
  if (step.do !== 'replicate' && step.do !== 'repair' && step.do !== 'drop') return true
  const isSame = (copy: TransferView) =>
    copy.collection === step.collection && copy.shard === step.shard
  return !before.transfers.some(isSame) || isOfLostNode(before, step)
})

everyStep('a copy goes to a node that has space for it', (before, step) => {
  if (step.do !== 'replicate') return true
  const { freeBytes = Infinity } = before.peers.find(({ id }) => id === step.to) ?? {}
  return freeBytes > (shardOf(before, step)?.bytes ?? 0)
})

everyStep(
  'no replica is dropped while the Job copies another shard of its collection from or to the node',
  (before, step, at) => {
    if (step.do !== 'drop' || isOfLostNode(before, step)) return true
    return !before.transfers.some(
      (copy) =>
        at.desired.isOwnCopy?.(copy) === true &&
        copy.collection === step.collection &&
        (copy.from === step.peer || copy.to === step.peer),
    )
  },
)

everyStep(
  'no shard is left to the target of a move that has too few points',
  (before, step, at) => {
    if (step.do !== 'drop' || isOfLostNode(before, step)) return true
    const { moves, hasFewerPoints } = at.desired
    const short = moves.filter(
      (move) =>
        hasFewerPoints?.(move) === true &&
        move.collection === step.collection &&
        move.shard === step.shard,
    )
    if (!short.some(({ from }) => from === step.peer)) return true
    // What remains is counted once more before the drop.
    const left = short.reduce(
      (view, { to }) => viewAfter(view, { ...step, peer: to }),
      viewAfter(before, step),
    )
    return activeReplicas(left, step) > 0
  },
)

everyStep('a shard keeps the Active replicas that it needs', (before, step, { desired }) => {
  if (step.do !== 'drop') return true
  const factor = before.collections.find(({ name }) => name === step.collection)?.factor ?? 1
  const [had = 0, left = 0] = [before, viewAfter(before, step)].map((view) =>
    activeReplicas(view, step),
  )
  return left >= 1 && (left >= had || left >= Math.min(factor, desired.nodes, before.nodes))
})

everyStep('a new replica shares no zone while a node in another has space', (before, step, at) => {
  if (step.do !== 'replicate' || step.move !== undefined) return true
  const zoneOf = (peer: number) => before.peers.find(({ id }) => id === peer)?.zone
  const { replicas = [], bytes = 0 } = shardOf(before, step) ?? {}
  const used = new Set(replicas.map(({ peer }) => zoneOf(peer)))
  const target = zoneOf(step.to)
  if (target === undefined || !used.has(target)) return true
  const { nodes, lost } = at.desired
  return !before.peers.some(
    ({ id, ordinal, isMember, zone, freeBytes = Infinity }) =>
      isMember &&
      ordinal !== undefined &&
      ordinal < nodes &&
      !lost.includes(id) &&
      !replicas.some(({ peer }) => peer === id) &&
      freeBytes >= PLENTY * bytes &&
      !used.has(zone),
  )
})

/** Checks each step of the plans. What is copied in the beginning is copied until the end. */
function everyStep(
  title: string,
  isRight: (
    before: ClusterView,
    step: Step,
    at: { desired: DesiredShards; count: number },
  ) => boolean,
): void {
  t.test(title, (t) => {
    let drops = 0
    fc.assert(
      fc.property(cases, ({ view, desired: first }) => {
        let [before, desired] = [view, first]
        for (let count = 0; count <= MOST_STEPS; count += 1) {
          const plan = planShards(before, desired)
          if (plan.is !== 'step') return true
          if (plan.step.do === 'drop') drops += 1
          if (!isRight(before, plan.step, { desired, count })) return false
          desired = desiredAfter(desired, plan.step)
          before = viewAfter(before, plan.step)
        }
        return false
      }),
      { numRuns: RUNS },
    )
    t.ok(drops > 100, `${drops} drops`)
    t.end()
  })
}

/** The copies from and to a lost node fail on every node. */
function isOfLostNode(view: ClusterView, step: Step): boolean {
  if (step.do !== 'drop') return false
  return view.peers.find(({ id }) => id === step.peer)?.isMember !== true
}

function shardOf(
  { collections }: ClusterView,
  { collection, shard }: { collection: string; shard: number },
): ShardView | undefined {
  return collections.find(({ name }) => name === collection)?.shards.find(({ id }) => id === shard)
}

function activeReplicas(view: ClusterView, step: { collection: string; shard: number }): number {
  const isMember = (peer: number) => view.peers.find(({ id }) => id === peer)?.isMember === true
  const { replicas = [] } = shardOf(view, step) ?? {}
  return replicas.filter(({ peer, state }) => state === 'Active' && isMember(peer)).length
}
