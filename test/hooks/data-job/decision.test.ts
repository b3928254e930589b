/** What the statuses of a backup, a restore and a migration share. */
import t from 'tap'
import { completionFields, unfinishedPercentage } from '../../../hooks/data-job/decision.ts'

t.test('of nothing, nothing is done', async (t) => {
  t.equal(unfinishedPercentage(0, 0), 0)
})

t.test('unfinished work is never shown as more than 99 percent', async (t) => {
  t.strictSame(
    [0, 1, 199, 200].map((done) => unfinishedPercentage(done, 200)),
    [0, 0, 99, 99],
  )
})

t.test('a status shows the first 4096 characters of an error', async (t) => {
  const ended = { phase: 'Failed', at: '2026-03-01T11:59:55.700Z' } as const
  t.strictSame(completionFields({ ...ended, error: `${'a'.repeat(4096)}b` }), {
    completionTime: '2026-03-01T11:59:55Z',
    error: 'a'.repeat(4096),
  })
  t.strictSame(completionFields(ended), { completionTime: '2026-03-01T11:59:55Z' })
})
