/**
 * Carries out the steps of a resharding, and records them: what cannot be taken back is written into the
 * report before the engine is asked for it.
 */
import { createHash, randomBytes } from 'node:crypto'
import { EngineError } from '../../../crds/contract/errors.ts'
import type {
  ReshardingOutcome,
  ReshardingRecord,
  ShardsResult,
} from '../../../crds/contract/shards-job.ts'
import type { Engine } from '../../clients/engine/client.ts'
import { EngineResharding } from '../../clients/engine/resharding.ts'
import { EngineShards, type ShardTransfer } from '../../clients/engine/shards.ts'
import type { Dependencies } from '../../dependencies.ts'
import { sum } from './balance.ts'
import { activeHolders, peerName } from './queries.ts'
import {
  copiedPoints,
  currentResharding,
  endOf,
  recordAfterStep,
  stillCopied,
  streamedKey,
  withProgress,
} from './resharding.ts'
import type { ReshardingStep } from './step.ts'
import type { ClusterView, CollectionView, DesiredResharding, ShardView } from './view.ts'

/** How often points are counted until the sums agree, under writes. */
const MAX_COUNTS = 10
const COUNT_PAUSE_MS = 1000
/** Writes between two counts may make this part of a difference; a missing transfer makes more. */
const TOLERANCE = 0.01
const MAX_DONE = 2000
const COUNT_MS = 60_000
const OWNER_LENGTH = 16

export type Outcome =
  | 'done'
  /** The engine is asked again in the next round. */
  | 'again later'
  /** The replicas are not as they should be, and another attempt does not change that. */
  | { failure: string }

/** What the last report has. */
type Known = Partial<Pick<ShardsResult, 'resharding' | 'reshardings'>>

interface Tools {
  dependencies: Dependencies
  engineOf: (ordinal: number) => Engine
  /** Writes the report. */
  save: () => Promise<void>
}

/** What the ids of the reshardings of a VecCluster begin with: those of others are left alone. */
export function reshardingOwner(uid: string): string {
  return createHash('sha256').update(`resharding/${uid}`).digest('hex').slice(0, OWNER_LENGTH)
}

function newId(owner: string): string {
  const hex = `${owner}${randomBytes(8).toString('hex')}`
  const parts = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20)]
  return [...parts, hex.slice(20)].join('-')
}

export class ReshardingSteps {
  readonly #tools: Tools
  readonly #owner: string
  /** How often a replica was not as it should be, by step. */
  readonly #attempts = new Map<string, number>()
  #record: ReshardingRecord | undefined
  #points: ReshardingRecord['points']
  #outcomes: ReshardingOutcome[]

  constructor(uid: string, { resharding, reshardings = [] }: Known, tools: Tools) {
    this.#owner = reshardingOwner(uid)
    this.#record = resharding
    this.#outcomes = reshardings
    this.#tools = tools
  }

