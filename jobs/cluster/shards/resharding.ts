/**
 * Changes the number of shards of a collection by one at a time, in the stages of the engine's protocol
 * (docs/engine-notes.md, "Resharding"). The engine does not report its stage, so the Job records it
 * (ReshardingRecord) before each step that cannot be repeated in another stage:
 *
 * - `migrate`: points are copied. It can be aborted; a failed transfer makes the engine abort it.
 * - `commit`: reads use the new shards. It can only be completed. Old replicas still have the points that
 *   now belong to the new shard; they are deleted on every holder before writes stop to reach them.
 * - `check`: the engine has finished. Each replica is checked to have points of its own shard only.
 */
import type { ReshardingOutcome, ReshardingRecord } from '../../../crds/contract/shards-job.ts'
import {
  absentNode,
  activeHolders,
  copySource,
  describeShard,
  freeTarget,
  hasTransfer,
  nodeName,
  peerName,
  remainingMembers,
  requiredReplicas,
  spaceFor,
  type Shard,
} from './queries.ts'
import { addReplica, planned, refused, transferInProgress, type Plan, type Step } from './step.ts'
import type { ClusterView, CollectionView, DesiredShards, PeerView, ReplicaView } from './view.ts'

const PURPOSE = 'resharding'

/** Entries of `done` in stage `commit`. */
const READ = 'read'
const WRITE = 'write'

/** A replica in `done`. */
export function replicaKey({ shard, peer }: { shard: number; peer: number }): string {
  return `${shard}/${peer}`
}

/** The entry of `done` for points that were copied: the other side is always the same shard. */
export function streamedKey(
  { direction }: ReshardingRecord,
  { shard, toShard, to }: { shard: number; toShard: number; to: number },
): string {
  return replicaKey({ shard: direction === 'up' ? shard : toShard, peer: to })
}

/** The record once a step of stage `commit` is complete. */
export function recordAfterStep(record: ReshardingRecord, step: Step): ReshardingRecord {
  const done = (entry: string) => ({ ...record, done: [...record.done, entry] })
  if (step.do === 'commitRead') return { ...record, stage: 'commit', done: [READ] }
  if (step.do === 'cleanReplica' || step.do === 'checkReplica') return done(replicaKey(step))
  if (step.do === 'commitWrite') return done(WRITE)
  if (step.do === 'finishResharding') return { ...record, stage: 'check', done: [] }
  return record
}

/** What is in progress, by the record of the Job and what the nodes report. */
export function currentResharding(
  view: ClusterView,
  { resharding }: Pick<DesiredShards, 'resharding'>,
): ReshardingRecord | undefined {
  if (resharding === undefined) return undefined
  const { current, owner } = resharding
  for (const { name, resharding: operation } of view.collections) {
    const { uuid } = operation ?? {}
    if (operation === undefined || uuid === undefined) continue
    if (uuid === current?.uuid) return current
    if (!isOurs(uuid, owner)) continue
    const { direction, shard, peer } = operation
    return { collection: name, uuid, direction, shard, peer, stage: 'unknown', done: [] }
  }
  const collection = view.collections.find(({ name }) => name === current?.collection)
  if (current === undefined || collection === undefined) return undefined
  if (current.stage === 'check') return uncheckedReplica(collection, current) && current
  // The engine has aborted what was not committed. It may be recorded as such already, just before the engine was asked.
  if (endOf(view, current) === 'aborted') return undefined
  // What another client has ended is checked, too. Cleaning is part of that, and must not delete what was not copied.
  const isCopied = current.stage === 'migrate' && isAllCopied(collection, current)
  if (current.stage !== 'commit' && !isCopied) return undefined
  return { ...current, stage: 'check', done: [] }
}

/** How many are reported. */
const MAX_OUTCOMES = 16

/** The latest reshardings, with what is known of this one, which the engine has begun. */
export function withProgress(
  outcomes: readonly ReshardingOutcome[],
  { uuid, collection, direction, shard, stage, done }: ReshardingRecord,
): ReshardingOutcome[] {
  const isCommitted = stage === 'check' || (stage === 'commit' && done.includes(READ))
  const outcome = { uuid, collection, direction, shard }
  const others = outcomes.filter((other) => other.uuid !== uuid)
  const reached = isCommitted ? ('commit' as const) : ('migrate' as const)
  return [...others, { ...outcome, stage: reached }].slice(-MAX_OUTCOMES)
}

/**
 * How it has ended: no node reports it any more, and nothing is left to be checked. `incomplete`: another client has
 * committed it before all points were copied, as far as the record shows.
 */
