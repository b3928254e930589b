/**
 * Points that differ between the two sides: their number by kind, and their ids as far as memory
 * allows.
 */
import type { CopyScope } from './page-reader.ts'

/** `extra`: on the target only. */
export type DifferenceKind = 'missing' | 'different' | 'extra'

/** An id takes about a hundred bytes. */
const MAX_LISTED = 20_000
const MAX_DESCRIBED = 3

const LABELS: Record<DifferenceKind, string> = {
  missing: 'missing on the target',
  different: 'different on the target',
  extra: 'on the target only',
}

export class Differences {
  readonly #counts: Record<DifferenceKind, number>
  readonly #listed: Record<DifferenceKind, [scope: CopyScope, id: string][]> = {
    ...{ missing: [], different: [], extra: [] },
  }

  /** `extra` is a number of points on the target only whose ids are unknown. */
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

  /** Whether the id of every point of these kinds is listed. */
  areListed(...kinds: DifferenceKind[]): boolean {
    return kinds.every((kind) => this.unlisted(kind) === 0)
  }

  /** Number of points whose ids are not listed. */
  unlisted(kind: DifferenceKind): number {
    return this.#counts[kind] - this.#listed[kind].length
  }

  /** Ids, as JSON, by their scope. */
  ids(...kinds: DifferenceKind[]): Map<CopyScope, string[]> {
    const ids = new Map<CopyScope, string[]>()
    for (const [scope, id] of kinds.flatMap((kind) => this.#listed[kind])) {
      const scopeIds = ids.get(scope)
      if (scopeIds === undefined) ids.set(scope, [id])
      else scopeIds.push(id)
    }
    return ids
  }

  /**
   * Readable descriptions, for example `2 missing on the target (5, 7)`; empty without differences.
   */
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
