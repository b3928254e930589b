/**
 * Every state that small clusters can reach, with every order of steps, transfers, failures of
 * transfers and of nodes, collections that clients create, and crashes of the Job between them.
 */
import t from 'tap'
import type { Step } from '../../../../jobs/cluster/shards/step.ts'
import type { DesiredShards } from '../../../../jobs/cluster/shards/view.ts'
import {
  abortTransfer,
  activeCounts,
  apply,
  createKey,
  deleteKey,
  DESIRED,
  finishTransfer,
  missWrites,
  neededReplicas,
  nextPlan,
  replaceReleased,
  start,
  stop,
  THREE_NODES,
  type Model,
} from './model.ts'

interface World {
  title: string
  model: Model
  desired: DesiredShards
  /** Failures on one path. */
  failures: number
  /** Where every path ends that has no more failures. */
  end: 'done' | 'refused'
  /** A user moves shards meanwhile. */
  hasUser?: true
}

/** An update of three nodes: none has the new template yet. */
const UPDATE = { partition: 3, outdated: [0, 1, 2] }
const UPDATED: DesiredShards = {
  ...DESIRED,
  update: { singleCopies: 'Restart', allowsLastCopy: false },
}

/** More than any of these worlds needs. */
const MAX_STEPS = 200

const peers = (count: number) =>
  Object.fromEntries(
    Array.from({ length: count }, (_, ordinal) => [ordinal + 1, { ordinal, isUp: true }]),
  )

