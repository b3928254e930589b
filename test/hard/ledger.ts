/**
 * What was written and what of it was acknowledged, operation by operation. Time is a counter, so that
 * "before" never depends on a clock.
 */

/** Under a shard key an id is a point of its own. */
export interface PointName {
  collection: string
  key?: string
  id: number
}

interface Operation {
  /** Version written; null deletes. */
  version: number | null
  startedAt: number
  acknowledgedAt?: number
}

/** A write in progress. It counts as acknowledged only once `acknowledge` was called. */
export interface Write {
  acknowledge(): void
}

/** Versions that a copy taken in a time span may have; null means "absent". */
export type Allowed = ReadonlySet<number | null>

export class Ledger {
  #time = 0
  readonly #operations = new Map<string, { name: PointName; operations: Operation[] }>()

  /** A moment: everything acknowledged before it counts as acknowledged at it. */
  now(): number {
    this.#time += 1
    return this.#time
  }

  begin(name: PointName, version: number | null): Write {
    const operation: Operation = { version, startedAt: this.now() }
    const text = textOf(name)
    const found = this.#operations.get(text)
    if (found === undefined) this.#operations.set(text, { name, operations: [operation] })
    else found.operations.push(operation)
    return { acknowledge: () => (operation.acknowledgedAt = this.now()) }
  }

  /** Points of a collection that were ever written. */
  names(collection: string): PointName[] {
    return [...this.#operations.values()]
      .map(({ name }) => name)
      .filter((name) => name.collection === collection)
  }

  /** Points that are there for certain: the last operation is an acknowledged upsert. */
  live(collection: string): PointName[] {
    return this.names(collection).filter((name) => {
      const last = this.#operations.get(textOf(name))?.operations.at(-1)
      return last?.acknowledgedAt !== undefined && last.version !== null
    })
  }

  /** Whether the point was ever written. */
  knows(name: PointName): boolean {
    return this.#operations.has(textOf(name))
  }

  /** The version of the last operation, acknowledged or not; null when it deletes. */
  last(name: PointName): number | null | undefined {
    return this.#operations.get(textOf(name))?.operations.at(-1)?.version
  }

  /** Whether an operation on the point was never acknowledged: what it did is unknown. */
  isUncertain(name: PointName): boolean {
    const { operations = [] } = this.#operations.get(textOf(name)) ?? {}
    return operations.some(({ acknowledgedAt }) => acknowledgedAt === undefined)
  }

  /**
   * What a copy taken between `from` and `to` may hold of a point: the last value acknowledged by `from`,
   * any value whose write began later, and the value of any write whose outcome is unknown.
   */
  allowed(name: PointName, from: number, to: number): Allowed {
    const { operations = [] } = this.#operations.get(textOf(name)) ?? {}
    const acknowledged = operations.findLastIndex(
      ({ acknowledgedAt = Infinity }) => acknowledgedAt <= from,
    )
    const allowed = new Set<number | null>()
    allowed.add(operations[acknowledged]?.version ?? null)
    for (const [index, { version, startedAt, acknowledgedAt }] of operations.entries()) {
      const isOpen = index > acknowledged || acknowledgedAt === undefined
      if (isOpen && startedAt <= to) allowed.add(version)
    }
    return allowed
  }
}

function textOf({ collection, key, id }: PointName): string {
  return JSON.stringify([collection, key ?? null, id])
}