  get record(): ReshardingRecord | undefined {
    if (this.#record === undefined) return undefined
    const { points: _, ...record } = this.#record
    return {
      ...{ ...record, done: record.done.slice(0, MAX_DONE) },
      ...(record.stage === 'migrate' && this.#points !== undefined && { points: this.#points }),
    }
  }

  /** The latest ones, the newest last. */
  get outcomes(): readonly ReshardingOutcome[] {
    return this.#outcomes
  }

  /** It was started and is not complete: its next step does not wait for another Job. */
  get isInProgress(): boolean {
    return this.#record !== undefined
  }

  /** A step that failed for good has to be planned again by the next Job. */
  desired(plan: Pick<DesiredResharding, 'numbers' | 'mayStart'> | undefined): DesiredResharding {
    return {
      owner: this.#owner,
      numbers: plan?.numbers ?? [],
      mayStart: plan?.mayStart ?? false,
      ...(this.#record !== undefined && { current: this.#record }),
    }
  }

  /** Called with each observation: what the engine has done since the last one. */
  observe(view: ClusterView, streamed: readonly ShardTransfer[]): void {
    if (view.broken !== undefined) return
    if (this.#record !== undefined) {
      this.#record = { ...this.#record, done: stillCopied(view, this.#record) }
    }
    if (view.unsettled !== undefined) return
    const record = this.#record
    if (record?.stage === 'migrate') {
      for (const transfer of streamed) {
        if (transfer.collection !== record.collection || transfer.toShard === undefined) continue
        const entry = streamedKey(record, { ...transfer, toShard: transfer.toShard })
        this.#record = { ...record, done: [...(this.#record?.done ?? []), entry] }
      }
    }
    const current = currentResharding(view, { resharding: this.desired(undefined) })
    if (current === undefined && record !== undefined) {
      this.#tools.dependencies.log.warn({ collection: record.collection }, 'resharding ended')
    }
    if (record !== undefined && record.uuid !== current?.uuid) this.#noteEnd(view, record)
    if (current !== undefined) this.#outcomes = withProgress(this.#outcomes, current)
    this.#record = current
    this.#points = current && copiedPoints(view, current)
  }

  /** The transfer of `streamPoints` is started by its caller, which follows it. */
  async perform(
    view: ClusterView,
    step: Exclude<ReshardingStep, { do: 'streamPoints' }>,
  ): Promise<Outcome> {
    const { signal } = this.#tools.dependencies
    const { collection } = step
    const engine = () => new EngineResharding(this.#member(view))
    switch (step.do) {
      case 'startResharding': {
        const { direction, shard, peer } = step
        const uuid = newId(this.#owner)
        const part = { collection, uuid, direction, shard, peer }
        await this.#save({ ...part, stage: 'migrate', done: [] })
        await engine().start(collection, { uuid, direction, peer }, signal)
        return 'done'
      }
      case 'finishMigration': {
        const { shard, peer } = step
        // A node that has failed does not answer: if its replica changed its state now, the engine would not call it Dead.
        const holder = new EngineResharding(this.#holder(view, peer))
        await holder.finishMigration(collection, shard, peer, signal)
        return 'done'
      }
      case 'commitRead':
        return this.#commitRead(view, step)
      case 'cleanReplica':
        return this.#clean(view, step)
      case 'commitWrite':
        return this.#commitWrite(view, step)
      case 'finishResharding':
        await engine().finish(collection, signal)
        return 'done'
      case 'checkReplica':
        return this.#check(view, step)
      case 'abortResharding':
        if (await engine().abort(collection, signal)) return 'done'
        return this.#completeCommitted(view)
    }
  }

  async #commitRead(
    view: ClusterView,
    step: Extract<ReshardingStep, { do: 'commitRead' }>,
  ): Promise<Outcome> {
    const { signal, log, reporter } = this.#tools.dependencies
    const record = this.#required()
    if (record.stage === 'migrate') {
      const difference = await this.#missingPoints(view, record)
      if (difference !== undefined) {
        await reporter.verifyOwnership()
        log.error({ collection: step.collection, difference }, 'numbers of points differ: aborting')
        const engine = new EngineResharding(this.#member(view))
        if (!(await engine.abort(step.collection, signal))) return this.#completeCommitted(view)
        return { failure: `${step.collection} is not resharded, because ${difference}` }
      }
      await this.#save({ ...record, stage: 'commit', done: [] })
    }
    await new EngineResharding(this.#member(view)).commitRead(step.collection, signal)
    await this.#save(recordAfterStep(this.#required(), step))
    return 'done'
  }

  /**
   * Reads use the new shards already. If another client has committed that, points may be missing there, and the former
   * shards must keep them.
   */
  async #completeCommitted(view: ClusterView): Promise<Outcome> {
    const record = this.#record
    if (record === undefined) return 'done'
    const { collection, stage } = record
    const difference =
      stage === 'migrate' ? await this.#missingPoints(view, record, true) : undefined
    if (difference !== undefined) {
      const text = `${collection}: another client has committed the resharding, but ${difference}`
      return { failure: `${text}: copy the others with replicate_shard` }
    }
    await this.#save({ ...record, stage: 'commit', done: [] })
    return 'done'
  }

  async #clean(
    view: ClusterView,
    step: Extract<ReshardingStep, { do: 'cleanReplica' }>,
  ): Promise<Outcome> {
    const { collection, shard, peer, target } = step
    const { signal } = this.#tools.dependencies
    const engine = new EngineResharding(this.#holder(view, peer))
    if (!(await engine.clean(collection, shard, signal))) return 'again later'
    const left = await engine.countBelonging(collection, { shard, to: target }, signal)
    if (left > 0) {
      const text = `${collection}/${shard} on ${peerName(view, peer)} has ${left} points of shard ${target} after it was cleaned`
      return this.#failed(`clean ${shard}/${peer}`, `${text}: restart this node`)
    }
    await this.#save(recordAfterStep(this.#required(), step))
    return 'done'
  }

  /** A replica may have been repaired from one that was not clean. */
  async #commitWrite(
    view: ClusterView,
    step: Extract<ReshardingStep, { do: 'commitWrite' }>,
  ): Promise<Outcome> {
    const { signal, reporter } = this.#tools.dependencies
    const { collection } = step
    const record = this.#required()
    const shards = record.direction === 'up' ? collectionOf(view, collection).shards : []
    for (const { id: shard, replicas } of shards) {
      if (shard === record.shard) continue
      for (const { peer } of replicas) {
        const engine = new EngineResharding(this.#holder(view, peer))
        const to = record.shard
        if ((await engine.countBelonging(collection, { shard, to }, signal)) === 0) continue
        await this.#save({ ...record, done: record.done.filter((entry) => !entry.includes('/')) })
        return 'again later'
      }
    }
    // Counting may have taken long.
    await reporter.verifyOwnership()
    await new EngineResharding(this.#member(view)).commitWrite(collection, signal)
    await this.#save(recordAfterStep(record, step))
    return 'done'
  }

  async #check(
    view: ClusterView,
    step: Extract<ReshardingStep, { do: 'checkReplica' }>,
  ): Promise<Outcome> {
    const { collection, shard, peer } = step
    const { signal, reporter } = this.#tools.dependencies
    const engine = this.#holder(view, peer)
    const resharding = new EngineResharding(engine)
    const own = () => resharding.countBelonging(collection, { shard, to: shard }, signal)
    const before = await own()
    const all = await new EngineShards(engine).countPoints(collection, shard, {
      signal,
      timeoutMs: COUNT_MS,
    })
    const after = await own()
    if (all >= Math.min(before, after) && all <= Math.max(before, after)) {
      await this.#save(recordAfterStep(this.#required(), step))
      return 'done'
    }
    await reporter.verifyOwnership()
    await resharding.clean(collection, shard, signal)
    const text = `${collection}/${shard} on ${peerName(view, peer)} has ${all} points, of which ${after} belong to it`
    return this.#failed(`check ${shard}/${peer}`, text)
  }

  /**
   * Why the new shards do not have what they should have; undefined if they do. Before reads use them, this
   * is the last moment at which nothing is lost.
   */
  async #missingPoints(
    view: ClusterView,
    record: ReshardingRecord,
    isCommitted = false,
  ): Promise<string | undefined> {
    const { time, signal } = this.#tools.dependencies
    const { shards } = collectionOf(view, record.collection)
    /** Differences that were found although nothing was written meanwhile. */
    let differences = 0
    for (let attempt = 1; ; attempt += 1) {
      const before = await this.#expectedPoints(view, record, shards)
      const found = await this.#foundPoints(view, record, shards)
      const after = await this.#expectedPoints(view, record, shards)
      const [least, most] = [Math.min(before, after), Math.max(before, after)]
      // Once reads use the new shards, the former ones do not get new points any more.
      if (found >= least && (isCommitted || found <= most)) return undefined
      if (before === after) differences += 1
      if (attempt < MAX_COUNTS) {
        await time.sleep(COUNT_PAUSE_MS, signal)
        continue
      }
      const hasWrites = differences < MAX_COUNTS / 2
      if (hasWrites && Math.abs(found - least) <= most * TOLERANCE) return undefined
      return `${found} points were copied instead of ${least}`
    }
  }

  /** Points that have to be copied, on one replica of each shard that they come from. */
  async #expectedPoints(
    view: ClusterView,
    { collection, direction, shard: target }: ReshardingRecord,
    shards: readonly ShardView[],
  ): Promise<number> {
    const { signal } = this.#tools.dependencies
    const sources = shards.filter(({ id }) => (id === target) === (direction === 'down'))
    const counts = await inOrder(sources, async (shard) => {
      const [peer] = activeHolders(view, shard)
      if (peer === undefined) throw new EngineError(`${collection}/${shard.id} is not Active`)
      const engine = this.#holder(view, peer)
      if (direction === 'down') return this.#count(engine, collection, shard.id)
      const part = { shard: shard.id, to: target }
      return new EngineResharding(engine).countBelonging(collection, part, signal)
    })
    return sum(counts)
  }

  /** Points that were copied, by the replica of each shard that has the fewest. */
  async #foundPoints(
    view: ClusterView,
    { collection, direction, shard: target }: ReshardingRecord,
    shards: readonly ShardView[],
  ): Promise<number> {
    const { signal } = this.#tools.dependencies
    const targets = shards.filter(({ id }) => (id === target) === (direction === 'up'))
    const counts = await inOrder(targets, async ({ id, replicas }) => {
      const received = await inOrder(replicas, async ({ peer }) => {
        const engine = this.#holder(view, peer)
        const all = await this.#count(engine, collection, id)
        if (direction === 'up') return all
        // By the former hash ring, which the engine compares with while a shard is removed.
        const own = { shard: id, to: id }
        return all - (await new EngineResharding(engine).countBelonging(collection, own, signal))
      })
      return Math.min(...received)
    })
    return sum(counts)
  }

  #count(engine: Engine, collection: string, shard: number): Promise<number> {
    const { signal } = this.#tools.dependencies
    return new EngineShards(engine).countPoints(collection, shard, { signal, timeoutMs: COUNT_MS })
  }

  /** One that the engine has not begun is none. */
  #noteEnd(view: ClusterView, record: ReshardingRecord): void {
    this.#outcomes = this.#outcomes.map((outcome) =>
      outcome.uuid === record.uuid ? { ...outcome, stage: endOf(view, record) } : outcome,
    )
  }

