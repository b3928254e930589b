/** Runs the restore of one collection, so that its failure does not stop the others. */
import { isReportable, withHint } from '../retry.ts'
import type { RunContext } from './context.ts'

/** Returns whether `act` succeeded. An error that a user can fix fails this collection only. */
export async function attemptCollection(
  name: string,
  act: () => Promise<void>,
  context: RunContext,
): Promise<boolean> {
  const { tools, progress } = context
  try {
    await act()
    return true
  } catch (error) {
    tools.signal.throwIfAborted()
    if (!isReportable(error)) throw error
    const message = withHint(error.message)
    tools.log.error({ collection: name, reason: message }, `collection ${name} failed`)
    progress.failed(name, message)
    return false
  }
}
