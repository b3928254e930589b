/**
 * How far a vector may be from its original once it is written again. The engine normalises vectors under
 * cosine, and rounds: one that it normalised before is normalised once more, where the sum of its squares
 * is not one to the last digit. All other vectors come back as they were written (docs/kinds/migration.md).
 */
import { isPlain, type Plain } from '../../crds/rules/objects.ts'

export interface Tolerance {
  relative: number
  /** For what is close to zero. */
  absolute: number
}

/** The sum of the squares of 65,536 floats of 32 bits is off by less. */
const COSINE: Tolerance = { relative: 1e-5, absolute: 1e-9 }
/** One step between two floats of 16 bits; between the smallest of them it is 2^-24. */
const COSINE_FLOAT16: Tolerance = { relative: 2 ** -10, absolute: 2 ** -24 }

/** Of the dense vectors in `config.params` of a collection; the unnamed one is under the empty name. */
export function tolerancesOf({ vectors }: Plain): Map<string, Tolerance> {
  if (!isPlain(vectors)) return new Map()
  const named = typeof vectors['size'] === 'number' ? { '': vectors } : vectors
  return new Map(
    Object.entries(named).flatMap(([name, vector]) => {
      const tolerance = isPlain(vector) ? toleranceOf(vector) : undefined
      return tolerance === undefined ? [] : [[name, tolerance]]
    }),
  )
}

function toleranceOf({ distance, datatype }: Plain): Tolerance | undefined {
  // Whole numbers are not normalised.
  if (distance !== 'Cosine' || datatype === 'uint8') return undefined
  return datatype === 'float16' ? COSINE_FLOAT16 : COSINE
}
