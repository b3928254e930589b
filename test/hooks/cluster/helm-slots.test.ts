import t from 'tap'
import { HelmConcurrency } from '../../../hooks/cluster/helm-slots.ts'
import { NOW } from '../../builders.ts'

const after = (milliseconds: number) => new Date(NOW.getTime() + milliseconds)

t.test('a started run counts for the other clusters until its Job must be visible', async (t) => {
  const limit = new HelmConcurrency()
  limit.markStarted('one', NOW)
  t.equal(limit.slotsOfOthers('other', after(15_000)), 1)
  t.equal(limit.slotsOfOthers('other', after(15_001)), 0)
})

t.test('the run of the cluster itself does not count', async (t) => {
  const limit = new HelmConcurrency()
  limit.markStarted('one', NOW)
  limit.markStarted('two', NOW)
  t.equal(limit.slotsOfOthers('one', NOW), 1)
  t.equal(limit.slotsOfOthers('three', NOW), 2)
})

t.test('a run that is started again counts once, from the last start', async (t) => {
  const limit = new HelmConcurrency()
  limit.markStarted('one', NOW)
  limit.markStarted('one', after(10_000))
  t.equal(limit.slotsOfOthers('other', after(20_000)), 1)
})

t.test('a cluster whose Job did not start is queued behind the clusters that wait', async (t) => {
  const limit = new HelmConcurrency()
  limit.markNotStarted('stuck')
  limit.markNotStarted('also stuck')
  for (const uid of ['first', 'second', 'also stuck']) limit.markWaiting(uid, true, NOW)
  t.equal(limit.slotsOfOthers('stuck', NOW), 2, 'two stuck clusters do not wait for each other')
  t.equal(limit.slotsOfOthers('first', NOW), 0, 'a waiting cluster goes behind no other')
  t.equal(limit.slotsOfOthers('stuck', after(40_000)), 2)
  t.equal(limit.slotsOfOthers('stuck', after(40_001)), 0, 'they are gone')
})

t.test('a cluster that no longer waits for a slot blocks no other', async (t) => {
  const limit = new HelmConcurrency()
  limit.markNotStarted('stuck')
  for (const uid of ['blocked', 'deleted', 'started']) limit.markWaiting(uid, true, NOW)
  t.equal(limit.slotsOfOthers('stuck', NOW), 3)
  limit.markWaiting('blocked', false, NOW)
  t.equal(limit.slotsOfOthers('stuck', NOW), 2)
  limit.forget('deleted')
  t.equal(limit.slotsOfOthers('stuck', NOW), 1)
  limit.markStarted('started', NOW)
  t.equal(limit.slotsOfOthers('stuck', after(15_001)), 0)
})

t.test('a cluster that got a Job, or was deleted, is not queued', async (t) => {
  const limit = new HelmConcurrency()
  for (const uid of ['started', 'deleted']) limit.markNotStarted(uid)
  limit.markWaiting('other', true, NOW)
  t.equal(limit.slotsOfOthers('started', NOW), 1)
  t.equal(limit.slotsOfOthers('deleted', NOW), 1)
  limit.markStarted('started', NOW)
  limit.forget('deleted')
  t.equal(limit.slotsOfOthers('started', NOW), 0)
  t.equal(limit.slotsOfOthers('deleted', after(15_001)), 0)
})
