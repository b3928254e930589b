/**
 * The points that the writer writes. A point is a function of its id and version, so that a point read
 * back can be compared whole: id, payload and every vector. All numbers are exact in 32-bit floats.
 */

export interface StoredPoint {
  id: number
  vector: unknown
  payload: unknown
}

/** A dense, a multi and a sparse vector. Dot keeps values as they are written. */
export const VECTORS = {
  vectors: {
    dense: { size: 8, distance: 'Dot' },
    multi: { size: 2, distance: 'Dot', multivector_config: { comparator: 'max_sim' } },
  },
  sparse_vectors: { sparse: {} },
}

export function pointOf(id: number, version: number): StoredPoint {
  const part = (n: number) => ((id * 31 + version * 17 + n * 7) % 257) / 4
  return {
    id,
    vector: {
      dense: Array.from({ length: 8 }, (_, n) => part(n)),
      multi: [
        [part(8), part(9)],
        [part(10), part(11)],
      ],
      sparse: { indices: [id % 100, 100 + (version % 100)], values: [part(12) + 1, part(13) + 1] },
    },
    payload: { version, label: `point ${id}`, tags: [`t${id % 5}`, `v${version % 3}`] },
  }
}

/** Text that is equal for equal points: replicas differ in the order of keys. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  )
}

/** The version a point claims to have, if it is whole: the point written under that version. */
export function versionOf({ id, vector, payload }: StoredPoint): number | undefined {
  const { version } = (payload ?? {}) as { version?: unknown }
  if (typeof version !== 'number') return undefined
  const whole = canonical({ id, vector, payload }) === canonical(pointOf(id, version))
  return whole ? version : undefined
}
