/** Work of which some may be done at once, and some only one after the other. */

/**
 * The items of a lane one after the other, so many lanes at once. Past the first failure nothing more is
 * begun; what is under way comes to its end before that failure is thrown.
 */
export async function inLanes<Item>(
  lanes: readonly (readonly Item[])[],
  atOnce: number,
  act: (item: Item) => Promise<void>,
): Promise<void> {
  const failures: unknown[] = []
  const waiting = lanes.values()
  const worker = async () => {
    for (const lane of waiting) {
      for (const item of lane) {
        if (failures.length > 0) return
        await act(item).catch((error: unknown) => failures.push(error))
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, lanes.length) }, worker))
  if (failures.length > 0) throw failures[0]
}