export function endOf(
  { collections }: Pick<ClusterView, 'collections'>,
  {
    collection: name,
    direction,
    shard,
    stage,
  }: Pick<ReshardingRecord, 'collection' | 'direction' | 'shard' | 'stage'>,
): 'completed' | 'incomplete' | 'aborted' | 'gone' {
  const collection = collections.find((one) => one.name === name)
  if (collection === undefined) return 'gone'
  const exists = collection.shards.some(({ id }) => id === shard)
  if (exists !== (direction === 'up')) return 'aborted'
  return stage === 'commit' || stage === 'check' ? 'completed' : 'incomplete'
}

function isAllCopied(
  { shards }: CollectionView,
  { direction, shard: changed, peer, done }: ReshardingRecord,
): boolean {
  const others = shards.filter(({ id }) => id !== changed)
  const copies = others.flatMap(({ id: shard, replicas }) =>
    direction === 'up'
      ? [replicaKey({ shard, peer })]
      : replicas.map((replica) => replicaKey({ shard, peer: replica.peer })),
  )
  return copies.every((copy) => done.includes(copy))
}

/** `Transferring records (5/9)` in the engine's description of a transfer. */
const TRANSFERRED = /\((\d{1,15})\/(\d{1,15})\)/

/**
 * How many points are copied. The engine reports the number of points of each shard: an added shard has what was
 * copied. Shards that get the points of a removed one have points of their own too, so their replicas are counted.
 */
export function copiedPoints(
  view: ClusterView,
  { collection: name, stage, direction, shard: id, done }: ReshardingRecord,
): ReshardingRecord['points'] {
  const { shards = [] } = view.collections.find((one) => one.name === name) ?? {}
  const changed = shards.find((shard) => shard.id === id)
  const others = shards.filter((shard) => shard !== changed)
  const { points } = changed ?? {}
  if (stage !== 'migrate' || points === undefined) return undefined
  if (direction === 'up') {
    const all = others.reduce((sum, shard) => sum + (shard.points ?? 0), 0)
    return { copied: points, total: Math.max(points, Math.round(all / (others.length + 1))) }
  }
  const copies = others.flatMap(({ id: shard, replicas }) =>
    replicas.map(({ peer }) => replicaKey({ shard, peer })),
  )
  const complete = copies.filter((copy) => done.includes(copy)).length
  const [, moved = 0, all = 1] =
    TRANSFERRED.exec(
      view.transfers.find((one) => one.collection === name && one.shard === id)?.comment ?? '',
    ) ?? []
  const running = Number(all) === 0 ? 0 : Math.min(1, Number(moved) / Number(all))
  const part = Math.min(1, (complete + running) / Math.max(1, copies.length))
  return { copied: Math.round(points * part), total: points }
}

function uncheckedReplica({ shards }: CollectionView, { done }: ReshardingRecord) {
  return shards
    .flatMap(({ id: shard, replicas }) => replicas.map(({ peer }) => ({ shard, peer })))
    .find((replica) => !done.includes(replicaKey(replica)))
}

/** The next step of the resharding in progress; undefined if there is none. */
export function continueResharding(view: ClusterView, desired: DesiredShards): Plan | undefined {
  const record = currentResharding(view, desired)
  const foreign = foreignResharding(view, record)
  const collection = view.collections.find(({ name }) => name === record?.collection)
  if (record === undefined || collection === undefined) return foreign
  const plan = nextStage({ view, desired, collection, record })
  return plan ?? foreign
}

/** Begins the next one, if the number of shards of a collection is not as desired. */
export function startResharding(view: ClusterView, desired: DesiredShards): Plan | undefined {
  const { numbers = [], mayStart = false } = desired.resharding ?? {}
  if (!mayStart) return undefined
  let rejection: Plan | undefined
  let blocked: Plan | undefined
  for (const { collection: name, shards: desiredNumber } of numbers) {
    const collection = view.collections.find((one) => one.name === name)
    if (collection === undefined || collection.shards.length === desiredNumber) continue
    const plan = beginning(view, desired, { collection, desiredNumber })
    // One that cannot begin must not delay the others.
    if (plan.is === 'step') return plan
    if (plan.is === 'refused') rejection ??= plan
    else blocked ??= plan
  }
  return blocked ?? rejection
}

interface Situation {
  view: ClusterView
  desired: DesiredShards
  collection: CollectionView
  record: ReshardingRecord
}

