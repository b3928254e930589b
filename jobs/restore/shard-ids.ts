/**
 * Ids of shards under custom sharding. The engine gives the shards of a new key the ids behind the highest
 * that there is, so a backup of a collection whose keys come and go has ids with gaps. The snapshot of a
 * node fits only the same ids: the gaps are skipped. That of a shard fits any: a key with one shard takes
 * the next id. Keys with more keep theirs, for the ids decide which of the shards a point belongs to.
 */
import { Rejected } from '../../crds/errors.ts'
import type { ManifestCollection, ShardKey } from '../../crds/manifest.ts'
import type { Sight } from './sight.ts'
import type { Wanted } from './wanted.ts'

/** Each costs a shard that is created and deleted again, some hundredths of a second. */
export const MAX_SKIPPED = 10_000
/** Shards that are created in one step, and as many again before they are deleted. */
const SKIPPED_AT_ONCE = 20
/** Of keys that are created to skip ids, and deleted again. */
const GAP = '__vec_operator_gap'

type RecordedKey = ManifestCollection['shardKeys'][number]

/** What is done with a key, one step after the other. */
export type KeyStep = { create: ShardKey; shards: number } | { drop: ShardKey }

export interface KeyPlan {
  steps: KeyStep[]
  /** Ids at the target, by id in the backup. */
  ids: Map<number, number>
  /** Ids that are skipped. */
  skipped: number
}

/** How the keys of a collection that is not there are created. */
export function keyPlan({ method, source }: Pick<Wanted, 'method' | 'source'>): KeyPlan {
  const sorted = source.shardKeys.toSorted((one, other) => firstOf(one) - firstOf(other))
  const isMovable = ({ shardIds }: RecordedKey) => method === 'Shard' && shardIds.length === 1
  const movable = sorted.filter(isMovable)
  const steps = new Steps(sorted)
  for (const key of sorted) {
    if (isMovable(key)) continue
    while (steps.next < firstOf(key)) {
      const filler = movable.shift()
      if (filler === undefined) break
      steps.create(filler)
    }
    steps.skipTo(firstOf(key))
    steps.create(key)
  }
  for (const key of movable) steps.create(key)
  return steps
}

/** Throws where the keys of a collection that is not there cannot be created with ids that fit. */
export function refuseIds({ method, source, name }: Wanted): void {
  for (const { key, shardIds } of source.shardKeys) {
    const first = firstOf({ shardIds })
    const isRow = shardIds.toSorted(byNumber).every((id, index) => id === first + index)
    if (isRow) continue
    throw new Rejected(
      `shards ${shardIds.join(', ')} of shard key ${JSON.stringify(key)} of ${name} are not consecutive, and the engine creates no others: restore over a collection that has them, or copy it with a VecMigration`,
    )
  }
  const { skipped } = keyPlan({ method, source })
  if (skipped <= MAX_SKIPPED) return
  const instead =
    method === 'Node' ? 'restore a backup with method: Shard' : 'copy it with a VecMigration'
  throw new Rejected(
    `${skipped} shard ids of ${name} are no longer in use and would have to be skipped, more than the ${MAX_SKIPPED} that are possible: ${instead}`,
  )
}

/** With the ids that its shards have at the target, or will have there. */
export function atTarget<One extends Wanted>(wanted: One, sight: Sight | undefined): One {
  if (wanted.method === 'Node') return wanted
  const ids = sight === undefined ? keyPlan(wanted).ids : idsAt(wanted.source, sight)
  const idOf = (id: number) => ids.get(id) ?? id
  const moved = <Part extends { shardId: number }>(part: Part) => ({
    ...part,
    shardId: idOf(part.shardId),
  })
  const { shards, snapshots, shardKeys } = wanted.source
  const source = {
    ...wanted.source,
    shards: shards.map(moved),
    snapshots: snapshots.map(moved),
    shardKeys: shardKeys.map((key) => ({ ...key, shardIds: key.shardIds.map(idOf) })),
  }
  return { ...wanted, source }
}

/** Of keys that have one shard in the backup and one at the target. */
function idsAt({ shardKeys }: Wanted['source'], { keys }: Sight): Map<number, number> {
  const found = Map.groupBy(keys, ([, key]) => key)
  const pairs = shardKeys.flatMap(({ key, shardIds: [id, ...others] }): [number, number][] => {
    const [here, ...more] = found.get(key) ?? []
    if (id === undefined || here === undefined || others.length + more.length > 0) return []
    return [[id, here[0]]]
  })
  return new Map(pairs)
}

/** Collects steps; ids are handed out from 1 on. */
class Steps implements KeyPlan {
  readonly steps: KeyStep[] = []
  readonly ids = new Map<number, number>()
  skipped = 0
  next = 1
  readonly #taken: readonly ShardKey[]
  /** The key that holds the highest id of a gap, until another key does. */
  #gap: ShardKey | undefined

  constructor(recorded: readonly RecordedKey[]) {
    this.#taken = recorded.map(({ key }) => key)
  }

  create({ key, shardIds }: RecordedKey): void {
    this.#add(key, shardIds.length)
    for (const [index, id] of shardIds.toSorted(byNumber).entries()) {
      this.ids.set(id, this.next - shardIds.length + index)
    }
  }

  skipTo(first: number): void {
    while (this.next < first) {
      const shards = Math.min(SKIPPED_AT_ONCE, first - this.next)
      const key = this.#free(`${GAP}${this.next}`)
      this.skipped += shards
      this.#add(key, shards)
      this.#gap = key
    }
  }

  /** What was there to hold the id before it is not needed any more. */
  #add(key: ShardKey, shards: number): void {
    this.steps.push({ create: key, shards })
    if (this.#gap !== undefined) this.steps.push({ drop: this.#gap })
    this.#gap = undefined
    this.next += shards
  }

  #free(name: string): string {
    return this.#taken.includes(name) ? this.#free(`${name}_`) : name
  }
}

function firstOf({ shardIds }: Pick<RecordedKey, 'shardIds'>): number {
  return Math.min(...shardIds)
}

function byNumber(one: number, other: number): number {
  return one - other
}
