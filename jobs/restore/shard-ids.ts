/**
 * Shard ids with custom sharding. The engine gives the shards of a new key the ids after the
 * highest existing one (docs/engine-notes.md, "Collections"), so a backup of a collection whose
 * keys were created and deleted has gaps in its ids. A node snapshot fits only the same ids, so the
 * gaps are skipped. A shard snapshot fits any id, so a key with one shard takes the next id. Keys
 * with several shards keep their ids, because the ids decide to which of these shards a point
 * belongs.
 */
import { Rejected } from '../../crds/contract/errors.ts'
import type { ManifestCollection, ShardKey } from '../../crds/contract/manifest.ts'
import type { ReportedShards } from './placement.ts'
import type { RestoreItem } from '../manifest-check.ts'

/** Each skipped id costs a shard that is created and deleted again, some hundredths of a second. */
export const MAX_SKIPPED = 10_000
/** Shards created in one step. They are deleted after the next step, so twice as many can exist. */
const SKIP_BATCH = 20
/** Name prefix of the keys that are created to skip ids and then deleted. */
const PLACEHOLDER_KEY = '__vec_operator_gap'

type RecordedKey = ManifestCollection['shardKeys'][number]

/** One step creates or deletes a key; the steps run in order. */
export type KeyStep = { create: ShardKey; shards: number } | { drop: ShardKey }

export interface KeyPlan {
  steps: KeyStep[]
  /** Ids at the target, by id in the backup. */
  ids: Map<number, number>
  /** Number of skipped ids. */
  skipped: number
}

/** Plans how the keys of a new collection are created. */
export function keyPlan({ method, source }: Pick<RestoreItem, 'method' | 'source'>): KeyPlan {
  const sorted = source.shardKeys.toSorted((a, b) => lowestId(a) - lowestId(b))
  const isMovable = ({ shardIds }: RecordedKey) => method === 'Shard' && shardIds.length === 1
  const movable = sorted.filter(isMovable)
  const builder = new KeyPlanBuilder(sorted)
  for (const key of sorted) {
    if (isMovable(key)) continue
    while (builder.next < lowestId(key)) {
      const filler = movable.shift()
      if (filler === undefined) break
      builder.create(filler)
    }
    builder.skipTo(lowestId(key))
    builder.create(key)
  }
  for (const key of movable) builder.create(key)
  return builder
}

/** Throws if the keys of a new collection cannot be created with ids that fit. */
export function checkShardIds({ method, source, name }: RestoreItem): void {
  for (const { key, shardIds } of source.shardKeys) {
    const first = lowestId({ shardIds })
    const isConsecutive = shardIds.toSorted(byNumber).every((id, index) => id === first + index)
    if (isConsecutive) continue
    throw new Rejected(
      `shards ${shardIds.join(', ')} of shard key ${JSON.stringify(key)} of ${name} are not consecutive, and the engine creates no others: restore over a collection that has them, or copy it with a VecMigration`,
    )
  }
  const { skipped } = keyPlan({ method, source })
  if (skipped <= MAX_SKIPPED) return
  const alternative =
    method === 'Node' ? 'restore a backup with method: Shard' : 'copy it with a VecMigration'
  throw new Rejected(
    `${skipped} shard ids of ${name} are no longer in use and would have to be skipped, more than the ${MAX_SKIPPED} that are possible: ${alternative}`,
  )
}

/** The item with the ids that its shards have, or will have, at the target. */
export function withTargetIds<Item extends RestoreItem>(
  item: Item,
  view: ReportedShards | undefined,
): Item {
  if (item.method === 'Node') return item
  const ids = view === undefined ? keyPlan(item).ids : targetIds(item.source, view)
  const targetId = (id: number) => ids.get(id) ?? id
  const withTargetId = <Entry extends { shardId: number }>(entry: Entry) => ({
    ...entry,
    shardId: targetId(entry.shardId),
  })
  const { shards, snapshots, shardKeys } = item.source
  const source = {
    ...item.source,
    shards: shards.map(withTargetId),
    snapshots: snapshots.map(withTargetId),
    shardKeys: shardKeys.map((key) => ({ ...key, shardIds: key.shardIds.map(targetId) })),
  }
  return { ...item, source }
}

/** Ids of the keys that have one shard in the backup and one at the target. */
function targetIds(
  { shardKeys }: RestoreItem['source'],
  { keys }: ReportedShards,
): Map<number, number> {
  const shardsByKey = Map.groupBy(keys, ([, key]) => key)
  const pairs = shardKeys.flatMap(({ key, shardIds: [id, ...others] }): [number, number][] => {
    const [target, ...otherShards] = shardsByKey.get(key) ?? []
    if (id === undefined || target === undefined || others.length + otherShards.length > 0)
      return []
    return [[id, target[0]]]
  })
  return new Map(pairs)
}

/** Collects the steps; assigns ids from 1 on. */
class KeyPlanBuilder implements KeyPlan {
  readonly steps: KeyStep[] = []
  readonly ids = new Map<number, number>()
  skipped = 0
  next = 1
  readonly #usedKeys: readonly ShardKey[]
  /** The key that holds the highest id of a gap, until the next key is created. */
  #placeholder: ShardKey | undefined

  constructor(recorded: readonly RecordedKey[]) {
    this.#usedKeys = recorded.map(({ key }) => key)
  }

  create({ key, shardIds }: RecordedKey): void {
    this.#add(key, shardIds.length)
    for (const [index, id] of shardIds.toSorted(byNumber).entries()) {
      this.ids.set(id, this.next - shardIds.length + index)
    }
  }

  skipTo(first: number): void {
    while (this.next < first) {
      const shards = Math.min(SKIP_BATCH, first - this.next)
      const key = this.#unusedName(`${PLACEHOLDER_KEY}${this.next}`)
      this.skipped += shards
      this.#add(key, shards)
      this.#placeholder = key
    }
  }

  /** Deletes the previous placeholder once the new key holds the highest id. */
  #add(key: ShardKey, shards: number): void {
    this.steps.push({ create: key, shards })
    if (this.#placeholder !== undefined) this.steps.push({ drop: this.#placeholder })
    this.#placeholder = undefined
    this.next += shards
  }

  #unusedName(name: string): string {
    return this.#usedKeys.includes(name) ? this.#unusedName(`${name}_`) : name
  }
}

function lowestId({ shardIds }: Pick<RecordedKey, 'shardIds'>): number {
  return Math.min(...shardIds)
}

function byNumber(a: number, b: number): number {
  return a - b
}
