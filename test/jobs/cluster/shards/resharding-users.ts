/** What users and failing nodes do to an engine while a Job changes the number of shards of a collection. */
import type { EngineAnswer } from '../../../doubles/engine/answers.ts'
import { answerAs, startEngineNode } from '../../../doubles/engine/node.ts'
import type { Point } from '../../../doubles/engine/points.ts'
import { copyReplica } from '../../../doubles/engine/resharding.ts'
import { abortTransfer, transfersOf } from '../../../doubles/engine/transfers.ts'
import { stateOf } from './resharding-contents.ts'
import type { ShardsWorld } from './shards-world.ts'

export const DIRECTIONS = [
  [2, 3],
  [3, 2],
] as const

export function isStep(line: string): boolean {
  return line.includes('step started')
}

/** A call to the engine, and not only a read, has been answered. */
export function isCall(line: string): boolean {
  return /engine call .*call=POST/.test(line)
}

/** A call of a user to a node. Writes and calls on aliases are applied before it returns. */
export function ask(
  { engine }: Pick<ShardsWorld, 'engine'>,
  call: string,
  body: unknown,
  { node = 0 }: { node?: number } = {},
): Promise<EngineAnswer> {
  const [method = '', target = ''] = call.split(' ')
  const { pathname, searchParams } = new URL(target, 'http://engine')
  const path = pathname.slice(1).split('/')
  // What the nodes have to agree on is an entry of their log.
  if (!path.includes('points')) engine.changes += 1
  return answerAs(engine, node, { method, path, query: Object.fromEntries(searchParams), body })
}

/** One call of a client: points that are written, or ids that are deleted. */
export type Change = { points: readonly Point[] } | { deleted: readonly number[] }

/** A client of the collection docs, which knows what a read has to find if its writes are acknowledged. */
export class Client {
  readonly #points: Map<unknown, Point>
  readonly #world: ShardsWorld
  #changes: Change[] = []
  #failed: Change[] = []

  constructor(world: ShardsWorld, points: readonly Point[]) {
    this.#world = world
    this.#points = new Map(points.map((point) => [point.id, point]))
  }

  get points(): Point[] {
    return [...this.#points.values()]
  }

  async write(change: Change, { wait, node }: { wait: boolean; node: number }): Promise<void> {
    const isDeletion = 'deleted' in change
    if (isDeletion) for (const id of change.deleted) this.#points.delete(id)
    else for (const point of change.points) this.#points.set(point.id, point)
    this.#changes.push(change)
    const call = isDeletion
      ? 'POST /collections/docs/points/delete'
      : 'PUT /collections/docs/points'
    const points = isDeletion ? change.deleted : change.points
    const body = { points: structuredClone(points) }
    const { status } = await ask(this.#world, `${call}?wait=${String(wait)}`, body, { node })
    if (status !== 200) this.#failed.push(change)
  }

  async repeatFailed(): Promise<void> {
    const failed = this.#failed
    this.#failed = []
    for (const change of failed) await this.write(change, { wait: true, node: 0 })
  }

  async repeatAll(): Promise<void> {
    const changes = this.#changes
    this.#changes = []
    for (const change of changes) await this.write(change, { wait: true, node: 0 })
  }
}

/** The node is killed: from now on it misses writes, and its transfers fail. */
export function killNode(world: ShardsWorld, ordinal: number): Promise<unknown> {
  world.engine.away.add(ordinal)
  const node = world.nodes.get(ordinal)
  world.nodes.delete(ordinal)
  failTransfers(world, ordinal)
  return Promise.all([node?.close(), world.setReady(ordinal, false)])
}

/** Transfers of a node that does not answer. */
export function failTransfers({ engine, peer }: ShardsWorld, ordinal: number): void {
  const id = peer(ordinal)
  for (const { shards } of engine.collections.values()) {
    for (const shard of shards) {
      for (const transfer of transfersOf(shard)) {
        if (transfer.from === id || transfer.to === id) abortTransfer(engine, shard, transfer)
      }
    }
  }
}

/** The node starts with its volume, and the engine repairs its Dead replicas, as it does by itself. */
export async function restartNode(world: ShardsWorld, ordinal: number): Promise<void> {
  const { engine } = world
  engine.away.delete(ordinal)
  world.nodes.set(ordinal, await startEngineNode({ ordinal, cluster: engine }))
  await world.setReady(ordinal, true)
  const restarted = world.peer(ordinal)
  const canBeRead = ['Active', 'ReshardingScaleDown']
  for (const collection of engine.collections.values()) {
    // It does not remember what it has cleaned.
    collection.cleaned = collection.cleaned?.filter((key) => !key.endsWith(`/${restarted}`)) ?? []
    for (const shard of collection.shards) {
      for (const to of shard.peers.filter((one) => stateOf(shard, one) === 'Dead')) {
        const from = shard.peers.find((one) => canBeRead.includes(stateOf(shard, one)))
        if (from === undefined) throw new Error(`shard ${shard.id} has no replica to copy`)
        copyReplica(collection, shard, { from, to, state: 'Recovery', sync: true, until: 0 })
        delete shard.states?.[to]
        engine.changes += 1
      }
    }
  }
}