function nextStage(situation: Situation): Plan | undefined {
  const { record } = situation
  switch (record.stage) {
    case 'unknown':
      return abort(situation)
    case 'migrate':
      if (isUnwanted(situation)) return abort(situation)
      return record.direction === 'up' ? migrateUp(situation) : migrateDown(situation)
    case 'commit':
      return commit(situation)
    case 'check':
      return check(situation)
  }
}

/** A user has set the number back, or beyond it. Without a number it is completed. */
function isUnwanted({ desired, collection, record }: Situation): boolean {
  const goal = desired.resharding?.numbers.find(({ collection: name }) => name === collection.name)
  if (goal === undefined) return false
  // The shard that is added or removed has the highest id.
  return record.direction === 'up' ? goal.shards <= record.shard : goal.shards > record.shard
}

function migrateUp(situation: Situation): Plan {
  const { view, desired, collection, record } = situation
  const target = shardOf(situation, record.shard)
  const replica = target?.replicas.find(({ peer }) => peer === record.peer)
  if (target === undefined || replica === undefined || isLost(situation, record.peer)) {
    return abort(situation)
  }
  const sources = collection.shards.filter(({ id }) => id !== record.shard)
  const left = sources.filter(
    ({ id }) => !record.done.includes(replicaKey({ shard: id, peer: replica.peer })),
  )
  if (replica.state === 'Resharding') {
    const blocker = replicaBlocker(situation)
    if (blocker !== undefined) return blocker
    const [next] = left
    if (next !== undefined) return stream(situation, { from: next, to: target, replica })
    return planned(PURPOSE, activation(collection, target, replica.peer))
  }
  // Another client has called it Active: points are missing.
  if (left.length > 0) return abort(situation)
  if (hasTransfer(view, target)) return transferInProgress(view) ?? waiting(target)
  const blocker = replicaBlocker(situation)
  if (blocker !== undefined) return blocker
  if (target.replicas.length < requiredReplicas(view, target, desired.nodes)) {
    return addReplica(view, desired, PURPOSE, target)
  }
  return planned(PURPOSE, { do: 'commitRead', collection: collection.name })
}

/**
 * Every replica that remains gets its part of the points of the shard that is removed, and is called Active before the
 * next one begins: of several replicas on a node that get points and miss a write, the engine calls only one Dead.
 */
function migrateDown(situation: Situation): Plan {
  const { collection, record } = situation
  const source = shardOf(situation, record.shard)
  if (source === undefined) return abort(situation)
  const blocker = replicaBlocker(situation)
  if (blocker !== undefined) return blocker
  const targets = collection.shards.filter(({ id }) => id !== record.shard)
  const replicas = targets.flatMap((target) =>
    target.replicas.map((replica) => {
      const isCopied = record.done.includes(replicaKey({ shard: target.id, peer: replica.peer }))
      return { target, replica, isCopied }
    }),
  )
  const complete = replicas.find(({ replica, isCopied }) => isCopied && isReceiving(replica))
  if (complete !== undefined) {
    return planned(PURPOSE, activation(collection, complete.target, complete.replica.peer))
  }
  const next = replicas.find(({ isCopied }) => !isCopied)
  if (next !== undefined) {
    const to = withCollection(situation, next.target)
    return stream(situation, { from: source, to, replica: next.replica })
  }
  return planned(PURPOSE, { do: 'commitRead', collection: collection.name })
}

/**
 * What was copied to the replicas of these shards while one is removed. A replica that was repaired meanwhile, or
 * created again, may be the copy of one without the points.
 */
export function stillCopied(
  { collections, unsettled }: Pick<ClusterView, 'collections' | 'unsettled'>,
  { collection: name, direction, stage, done }: ReshardingRecord,
): string[] {
  const { shards } = collections.find((one) => one.name === name) ?? {}
  if (direction === 'up' || stage !== 'migrate' || shards === undefined) return done
  const replicas = shards.flatMap(({ id: shard, replicas }) =>
    replicas.map((replica) => [replicaKey({ shard, peer: replica.peer }), replica] as const),
  )
  const present = new Map(replicas)
  return done.filter((entry) => {
    const replica = present.get(entry)
    if (replica === undefined) return unsettled !== undefined
    return replica.state === 'Active' || isReceiving(replica)
  })
}

function isReceiving({ state }: ReplicaView): boolean {
  return state === 'Resharding'
}

