/** Where a restore stands in one collection: what is back of it, as it is told and as it is gone on from. */
import type { RestoreResult } from '../../crds/restore-command.ts'
import type { SourceSnapshot, Wanted } from './wanted.ts'

export type Current = NonNullable<RestoreResult['current']>

/** A recovery that a node may be at: of all it holds, or of one shard. */
export type Recovery = NonNullable<Current['running']>[number]

/** Ids of shards there is room for; those beyond are taken once more after a kill. */
const MAX_SHARDS = 2000

/** Where an earlier attempt was in a collection. */
export interface Left {
  nodesDone: number
  /** Ids of the shards that are back, of a backup by shard. */
  shardsDone: number[]
  isOurs: boolean
  /** Recoveries that its nodes may still be at; `unknown`: its release did not record them. */
  running: Recovery[] | 'unknown'
  /** Replication factor that the collection had before. */
  factor?: number | undefined
}

/** Nothing was done of another collection. */
export function leftIn(current: Current | undefined, collection: string): Left {
  if (current?.collection !== collection) {
    return { nodesDone: 0, shardsDone: [], isOurs: false, running: [] }
  }
  const { nodesDone, shardsDone = [], isOurs, factor } = current
  return { nodesDone, shardsDone, isOurs, factor, running: runningIn(current) }
}

/** Before these steps of its release had passed, no node was asked for a recovery. */
const FIRST_STEPS = ['begins', 'places its shards']

function runningIn({ running, step }: Current): Recovery[] | 'unknown' {
  return running ?? (FIRST_STEPS.includes(step) ? [] : 'unknown')
}

export function isSame(one: Recovery, other: Recovery): boolean {
  return one.node === other.node && one.shard === other.shard
}

export function isBegun(left: Left): boolean {
  return holdsSome(left) || left.isOurs
}

/** Some of its points are back. */
export function holdsSome({ nodesDone, shardsDone }: Left): boolean {
  return nodesDone > 0 || shardsDone.length > 0
}

/** Of the snapshots that are back. */
export function bytesBack({ source }: Wanted, { nodesDone, shardsDone }: Left): number {
  const isBack = (one: SourceSnapshot) =>
    'shardId' in one ? shardsDone.includes(one.shardId) : one.nodeIndex < nodesDone
  const all: SourceSnapshot[] = source.snapshots
  return all.filter(isBack).reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
}

/** In the fields of its method. */
export function doneIn({ method, source }: Wanted, { nodesDone, shardsDone }: Left) {
  return { nodesDone, ...(method === 'Shard' && { shards: source.shards.length, shardsDone }) }
}

export function doneOf({ nodesDone, nodes, shardsDone, shards }: Current): string {
  if (shards === undefined) return `${nodesDone} of ${nodes} nodes done`
  return `${shardsDone?.length ?? 0} of ${shards} shards done`
}

export function bounded({ shardsDone, ...current }: Current): Current {
  if (shardsDone === undefined) return current
  return { ...current, shardsDone: shardsDone.slice(0, MAX_SHARDS) }
}
