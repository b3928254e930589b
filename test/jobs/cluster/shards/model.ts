/**
 * A small model of an engine cluster: what a step of the planner does to it, and what else can
 * happen. It is written against docs/engine-notes.md, not against the planner.
 */
import { planShards } from '../../../../jobs/cluster/shards/plan.ts'
import { isReshardingStep, type Step } from '../../../../jobs/cluster/shards/step.ts'
import type {
  ClusterView,
  DesiredShards,
  Move,
  ReplicaState,
  TransferView,
  UpdateView,
} from '../../../../jobs/cluster/shards/view.ts'

export interface ModelPeer {
  ordinal: number
  isUp: boolean
  zone?: string
}

export interface Model {
  /** Pods of the StatefulSet. */
  pods: number
  /** By peer id. */
  peers: Record<number, ModelPeer>
  /** State of each replica by peer, of each shard by `collection/id`. */
  shards: Record<string, Record<number, ReplicaState>>
  /** Target by shard, of transfers in progress. */
  transfers: Record<string, { from: number; to: number; isNew: boolean }>
  factor: number
  /** Shard key of each shard that has one. */
  keys?: Record<string, string>
  /** Replicas that the shards of keys were created with; default: `factor`. */
  keyFactor?: number
  /** What the Job has written into its report. */
  moves: Move[]
  /** A rolling update; `outdated` are the ordinals of pods with the old template. */
  update?: { partition: number; outdated: number[] }
}

/** Two shards with two replicas each, all Active. */
export const THREE_NODES: Model = {
  pods: 3,
  peers: {
    1: { ordinal: 0, isUp: true },
    2: { ordinal: 1, isUp: true },
    3: { ordinal: 2, isUp: true },
  },
  shards: { 'docs/0': { 1: 'Active', 2: 'Active' }, 'docs/1': { 2: 'Active', 3: 'Active' } },
  transfers: {},
  factor: 2,
  moves: [],
}

export const DESIRED: DesiredShards = {
  nodes: 3,
  repair: true,
  allowsFewerReplicas: false,
  balance: false,
  lost: [],
  maxTransfers: 1,
  moves: [],
  defectSeconds: () => 3600,
  isOwnCopy: () => true,
}

export function viewOf(model: Model, bytes: (shard: string) => number = () => 100): ClusterView {
  return {
    nodes: model.pods,
    peers: Object.entries(model.peers).map(([id, { ordinal, isUp, zone }]) => ({
      id: Number(id),
      ordinal,
      isMember: isUp,
      ...(zone !== undefined && { zone }),
    })),
    collections: [...new Set(Object.keys(model.shards).map(collectionOf))].map((name) => ({
      name,
      factor: model.factor,
      shards: Object.entries(model.shards)
        .filter(([shard]) => collectionOf(shard) === name)
        .map(([shard, replicas]) => ({
          id: idOf(shard),
          ...(model.keys?.[shard] !== undefined && { key: model.keys[shard] }),
          bytes: bytes(shard),
          replicas: Object.entries(replicas).map(([peer, state]) => ({
            peer: Number(peer),
            state,
          })),
        })),
    })),
    transfers: Object.entries(model.transfers).map(([shard, { from, to }]): TransferView => ({
      collection: collectionOf(shard),
      shard: idOf(shard),
      from,
      to,
    })),
    ...(model.update && { update: updateOf(model, model.update) }),
  }
}

function updateOf({ pods, peers }: Model, update: NonNullable<Model['update']>): UpdateView {
  const up = Object.values(peers).flatMap(({ ordinal, isUp }) => (isUp ? [ordinal] : []))
  const ordinals = Array.from({ length: pods }, (_, ordinal) => ordinal)
  const unready = ordinals.filter((one) => !up.includes(one))
  return { ...update, generation: 1, unready, runs: ordinals.map(String) }
}

export function nextPlan(model: Model, desired: DesiredShards) {
  return planShards(viewOf(model), { ...desired, moves: model.moves })
}

/** What the engine and Kubernetes do when the Job makes a step. Throws where they refuse it. */
export function apply(model: Model, step: Step): Model {
  if (isReshardingStep(step)) throw new Error(`${step.do}: nothing of this model is resharded`)
  const next = structuredClone(model)
  switch (step.do) {
    case 'replicate':
    case 'repair': {
      const shard = `${step.collection}/${step.shard}`
      const replicas = next.shards[shard] ?? {}
      if (replicas[step.from] !== 'Active') throw new Error(`${shard}: the source is not Active`)
      if (!isUp(next, step.from) || !isUp(next, step.to))
        throw new Error(`${shard}: a peer is down`)
      if (next.transfers[shard] !== undefined) throw new Error(`${shard}: in a transfer already`)
      if (replicas[step.to] === 'Active') throw new Error(`${shard}: onto an Active replica`)
      if (step.do === 'replicate' && step.to in replicas) throw new Error(`${shard}: onto a holder`)
      const isNew = !(step.to in replicas)
      next.transfers[shard] = { from: step.from, to: step.to, isNew }
      next.shards[shard] = { ...replicas, [step.to]: 'InTransfer' }
      if (step.do === 'replicate' && step.move !== undefined) next.moves.push(step.move)
      return next
    }
    case 'drop': {
      const shard = `${step.collection}/${step.shard}`
      const { [step.peer]: dropped, ...others } = next.shards[shard] ?? {}
      if (dropped === undefined) throw new Error(`${shard}: no replica on ${step.peer}`)
      if (!Object.values(others).includes('Active')) throw new Error(`${shard}: the last replica`)
      const copies = Object.entries(next.transfers).filter(
        ([other, { from, to }]) =>
          collectionOf(other) === step.collection && (from === step.peer || to === step.peer),
      )
      if (isUp(next, step.peer) && copies.length > 0) {
        throw new Error(`${shard}: ${copies[0]?.[0]} is copied from or to ${step.peer}`)
      }
      next.shards[shard] = others
      next.moves = next.moves.filter((move) => `${move.collection}/${move.shard}` !== shard)
      return next
    }
    case 'removePeer': {
      if (Object.values(next.shards).some((replicas) => step.peer in replicas)) {
        throw new Error(`peer ${step.peer} holds shards`)
      }
      const { [step.peer]: removed, ...peers } = next.peers
      if (removed === undefined) throw new Error(`no peer ${step.peer}`)
      next.peers = peers
      return next
    }
    case 'scaleDown': {
      if (step.nodes !== next.pods - 1) throw new Error(`${next.pods} -> ${step.nodes} pods`)
      const gone = Object.entries(next.peers).filter(([, { ordinal }]) => ordinal >= step.nodes)
      if (gone.length > 0) throw new Error(`pod ${step.nodes} is still a peer`)
      next.pods = step.nodes
      return next
    }
    case 'updateNode': {
      const { update } = next
      if (update === undefined) throw new Error('there is no update')
      const released = update.outdated.filter((one) => one >= step.ordinal)
      if (step.ordinal >= update.partition) throw new Error(`node ${step.ordinal} is released`)
      if (released.join() !== String(step.ordinal)) throw new Error(`releases ${released.join()}`)
      update.partition = step.ordinal
      return next
    }
  }
}

