/** Waits until the machine is nearly idle, so that one measurement does not disturb the next. */
import { execFile } from 'node:child_process'
import { cpus } from 'node:os'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'

/** Share of all processors within a second. */
const BUSY_SHARE = 0.05
/** Other work on the machine may never end. */
const AT_MOST_SECONDS = 60

/** Engines work for seconds after a collection is deleted, and the kernel writes their data. */
export async function rest(): Promise<void> {
  await promisify(execFile)('sync')
  for (let seconds = 0; seconds < AT_MOST_SECONDS; seconds += 1) {
    const before = spent()
    await setTimeout(1000)
    const after = spent()
    if (after.busy - before.busy < BUSY_SHARE * (after.all - before.all)) return
  }
}

/** Milliseconds of all processors since the machine started. */
function spent(): { busy: number; all: number } {
  const times = cpus().map((cpu) => cpu.times)
  const all = times.flatMap((each) => Object.values(each)).reduce((sum, each) => sum + each, 0)
  return { busy: all - times.reduce((sum, { idle }) => sum + idle, 0), all }
}
