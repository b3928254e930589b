import t from 'tap'
import { expiredJobs } from '../../hooks/job-watch.ts'
import { context, helmJob, settings } from '../builders.ts'

const HISTORY = settings.historySeconds
const names = (dropped: { name: string }[]) => dropped.map(({ name }) => name)
const all = () => true

t.test(
  'a Job that ended goes once its history time is over, and not a second before',
  async (t) => {
    const young = helmJob({ run: 1, ended: ['Complete', HISTORY] })
    const old = helmJob({ run: 2, ended: ['Complete', HISTORY + 1] })
    t.strictSame(expiredJobs([young, old], all, context), [
      { kind: 'Job', name: old.metadata.name, reason: 'its history time is over' },
    ])
  },
)

t.test('a Job stays until its result is in the status of its parent', async (t) => {
  const old = helmJob({ ended: ['Complete', HISTORY + 1] })
  t.strictSame(
    expiredJobs([old], () => false, context),
    [],
  )
  t.strictSame(names(expiredJobs([old], all, context)), [old.metadata.name])
})

t.test('a Job that has not ended stays, however old it is', async (t) => {
  t.strictSame(expiredJobs([helmJob({ createdAgo: 10 * HISTORY })], all, context), [])
  const ended = helmJob({ createdAgo: 10 * HISTORY, ended: ['Complete', 9 * HISTORY] })
  t.strictSame(names(expiredJobs([ended], all, context)), [ended.metadata.name])
})

t.test('a Job without an end time is retained, because its age is unknown', async (t) => {
  const job = helmJob()
  job.status = { conditions: [{ type: 'Complete', status: 'True' }] }
  t.strictSame(expiredJobs([job], all, context), [])
})

t.test(
  'of failed runs the newest three stay, whatever their order; of those that completed too',
  async (t) => {
    const failed = [2, 5, 1, 4, 3].map((run) => helmJob({ run, ended: ['Failed', 60] }))
    const done = [6, 7, 8, 9].map((run) => helmJob({ run, ended: ['Complete', 60] }))
    const dropped = expiredJobs([...done, ...failed], all, context)
    const [second, , first] = failed
    const [oldest] = done
    t.strictSame(
      names(dropped),
      [oldest, second, first].map((job) => job?.metadata.name),
    )
    t.equal(dropped[0]?.reason, 'newer runs are kept')
  },
)
