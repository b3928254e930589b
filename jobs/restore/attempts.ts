/** How often a snapshot is brought to a node, and what is waited for before each time. */
import { EngineError } from '../../crds/errors.ts'
import { isPassing } from '../patience.ts'
import { recoveryOn, type Work } from './work.ts'

/** A node that is restarted needs about so long to serve again. */
const RETRIES_MS = [5_000, 20_000, 60_000]
const POLL_MS = 5_000
/** A recovery that nobody waits for any more ends within the hour that a call may take. */
const RUNNING_MS = 3_600_000

/** Tried again for as long as a node may be restarted; `of` is what the log says of it. */
export async function attempted(
  of: { collection: string; node: number; shard?: number },
  act: () => Promise<void>,
  { tools }: Pick<Work, 'tools'>,
): Promise<void> {
  const { signal, log, time, reporter } = tools
  for (const delay of [...RETRIES_MS, undefined]) {
    try {
      await act()
      return
    } catch (error) {
      signal.throwIfAborted()
      if (!isPassing(error) || delay === undefined) throw error
      log.warn({ ...of, reason: error.message, seconds: delay / 1000 }, 'tries again')
      await time.sleep(delay, signal)
      await reporter.confirm()
    }
  }
}

/** An earlier pod's call may still be at work there, and nothing keeps two of them apart. */
export async function untilIdle(name: string, node: number, work: Work): Promise<void> {
  const { time, log, signal } = work.tools
  for (let waited = 0; ; waited += POLL_MS) {
    if (!(await recoveryOn(work, node).isRecovering(name, signal))) return
    if (waited >= RUNNING_MS) {
      throw new EngineError(`node ${node} has been taking a snapshot of ${name} for an hour`, {
        status: 400,
      })
    }
    log.info({ collection: name, node }, 'waits for the recovery that runs there')
    work.tally.tell()
    await time.sleep(POLL_MS, signal)
    await work.tally.told()
  }
}
