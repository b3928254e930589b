import t from 'tap'
import { HelmConcurrency } from '../../../hooks/cluster/helm-concurrency.ts'
import { NOW } from '../../builders.ts'

const after = (milliseconds: number) => new Date(NOW.getTime() + milliseconds)

t.test('a started run counts for the other clusters until its Job must be visible', async (t) => {
  const limit = new HelmConcurrency()
  limit.markStarted('one', NOW)
  t.equal(limit.othersStarting('other', after(15_000)), 1)
  t.equal(limit.othersStarting('other', after(15_001)), 0)
})

t.test('the run of the cluster itself does not count', async (t) => {
  const limit = new HelmConcurrency()
  limit.markStarted('one', NOW)
  limit.markStarted('two', NOW)
  t.equal(limit.othersStarting('one', NOW), 1)
  t.equal(limit.othersStarting('three', NOW), 2)
})

t.test('a run that is started again counts once, from the last start', async (t) => {
  const limit = new HelmConcurrency()
  limit.markStarted('one', NOW)
  limit.markStarted('one', after(10_000))
  t.equal(limit.othersStarting('other', after(20_000)), 1)
})