/** Steps that repeat nothing but what may be repeated: the record may be older than the engine's stage. */
function commit(situation: Situation): Plan {
  const { view, collection, record } = situation
  const { name } = collection
  if (!record.done.includes(READ)) return planned(PURPOSE, { do: 'commitRead', collection: name })
  if (!record.done.includes(WRITE)) {
    // A node that has not applied the commit would still write to the old shards.
    const absent = absentNodeOf(situation)
    const blocker = absent === undefined ? replicaBlocker(situation) : waitingFor(absent)
    // The shard that is removed takes its points with it.
    for (const { id: shard, replicas } of record.direction === 'up' ? collection.shards : []) {
      if (shard === record.shard) continue
      for (const { peer } of replicas) {
        if (record.done.includes(replicaKey({ shard, peer }))) continue
        if (blocker !== undefined) return blocker
        const target = record.shard
        return planned(PURPOSE, { do: 'cleanReplica', collection: name, shard, peer, target })
      }
    }
    // A replica that is repaired meanwhile may have the points again.
    if (blocker !== undefined) return blocker
    const busy = collection.shards.some((shard) =>
      hasTransfer(view, { ...shard, collection: name }),
    )
    if (busy) return transferInProgress(view) ?? waitingFor(`the transfers of ${name}`)
    return planned(PURPOSE, { do: 'commitWrite', collection: name })
  }
  return planned(PURPOSE, { do: 'finishResharding', collection: name })
}

/** Undefined once each replica was checked. Cleaning would delete what another client has yet to copy. */
function check(situation: Situation): Plan | undefined {
  const { collection, record } = situation
  if (collection.resharding !== undefined) return undefined
  const replica = uncheckedReplica(collection, record)
  if (replica === undefined) return undefined
  const blocker = replicaBlocker(situation)
  if (blocker !== undefined) return blocker
  return planned(PURPOSE, { do: 'checkReplica', collection: collection.name, ...replica })
}

/**
 * Why the resharding has to wait: each replica must be on a node that answers, and be complete. Those of
 * lost nodes are dropped meanwhile, and defective ones repaired.
 */
function replicaBlocker({ view, collection }: Situation): Plan | undefined {
  const members = new Set(view.peers.filter(({ isMember }) => isMember).map(({ id }) => id))
  for (const { id, replicas } of collection.shards) {
    for (const { peer, state } of replicas) {
      const text = `${collection.name}/${id} on ${peerName(view, peer)}`
      if (!members.has(peer)) return waitingFor(`${text} does not answer`)
      if (state === 'Active' || state === 'Resharding') continue
      if (state === 'InTransfer') return transferInProgress(view) ?? waitingFor(`${text} is copied`)
      return waitingFor(`${text} is ${state}`)
    }
  }
  return undefined
}

/** A pod that does not answer, unless its data is lost: it will join as another peer. */
function absentNodeOf({ view, desired }: Situation): string | undefined {
  for (let ordinal = 0; ordinal < view.nodes; ordinal += 1) {
    const peers = view.peers.filter((peer) => peer.ordinal === ordinal)
    if (peers.some(({ isMember }) => isMember)) continue
    if (peers.some(({ id }) => desired.lost.includes(id))) continue
    return `node ${ordinal} does not answer`
  }
  return undefined
}

function stream(
  { view, collection }: Situation,
  { from, to, replica }: { from: { id: number }; to: { id: number }; replica: ReplicaView },
): Plan {
  // Two transfers of a shard that share a node are rejected by the engine.
  const running = transferInProgress(view)
  if (running !== undefined) return running
  const shard = collection.shards.find(({ id }) => id === from.id)
  const source = shard && copySource(view, shard)
  if (shard === undefined || source === undefined) {
    return waitingFor(`${collection.name}/${from.id} has no Active replica on a node that answers`)
  }
  const step = {
    ...{ do: 'streamPoints' as const, collection: collection.name },
    ...{ shard: from.id, toShard: to.id, from: source, to: replica.peer },
  }
  return planned(PURPOSE, step, Math.ceil(shard.bytes / collection.shards.length))
}