const WORLDS: World[] = [
  {
    title: 'scale-in from three nodes to two',
    model: {
      ...THREE_NODES,
      shards: { 'docs/0': { 1: 'Active', 3: 'Active' }, 'docs/1': { 2: 'Active', 3: 'Active' } },
    },
    desired: { ...DESIRED, nodes: 2 },
    failures: 3,
    end: 'done',
  },
  {
    title: 'scale-in by two nodes with single replicas',
    model: {
      ...THREE_NODES,
      shards: { 'docs/0': { 2: 'Active' }, 'docs/1': { 3: 'Active' }, 'docs/2': { 1: 'Active' } },
      factor: 1,
    },
    desired: { ...DESIRED, nodes: 1, maxTransfers: 2 },
    failures: 3,
    end: 'done',
  },
  {
    title: 'scale-in that would leave too few nodes',
    model: {
      pods: 2,
      peers: peers(2),
      shards: { 'docs/0': { 1: 'Active', 2: 'Active' } },
      transfers: {},
      factor: 2,
      moves: [],
    },
    desired: { ...DESIRED, nodes: 1 },
    failures: 1,
    end: 'refused',
  },
  {
    title: 'scale-in that a user accepts although replicas are lost',
    model: {
      pods: 2,
      peers: peers(2),
      shards: { 'docs/0': { 1: 'Active', 2: 'Active' } },
      transfers: {},
      factor: 2,
      moves: [],
    },
    desired: { ...DESIRED, nodes: 1, allowsFewerReplicas: true },
    failures: 1,
    end: 'done',
  },
  {
    title: 'scale-out with balance',
    model: {
      ...THREE_NODES,
      shards: {
        'docs/0': { 1: 'Active', 2: 'Active' },
        'docs/1': { 1: 'Active', 2: 'Active' },
        'docs/2': { 1: 'Active', 2: 'Active' },
      },
    },
    desired: { ...DESIRED, balance: true, maxTransfers: 2 },
    failures: 1,
    end: 'done',
  },
  {
    title: 'replicas that are missing, Dead, Incomplete, Unreadable and Disputed',
    model: {
      ...THREE_NODES,
      shards: {
        'docs/0': { 1: 'Active' },
        'docs/1': { 1: 'Dead', 2: 'Active' },
        'docs/2': { 2: 'Incomplete', 3: 'Active' },
        'docs/3': { 3: 'Unreadable', 1: 'Active' },
        'docs/4': { 3: 'Disputed', 2: 'Active' },
      },
    },
    desired: DESIRED,
    failures: 1,
    end: 'done',
  },
  {
    title: 'a lost node whose replicas are Active elsewhere',
    model: {
      ...THREE_NODES,
      peers: { ...peers(2), 3: { ordinal: 2, isUp: false }, 4: { ordinal: 2, isUp: true } },
      shards: { 'docs/0': { 1: 'Active', 3: 'Active' }, 'docs/1': { 2: 'Active', 3: 'Active' } },
    },
    desired: { ...DESIRED, lost: [3] },
    failures: 1,
    end: 'done',
  },
  {
    title: 'a lost node with the last replica of a shard',
    model: {
      ...THREE_NODES,
      peers: { ...peers(2), 3: { ordinal: 2, isUp: false }, 4: { ordinal: 2, isUp: true } },
      shards: { 'docs/0': { 1: 'Active', 3: 'Active' }, 'docs/1': { 3: 'Active' } },
    },
    desired: { ...DESIRED, lost: [3] },
    failures: 1,
    end: 'refused',
  },
  {
    title: 'scale-in with a shard key of more replicas than the factor',
    model: {
      ...{ pods: 4, peers: peers(4), transfers: {}, moves: [] },
      shards: {
        'docs/0': { 1: 'Active', 4: 'Active' },
        'keyed/0': { 1: 'Active', 2: 'Active', 4: 'Active' },
      },
      ...{ keys: { 'keyed/0': 'first' }, factor: 2, keyFactor: 3 },
    },
    desired: { ...DESIRED, nodes: 3 },
    failures: 2,
    end: 'done',
  },
  {
    title: 'scale-in with a shard key of more replicas than nodes would remain',
    model: {
      ...{ pods: 3, peers: peers(3), transfers: {}, moves: [] },
      shards: { 'keyed/0': { 1: 'Active', 2: 'Active', 3: 'Active' } },
      ...{ keys: { 'keyed/0': 'first' }, factor: 2 },
    },
    desired: { ...DESIRED, nodes: 2 },
    failures: 2,
    end: 'refused',
  },
  {
    title: 'scale-out with shard keys that come and go',
    model: {
      ...{ pods: 4, peers: peers(4), transfers: {}, moves: [] },
      shards: {
        'docs/0': { 1: 'Active', 2: 'Active' },
        'keyed/0': { 1: 'Active', 2: 'Active', 3: 'Active' },
      },
      ...{ keys: { 'keyed/0': 'first' }, factor: 2, keyFactor: 3 },
    },
    desired: { ...DESIRED, balance: true },
    failures: 3,
    end: 'done',
  },
  {
    title: 'two lost nodes with both replicas of a shard',
    model: {
      ...{ pods: 5, transfers: {}, moves: [], factor: 2 },
      peers: {
        ...peers(3),
        4: { ordinal: 3, isUp: false },
        5: { ordinal: 4, isUp: false },
        6: { ordinal: 3, isUp: true },
        7: { ordinal: 4, isUp: true },
      },
      shards: { 'docs/0': { 4: 'Active', 5: 'Active' }, 'docs/1': { 1: 'Active', 4: 'Active' } },
    },
    desired: { ...DESIRED, nodes: 5, lost: [4, 5] },
    failures: 1,
    end: 'refused',
  },
  {
    title: 'scale-in while a user moves shards',
    model: {
      ...THREE_NODES,
      shards: { 'docs/0': { 1: 'Active', 3: 'Active' }, 'docs/1': { 2: 'Active', 3: 'Active' } },
    },
    desired: { ...DESIRED, nodes: 2 },
    ...{ failures: 3, end: 'done', hasUser: true },
  },
  {
    title: 'scale-out while a user moves shards',
    model: {
      ...THREE_NODES,
      shards: {
        'docs/0': { 1: 'Active', 2: 'Active' },
        'docs/1': { 1: 'Active', 2: 'Active' },
        'docs/2': { 1: 'Active', 2: 'Active' },
      },
    },
    desired: { ...DESIRED, balance: true, maxTransfers: 2 },
    ...{ failures: 2, end: 'done', hasUser: true },
  },
  {
    title: 'an update of three nodes',
    model: {
      ...THREE_NODES,
      shards: {
        'docs/0': { 1: 'Active', 2: 'Active' },
        'docs/1': { 2: 'Active', 3: 'Active' },
      },
      update: UPDATE,
    },
    desired: UPDATED,
    failures: 2,
    end: 'done',
  },
  {
    title: 'an update while replicas are missing and Dead',
    model: {
      ...THREE_NODES,
      shards: { 'docs/0': { 1: 'Dead', 3: 'Active' }, 'docs/1': { 2: 'Active' } },
      update: UPDATE,
    },
    desired: UPDATED,
    failures: 1,
    end: 'done',
  },
  {
    title: 'an update while a replica is Dead and not repaired',
    model: {
      ...THREE_NODES,
      shards: { 'docs/0': { 1: 'Dead', 2: 'Active' } },
      update: UPDATE,
    },
    desired: { ...UPDATED, repair: false },
    // A node that is down is updated whatever it holds.
    failures: 0,
    end: 'refused',
  },
  {
    title: 'an update with single replicas',
    model: {
      ...THREE_NODES,
      shards: { 'docs/0': { 1: 'Active' }, 'docs/1': { 3: 'Active' } },
      factor: 1,
      update: UPDATE,
    },
    desired: UPDATED,
    failures: 1,
    end: 'done',
  },
  {
    title: 'an update that single replicas do not allow',
    model: {
      ...THREE_NODES,
      shards: { 'docs/0': { 2: 'Active' } },
      factor: 1,
      update: UPDATE,
    },
    desired: { ...UPDATED, update: { singleCopies: 'Refuse', allowsLastCopy: false } },
    failures: 0,
    end: 'refused',
  },
  {
    title: 'an update of a cluster in which a node is down and stays down with the old template',
    model: {
      ...THREE_NODES,
      peers: { ...peers(2), 3: { ordinal: 2, isUp: false } },
      shards: { 'docs/0': { 1: 'Active', 3: 'Active' } },
      update: UPDATE,
    },
    desired: UPDATED,
    failures: 1,
    end: 'done',
  },
]

