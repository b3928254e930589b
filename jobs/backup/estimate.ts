/** How many bytes a backup will have in all: nobody knows before each snapshot is made, but points are counted. */

/** Bytes of what is known, or undefined while nothing is. */
export function estimatedBytes(
  points: ReadonlyMap<string, number>,
  known: ReadonlyMap<string, number>,
): number | undefined {
  let bytes = 0
  let pointsOfKnown = 0
  for (const [name, size] of known) {
    bytes += size
    pointsOfKnown += points.get(name) ?? 0
  }
  if (pointsOfKnown === 0) return undefined
  const rest = [...points].filter(([name]) => !known.has(name))
  const pointsLeft = rest.reduce((sum, [, count]) => sum + count, 0)
  return Math.round(bytes + pointsLeft * (bytes / pointsOfKnown))
}
