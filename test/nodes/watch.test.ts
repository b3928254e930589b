/** What ends a round: only the defects of the engine that are known and listed. */
import t from 'tap'
import { engineDefect } from './watch.ts'

const node = (thread: string, err?: string) => ({
  consensus_thread_status: { consensus_thread_status: thread, ...(err !== undefined && { err }) },
})

t.test(
  'a known defect of the engine is distinguished from other errors of the consensus',
  async (t) => {
    const known = 'Service internal error: Shard 10 does not exist'
    t.equal(engineDefect(node('stopped_with_err', known)), known)
    t.equal(engineDefect(node('stopped_with_err', 'No space left on device')), undefined)
    t.equal(engineDefect(node('stopped_with_err')), undefined)
    t.equal(engineDefect(node('working', known)), undefined)
  },
)