for (const world of WORLDS) {
  t.test(`no step takes an Active replica that is needed: ${world.title}`, (t) => {
    const { states, ends } = explore(world)
    t.ok(states > 3, `${states} states`)
    t.strictSame([...ends], [world.end], 'where paths without further failures end')
    t.end()
  })
}

interface State {
  model: Model
  failures: number
}

/** Breadth first over every state, once each. */
function explore({ model, desired, failures, end, hasUser }: World) {
  const ends = new Set<string>()
  const visited = new Set<string>()
  let frontier: State[] = [{ model, failures }]
  while (frontier.length > 0) {
    const next: State[] = []
    for (const state of frontier) {
      const key = JSON.stringify(state)
      if (visited.has(key)) continue
      visited.add(key)
      ends.add(endOf(state.model, desired, end))
      next.push(...successors(state, desired))
      if (hasUser === true && state.failures > 0) {
        const left = state.failures - 1
        next.push(...movedByUser(state.model).map((after) => ({ model: after, failures: left })))
      }
    }
    frontier = next
  }
  return { states: visited.size, ends }
}

function successors({ model, failures }: State, desired: DesiredShards): State[] {
  const plan = nextPlan(model, desired)
  const stepped = plan.is === 'step' ? [checkedStep(model, plan.step, desired)] : []
  // The pod of the Job is killed after it has written its moves and before the step.
  const unsent =
    plan.is === 'step' && plan.step.do === 'replicate' && plan.step.move !== undefined
      ? [{ ...model, moves: [plan.step.move] }]
      : []
  const transfers = Object.keys(model.transfers)
  const restarts = replaceReleased(model).flatMap((next) => [
    next,
    ...stoppedBy(model, next).map((peer) => missWrites(next, peer)),
  ])
  const harmless = [
    ...stepped,
    ...restarts,
    ...transfers.map((shard) => finishTransfer(model, shard)),
  ]
  const starts = downPeers(model, desired).map((peer) => start(model, peer))
  if (failures === 0) return [...harmless, ...starts].map((next) => ({ model: next, failures }))
  const harmful = [
    ...unsent,
    ...created(model),
    ...rekeyed(model),
    ...transfers.map((shard) => abortTransfer(model, shard)),
    ...upPeers(model).map((peer) => stop(model, peer)),
  ]
  return [
    ...[...harmless, ...starts].map((next) => ({ model: next, failures })),
    ...harmful.map((next) => ({ model: next, failures: failures - 1 })),
  ]
}

/** A client creates a collection: its shard is placed on the node that the Job may be removing. */
function created(model: Model): Model[] {
  const peer = upPeers(model).at(-1)
  if (peer === undefined || 'new/0' in model.shards) return []
  const next = structuredClone(model)
  next.shards['new/0'] = { [peer]: 'Active' }
  return [next]
}

/** A client deletes a shard key, or creates another one, which gets the id of the deleted shard. */
function rekeyed(model: Model): Model[] {
  if (model.keyFactor === undefined) return []
  const present = Object.keys(model.keys ?? {})
  if (present.length > 0) return present.map((shard) => deleteKey(model, shard))
  const peers = upPeers(model).slice(-model.keyFactor)
  if (peers.length < model.keyFactor) return []
  return [createKey(model, 'keyed/0', 'second', peers)]
}

