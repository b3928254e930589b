/** What is not equal on both sides: how much of each kind, and which points, as far as memory allows. */
import type { CopyScope } from './page-reader.ts'

/** `extra`: on the target only. */
export type DifferenceKind = 'missing' | 'different' | 'extra'

/** One id takes some hundred bytes. */
const MAX_LISTED = 20_000
const MAX_DESCRIBED = 3

const LABELS: Record<DifferenceKind, string> = {
  missing: 'missing on the target',
  different: 'different on the target',
  extra: 'on the target only',
}

export class Differences {
  readonly #counts: Record<DifferenceKind, number>
  readonly #listed: Record<DifferenceKind, [place: CopyScope, id: string][]> = {
    ...{ missing: [], different: [], extra: [] },
  }

  /** So many on the target only are known without their ids. */
  constructor(extra = 0) {
    this.#counts = { missing: 0, different: 0, extra }
  }

  add(kind: DifferenceKind, scope: CopyScope, id: string): void {
    this.#counts[kind] += 1
    if (this.#listed[kind].length < MAX_LISTED) this.#listed[kind].push([scope, id])
  }

  count(...kinds: DifferenceKind[]): number {
    return kinds.reduce((sum, kind) => sum + this.#counts[kind], 0)
  }

  /** Whether each point of these kinds is known by its id. */
  areListed(...kinds: DifferenceKind[]): boolean {
    return kinds.every((kind) => this.unlisted(kind) === 0)
  }

  /** Those whose ids had no room. */
  unlisted(kind: DifferenceKind): number {
    return this.#counts[kind] - this.#listed[kind].length
  }

  /** Ids, as JSON, by the place they are in. */
  ids(...kinds: DifferenceKind[]): Map<CopyScope, string[]> {
    const ids = new Map<CopyScope, string[]>()
    for (const [scope, id] of kinds.flatMap((kind) => this.#listed[kind])) {
      const scopeIds = ids.get(scope)
      if (scopeIds === undefined) ids.set(scope, [id])
      else scopeIds.push(id)
    }
    return ids
  }

  /** In words, such as `2 missing on the target (5, 7)`; empty where there are none. */
  describe(): string[] {
    return (['missing', 'different', 'extra'] as const).flatMap((kind) => {
      const count = this.#counts[kind]
      if (count === 0) return []
      const examples = this.#listed[kind]
        .slice(0, MAX_DESCRIBED)
        .map(([scope, id]) => formatId(scope, id))
      const ellipsis = count > examples.length ? ', ...' : ''
      return [`${count} ${LABELS[kind]} (${examples.join(', ')}${ellipsis})`]
    })
  }
}

function formatId({ shardKey }: CopyScope, id: string): string {
  return shardKey === undefined ? id : `${id} under shard key ${JSON.stringify(shardKey)}`
}