/** Without a known capacity of the volumes there is enough. */
function beginning(
  view: ClusterView,
  desired: DesiredShards,
  { collection, desiredNumber }: { collection: CollectionView; desiredNumber: number },
): Plan {
  const { name, shards, factor } = collection
  if (shards.some(({ key }) => key !== undefined)) {
    const message = `the number of shards of ${name} cannot be changed: its shards belong to shard keys`
    return refused('ReshardingUnsupported', message)
  }
  const last = Math.max(...shards.map(({ id }) => id))
  const blocker = startBlocker(view, desired, collection)
  if (blocker !== undefined) return waitingFor(blocker)
  const bytes = shards.reduce((sum, shard) => sum + shard.bytes, 0)
  if (desiredNumber < shards.length) {
    const removed = shards.find(({ id }) => id === last)
    const peer = removed && activeHolders(view, removed)[0]
    if (removed === undefined || peer === undefined)
      return waitingFor(`${name}/${last} is not Active`)
    const part = Math.ceil(removed.bytes / (shards.length - 1))
    const full = remainingMembers(view, desired).find(
      (member) =>
        !spaceFor(
          member,
          part * shards.filter((shard) => shard.id !== last && holdsOn(shard, member)).length,
        ),
    )
    if (full !== undefined) return noCapacity(name, full, removed.bytes)
    const step = { do: 'startResharding' as const, collection: name, direction: 'down' as const }
    return planned(PURPOSE, { ...step, shard: last, peer })
  }
  const added: Shard = {
    ...{ collection: name, factor, id: last + 1, replicas: [] },
    bytes: Math.ceil(bytes / (shards.length + 1)),
  }
  const members = remainingMembers(view, desired)
  const fitting = members.filter((member) => spaceFor(member, added.bytes))
  const peer = freeTarget(view, added, desired)
  if (peer === undefined || fitting.length < requiredReplicas(view, added, desired.nodes)) {
    const full = members.find((member) => !fitting.includes(member))
    if (full !== undefined) return noCapacity(name, full, added.bytes)
    return waitingFor(`${name} needs a node that answers`)
  }
  const step = { do: 'startResharding' as const, collection: name, direction: 'up' as const }
  return planned(PURPOSE, { ...step, shard: added.id, peer })
}

function startBlocker(
  view: ClusterView,
  desired: DesiredShards,
  { name, shards }: CollectionView,
): string | undefined {
  const absent = absentNode(view, desired)
  if (absent !== undefined) return `${absent} does not answer`
  for (const shard of shards) {
    const label = describeShard({ ...shard, collection: name, factor: 1 })
    if (hasTransfer(view, { ...shard, collection: name })) return `${label} is in a transfer`
    if (activeHolders(view, shard).length < shard.replicas.length) {
      return `not every replica of ${label} is Active`
    }
  }
  return undefined
}

function noCapacity(name: string, peer: PeerView, bytes: number): Plan {
  const message = `another number of shards of ${name} needs about ${bytes} bytes on ${nodeName(peer)}, which has ${peer.freeBytes ?? 0} free: enlarge the volumes or delete data`
  return refused('NoCapacity', message)
}

/** It was started by a user or by another program, who has to end it. */
function foreignResharding(
  { collections }: ClusterView,
  record: ReshardingRecord | undefined,
): Plan | undefined {
  const foreign = collections.find(
    ({ resharding }) => resharding !== undefined && resharding.uuid !== record?.uuid,
  )
  if (foreign === undefined) return undefined
  const { name } = foreign
  const message = `${name} is being resharded by another client, which has to complete or abort it. If no client does: POST /collections/${name}/cluster with {"abort_resharding":{}}`
  return refused('ForeignResharding', message)
}

function isOurs(uuid: string, owner: string): boolean {
  return uuid.replaceAll('-', '').startsWith(owner)
}

function isLost({ view, desired }: Situation, peer: number): boolean {
  const isMember = view.peers.some(({ id, isMember: answers }) => id === peer && answers)
  return !isMember && desired.lost.includes(peer)
}

function abort({ collection }: Situation): Plan {
  return planned(PURPOSE, { do: 'abortResharding', collection: collection.name })
}

function activation({ name }: CollectionView, { id }: { id: number }, peer: number) {
  return { do: 'finishMigration' as const, collection: name, shard: id, peer }
}

function shardOf({ collection }: Situation, id: number): Shard | undefined {
  const shard = collection.shards.find((one) => one.id === id)
  return shard && { ...shard, collection: collection.name, factor: collection.factor }
}

function withCollection({ collection }: Situation, shard: CollectionView['shards'][number]): Shard {
  return { ...shard, collection: collection.name, factor: collection.factor }
}

function holdsOn({ replicas }: { replicas: ReplicaView[] }, { id }: PeerView): boolean {
  return replicas.some(({ peer }) => peer === id)
}

function waiting(shard: Shard): Plan {
  return waitingFor(`${describeShard(shard)} is in a transfer`)
}

function waitingFor(message: string): Plan {
  return { is: 'waiting', purpose: PURPOSE, message }
}