/** A user moves one replica of a shard, or adds one and later drops another. */
function movedByUser(model: Model): Model[] {
  return Object.entries(model.shards).flatMap(([shard, replicas]) => {
    if (model.transfers[shard] !== undefined) return []
    const [target] = upPeers(model).filter((peer) => !(peer in replicas))
    const holders = upPeers(model).filter((peer) => replicas[peer] === 'Active')
    return holders.flatMap((holder) => {
      const { [holder]: _, ...others } = replicas
      const added = target === undefined ? undefined : { ...replicas, [target]: 'Active' as const }
      const moved = target === undefined ? undefined : { ...others, [target]: 'Active' as const }
      const dropped = Object.values(others).includes('Active') ? others : undefined
      return [added, moved, dropped]
        .filter((after) => after !== undefined)
        .map((after) => ({
          ...structuredClone(model),
          shards: { ...model.shards, [shard]: after },
        }))
    })
  })
}

/** Peers that are up in the first state and down in the second. */
function stoppedBy(before: Model, after: Model): number[] {
  return upPeers(before).filter((peer) => !upPeers(after).includes(peer))
}

/** Throws if the engine refuses the step, or if it takes a replica that is needed. */
function checkedStep(model: Model, step: Step, desired: DesiredShards): Model {
  const next = apply(model, step)
  const before = activeCounts(model)
  if (step.do === 'updateNode') {
    for (const restarted of replaceReleased(next)) checkRestart(model, restarted)
  }
  const after = activeCounts(next)
  for (const [shard, count] of Object.entries(before)) {
    const left = after[shard] ?? 0
    const needed = neededReplicas(model, shard, desired.nodes)
    if (left < count && (left < 1 || left < needed)) {
      throw new Error(`${JSON.stringify(step)} leaves ${left} of ${count} replicas of ${shard}`)
    }
  }
  return next
}

/** A shard whose collection has several replicas never loses its last Active one. */
function checkRestart(model: Model, restarted: Model): void {
  const after = activeCounts(restarted)
  for (const [shard, count] of Object.entries(activeCounts(model))) {
    if (count === 0 || (after[shard] ?? 0) > 0) continue
    if (model.factor > 1) throw new Error(`the update takes the last replica of ${shard}`)
  }
}

/** Without further failures: every transfer succeeds and every node comes back. */
function endOf(model: Model, desired: DesiredShards, expected: string): string {
  let current = model
  for (const peer of downPeers(model, desired)) current = start(current, peer)
  for (let steps = 0; steps < MAX_STEPS; steps += 1) {
    for (const shard of Object.keys(current.transfers)) current = finishTransfer(current, shard)
    const [replaced] = replaceReleased(current)
    if (replaced !== undefined) current = restarted(current, replaced)
    const plan = nextPlan(current, desired)
    if (plan.is === 'done') return complete(current, desired) ? 'done' : 'done, but not as desired'
    if (plan.is === 'refused') return plan.is
    if (plan.is === 'waiting') return `${expected}, but waiting: ${plan.message}`
    current = checkedStep(current, plan.step, desired)
  }
  return 'no end'
}

/** The node has missed writes, and is ready again. */
function restarted(before: Model, stopped: Model): Model {
  let next = stopped
  for (const peer of stoppedBy(before, stopped)) next = start(missWrites(next, peer), peer)
  return next
}

/** As desired: the number of pods, and each shard with its replicas, all of them Active. */
function complete(model: Model, { nodes, lost }: DesiredShards): boolean {
  if (model.update !== undefined && model.update.outdated.length > 0) return false
  return (
    model.pods === nodes &&
    lost.every((peer) => model.peers[peer] === undefined) &&
    Object.entries(model.shards).every(
      ([shard, replicas]) =>
        Object.values(replicas).every((state) => state === 'Active') &&
        Object.keys(replicas).length >= neededReplicas(model, shard, nodes),
    )
  )
}

function upPeers(model: Model): number[] {
  return Object.entries(model.peers).flatMap(([id, { isUp }]) => (isUp ? [Number(id)] : []))
}

function downPeers(model: Model, { lost }: DesiredShards): number[] {
  return Object.entries(model.peers).flatMap(([id, { isUp }]) =>
    isUp || lost.includes(Number(id)) ? [] : [Number(id)],
  )
}
