/** What is not equal on both sides: how much of each kind, and which points, as far as memory allows. */
import type { Place } from './pages.ts'

/** `extra`: on the target only. */
export type Kind = 'missing' | 'different' | 'extra'

/** One id takes some hundred bytes. */
const MAX_KEPT = 20_000
const NAMED = 3

const WORDS: Record<Kind, string> = {
  missing: 'missing on the target',
  different: 'different on the target',
  extra: 'on the target only',
}

export class Differences {
  readonly #counts: Record<Kind, number>
  readonly #kept: Record<Kind, [place: Place, id: string][]> = {
    ...{ missing: [], different: [], extra: [] },
  }

  /** So many on the target only are known without their ids. */
  constructor(extra = 0) {
    this.#counts = { missing: 0, different: 0, extra }
  }

  add(kind: Kind, place: Place, id: string): void {
    this.#counts[kind] += 1
    if (this.#kept[kind].length < MAX_KEPT) this.#kept[kind].push([place, id])
  }

  count(...kinds: Kind[]): number {
    return kinds.reduce((sum, kind) => sum + this.#counts[kind], 0)
  }

  /** Whether each point of these kinds is known by its id. */
  areKnown(...kinds: Kind[]): boolean {
    return kinds.every((kind) => this.unknown(kind) === 0)
  }

  /** Those whose ids had no room. */
  unknown(kind: Kind): number {
    return this.#counts[kind] - this.#kept[kind].length
  }

  /** Ids, as JSON, by the place they are in. */
  ids(...kinds: Kind[]): Map<Place, string[]> {
    const ids = new Map<Place, string[]>()
    for (const [place, id] of kinds.flatMap((kind) => this.#kept[kind])) {
      const known = ids.get(place)
      if (known === undefined) ids.set(place, [id])
      else known.push(id)
    }
    return ids
  }

  /** In words, such as `2 missing on the target (5, 7)`; empty where there are none. */
  words(): string[] {
    return (['missing', 'different', 'extra'] as const).flatMap((kind) => {
      const count = this.#counts[kind]
      if (count === 0) return []
      const some = this.#kept[kind].slice(0, NAMED).map(([place, id]) => named(place, id))
      const more = count > some.length ? ', ...' : ''
      return [`${count} ${WORDS[kind]} (${some.join(', ')}${more})`]
    })
  }
}

function named({ shardKey }: Place, id: string): string {
  return shardKey === undefined ? id : `${id} under shard key ${JSON.stringify(shardKey)}`
}