  #failed(key: string, text: string): Outcome {
    const attempts = (this.#attempts.get(key) ?? 0) + 1
    this.#attempts.set(key, attempts)
    return attempts < MAX_COUNTS ? 'again later' : { failure: text }
  }

  async #save(record: ReshardingRecord): Promise<void> {
    this.#record = record
    await this.#tools.save()
  }

  #required(): ReshardingRecord {
    if (this.#record === undefined) throw new Error('there is no resharding')
    return this.#record
  }

  #member(view: ClusterView): Engine {
    const peer = view.peers
      .filter(({ isMember, ordinal }) => isMember && ordinal !== undefined)
      .toSorted((a, b) => (a.ordinal ?? 0) - (b.ordinal ?? 0))[0]
    if (peer?.ordinal === undefined) throw new EngineError('no node answers')
    return this.#tools.engineOf(peer.ordinal)
  }

  /** Counts and cleaning are local to a node. */
  #holder(view: ClusterView, id: number): Engine {
    const peer = view.peers.find((one) => one.id === id && one.isMember)
    if (peer?.ordinal === undefined) throw new EngineError(`${peerName(view, id)} does not answer`)
    return this.#tools.engineOf(peer.ordinal)
  }
}

function collectionOf(view: ClusterView, name: string): CollectionView {
  const collection = view.collections.find((one) => one.name === name)
  if (collection === undefined) throw new EngineError(`collection ${name} does not exist`)
  return collection
}

async function inOrder<Item>(
  items: readonly Item[],
  count: (item: Item) => Promise<number>,
): Promise<number[]> {
  const counts: number[] = []
  for (const item of items) counts.push(await count(item))
  return counts
}