export function finishTransfer(model: Model, shard: string): Model {
  const next = structuredClone(model)
  const transfer = next.transfers[shard]
  if (transfer === undefined) return next
  next.shards[shard] = { ...next.shards[shard], [transfer.to]: 'Active' }
  next.transfers = withoutKey(next.transfers, shard)
  return next
}

/** The engine keeps the target as Dead. */
export function abortTransfer(model: Model, shard: string): Model {
  const next = structuredClone(model)
  const transfer = next.transfers[shard]
  if (transfer === undefined) return next
  next.shards[shard] = { ...next.shards[shard], [transfer.to]: 'Dead' }
  next.transfers = withoutKey(next.transfers, shard)
  return next
}

/** A client deletes a shard key, and with it the shard and its transfer. */
export function deleteKey(model: Model, shard: string): Model {
  const next = structuredClone(model)
  next.shards = withoutKey(next.shards, shard)
  next.transfers = withoutKey(next.transfers, shard)
  next.keys = withoutKey(next.keys ?? {}, shard)
  return next
}

/** Another key gets the id of a deleted shard, on these peers. */
export function createKey(model: Model, shard: string, key: string, peers: number[]): Model {
  const next = structuredClone(model)
  next.shards[shard] = Object.fromEntries(peers.map((peer) => [peer, 'Active' as const]))
  next.keys = { ...next.keys, [shard]: key }
  return next
}

/** Replicas that a step must leave while there are so many nodes. */
export function neededReplicas(model: Model, shard: string, nodes: number): number {
  const isKeyed = model.keys?.[shard] !== undefined
  const own = isKeyed ? (model.keyFactor ?? model.factor) : model.factor
  return Math.min(own, nodes, model.pods)
}

/** A node stops: its transfers are aborted, and its replicas stay Active in the view of the others. */
export function stop(model: Model, peer: number): Model {
  let next = structuredClone(model)
  for (const [shard, { from, to }] of Object.entries(model.transfers)) {
    if (from === peer || to === peer) next = abortTransfer(next, shard)
  }
  const stopped = next.peers[peer]
  if (stopped !== undefined) stopped.isUp = false
  return next
}

/** Kubernetes stops a released pod; the one that it starts then has the new template. */
export function replaceReleased(model: Model): Model[] {
  const { partition, outdated } = model.update ?? { partition: 0, outdated: [] }
  return outdated
    .filter((ordinal) => ordinal >= partition)
    .map((ordinal) => {
      const peer = Object.entries(model.peers).find(([, one]) => one.ordinal === ordinal)?.[0]
      const next = peer === undefined ? structuredClone(model) : stop(model, Number(peer))
      if (next.update) next.update.outdated = outdated.filter((one) => one !== ordinal)
      return next
    })
}

/** A write that a node misses while it is down makes its replicas Dead. */
export function missWrites(model: Model, peer: number): Model {
  const next = structuredClone(model)
  for (const replicas of Object.values(next.shards)) {
    const others = Object.entries(replicas).some(
      ([other, state]) =>
        Number(other) !== peer && state === 'Active' && isUp(model, Number(other)),
    )
    if (others && replicas[peer] === 'Active') replicas[peer] = 'Dead'
  }
  return next
}

export function start(model: Model, peer: number): Model {
  const next = structuredClone(model)
  const started = next.peers[peer]
  if (started !== undefined) started.isUp = true
  return next
}

/** Active replicas on nodes that answer, of each shard. */
export function activeCounts(model: Model): Record<string, number> {
  return Object.fromEntries(
    Object.entries(model.shards).map(([shard, replicas]) => [
      shard,
      Object.entries(replicas).filter(
        ([peer, state]) => state === 'Active' && isUp(model, Number(peer)),
      ).length,
    ]),
  )
}

function isUp(model: Model, peer: number): boolean {
  return model.peers[peer]?.isUp === true
}

function collectionOf(shard: string): string {
  return shard.slice(0, shard.lastIndexOf('/'))
}

function idOf(shard: string): number {
  return Number(shard.slice(shard.lastIndexOf('/') + 1))
}

function withoutKey<Value>(record: Record<string, Value>, key: string): Record<string, Value> {
  return Object.fromEntries(Object.entries(record).filter(([name]) => name !== key))
}
