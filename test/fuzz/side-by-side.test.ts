import t from 'tap'
import { matchWhole } from '../match-whole.ts'
import { manifests } from './manifests.ts'
import { fuzz } from './run.ts'
import { fuzzAll, type Part } from './side-by-side.ts'

const SEED = 7
const COUNT = 40

t.test('the same seed gives the same cases, also while other processes run', async (t) => {
  const part: Part = { subject: manifests.name, isWorld: false, seed: SEED, count: COUNT }
  const reported: string[] = []
  const [one, other] = await fuzzAll([part, part], ({ subject }) => void reported.push(subject))
  const alone = await fuzz(manifests, { seed: SEED, count: COUNT })
  t.strictSame(one?.kinds, alone.kinds)
  t.strictSame(other?.kinds, alone.kinds)
  t.strictSame(reported, [manifests.name, manifests.name])
})

t.test('a run that is stopped early reports its results so far', async (t) => {
  const end = new AbortController()
  const part: Part = { subject: manifests.name, isWorld: false, seed: SEED, count: 1_000_000 }
  const last: Part = { ...part, count: COUNT }
  const [long] = await fuzzAll([part, last], () => end.abort(), end.signal)
  t.ok((long?.cases ?? 0) < part.count)
  t.strictSame(long?.failures, [])
})

t.test('a run that was ended before it began ends at once', async (t) => {
  const { cases, failures } = await fuzz(manifests, {
    ...{ seed: SEED, count: COUNT, enough: AbortSignal.abort() },
  })
  t.ok(cases < COUNT)
  t.strictSame(failures, [])
})

t.test('a process that ends without a report is run once more, then is a failure', async (t) => {
  const part: Part = { subject: 'nothing', isWorld: false, seed: SEED, count: COUNT }
  const [lost] = await fuzzAll([part], () => undefined)
  t.equal(lost?.cases, 0)
  matchWhole(t, lost?.failures, [{ why: `the process of seed ${SEED} ended with 1` }])
})
